#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Draws docs/pictures/portions.svg: the same portions as each policy places them, packed and padded, side by side.

    profiling/report/plot_portions.py docs/pictures/portions.svg

The places are those that `portion_tree` gives when these portions are taken in this order; the test
`both_policies.place_the_portions_of_the_picture` (tests/portion_tree) holds them. Needs matplotlib (package
python3-matplotlib); the same version of it writes the same bytes.

Exit codes: 0 done; 2 it cannot be done: one line on standard error says why.
"""

import argparse
import math
import sys
from pathlib import Path

LEAVES = 32  # of 64 KiB, in a VA block
BLOCKS = 2
# (name, leaves asked for, (block, first leaf, leaves) packed, the same padded)
PORTIONS = [
    ("a", 5, (0, 0, 5), (0, 0, 8)),
    ("b", 1, (0, 5, 1), (0, 16, 1)),
    ("c", 2, (0, 6, 2), (0, 20, 2)),
    ("d", 8, (0, 8, 8), (1, 0, 8)),
    ("e", 3, (0, 16, 3), (0, 24, 4)),
    ("f", 1, (0, 19, 1), (0, 18, 1)),
]
COLOURS = ("#4c9f70", "#e0a458", "#5b8db8", "#b5656b", "#8e7cc3", "#7f7f7f")


def placed(policy):
    """[(name, block, first leaf, own leaves, reserved leaves)] under "packed" or "padded"."""
    places = []
    for name, _, packed, padded in PORTIONS:
        block, first, own = packed if policy == "packed" else padded
        places.append((name, block, first, own, own if policy == "packed" else 2 * own))
    return places


def draw_policy(axes, policy, title):
    from matplotlib.patches import Rectangle

    for block in range(BLOCKS):
        lines = [(x, y) for leaf in range(1, LEAVES) for x, y in ((leaf, 0), (leaf, 0.6), (math.nan, 0))]
        axes.plot([x for x, _ in lines], [y - block for _, y in lines], color="0.8", linewidth=0.5)
        axes.add_patch(Rectangle((0, -block), LEAVES, 0.6, fill=False, edgecolor="0.3", linewidth=1))
        axes.text(0, 0.66 - block, f"VA block {block}", fontsize=8, color="0.3")
    for (name, block, first, own, reserved), colour in zip(placed(policy), COLOURS):
        if reserved > own:
            axes.add_patch(Rectangle((first + own, -block), reserved - own, 0.6, facecolor=colour, alpha=0.25,
                                     hatch="////", edgecolor=colour, linewidth=0))
            axes.add_patch(Rectangle((first, -block), reserved, 0.6, fill=False, edgecolor=colour, linewidth=1.6))
        axes.add_patch(Rectangle((first, -block), own, 0.6, facecolor=colour, edgecolor="0.2", linewidth=0.8))
        axes.text(first + own / 2, 0.3 - block, name, fontsize=9, ha="center", va="center", color="white")
    axes.set_xlim(-0.5, LEAVES + 0.5)
    axes.set_ylim(0.9 - BLOCKS, 1.0)
    axes.set_title(title, fontsize=9)
    axes.axis("off")


def draw(output):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "orchard", "svg.fonttype": "none"})
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 1.9))
    draw_policy(left, "packed", "packed: side by side")
    draw_policy(right, "padded", "padded: left children; the right halves (hatched) stay empty")
    figure.tight_layout()
    figure.savefig(output, metadata={"Date": None})


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Draw portions as each policy places them.")
    parser.add_argument("output", type=Path, help="the picture: an .svg file")
    options = parser.parse_args(arguments)
    try:
        if options.output.suffix != ".svg":
            raise ValueError(f"{options.output}: give a name that ends in .svg")
        draw(options.output)
    except ImportError:
        print("plot_portions.py: matplotlib is not installed; on Debian: apt-get install python3-matplotlib "
              "(cmake/packages.txt, group plots)", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"plot_portions.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
