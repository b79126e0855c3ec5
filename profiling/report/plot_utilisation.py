#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Plots how full RW_malloc makes a heap, by request size, one line for each unit size.

Reads the rows that `orchard bench unit_utilisation --json FILE` writes. The output's ending says its kind: .png or .svg.

Exit codes: 0 done; 2 it cannot be done: one line on standard error says why.
"""

import argparse
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the checkout stays as it is

import misshapen

KEYS = ("unit", "bytes", "bytes_to", "utilisation")


def rows_of(path):
    """The rows of a file; ValueError says what is wrong with it."""
    try:
        rows = misshapen.rows_of(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(rows, list) or not rows:
        raise ValueError(f"{path}: no rows; write it with `orchard bench unit_utilisation --json {path}`")
    for number, row in enumerate(rows):
        for key in KEYS:
            if not isinstance(row, dict) or not isinstance(row.get(key), (int, float)):
                raise ValueError(f"{path}: row {number}: '{key}' is not a number")
    return rows


def lines_of(rows):
    """For each unit: its fixed sizes with their utilisation, in order, and that of mixed sizes or None."""
    lines = {}
    for row in rows:
        fixed, mixed = lines.setdefault(row["unit"], ([], []))
        if row["bytes"] == row["bytes_to"]:
            fixed.append((row["bytes"], row["utilisation"]))
        else:
            mixed.append(row["utilisation"])
    return {unit: (sorted(fixed), mixed[0] if mixed else None) for unit, (fixed, mixed) in sorted(lines.items())}


def draw(lines, output):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "orchard"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for unit, (fixed, mixed) in lines.items():
        text = f"unit {unit} B" + (f" (mixed sizes: {mixed:.0%})" if mixed is not None else "")
        axes.plot([size for size, _ in fixed], [100 * share for _, share in fixed], marker="o", label=text)
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 105)
    axes.set_xlabel("request, bytes")
    axes.set_ylabel("requested / capacity at the first null, %")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)
    figure.tight_layout()
    figure.savefig(output, metadata={"Date": None} if output.suffix == ".svg" else None)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Plot the rows of `orchard bench unit_utilisation`.")
    parser.add_argument("rows", type=Path, help="what the benchmark wrote with --json")
    parser.add_argument("output", type=Path, help="the picture: a .png or .svg file")
    options = parser.parse_args(arguments)
    try:
        if options.output.suffix not in (".png", ".svg"):
            raise ValueError(f"{options.output}: give a name that ends in .png or .svg")
        draw(lines_of(rows_of(options.rows)), options.output)
    except ImportError:
        print("plot_utilisation.py: matplotlib is not installed; on Debian: apt-get install python3-matplotlib "
              "(cmake/packages.txt, group plots)", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"plot_utilisation.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
