#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Draws the tables of docs/nsight.md: the kernels of a walk by phase, and linear arrays beside tiles.

    profiling/report/plot_nsight.py --output-dir docs/pictures

The figures are those of the page, which `ncu` has measured; a new table there is a new picture here. Needs matplotlib
(package python3-matplotlib). The same version of it writes the same bytes again.

Exit codes: 0 done; 1 matplotlib is not installed; 2 the page lacks a table, or has a figure that is no number (one line on
standard error).
"""

import argparse
import re
import sys
from pathlib import Path

from plot_uvm import INSTALL, Unusable, _pyplot, save

PROGRAM = "plot_nsight.py"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "nsight.md"
COLOURS = {"compute": "#4477aa", "free": "#228833"}
SECTOR = 32  # bytes


def main(arguments=None, load_pyplot=None):
    parser = argparse.ArgumentParser(description="Draw the tables of docs/nsight.md.")
    parser.add_argument("page", type=Path, nargs="?", default=PAGE, help="default: docs/nsight.md")
    parser.add_argument("--output-dir", type=Path, default=Path("."), metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        text = options.page.read_text(encoding="utf-8")
        tables = {"nsight_walk": (draw_walk, walk_of(text)), "nsight_layouts": (draw_layouts, layouts_of(text))}
        pyplot = (load_pyplot or _pyplot)()
    except OSError as error:
        print(f"{PROGRAM}: {options.page}: {error.strerror}", file=sys.stderr)
        return 2
    except (Unusable, UnicodeDecodeError) as error:
        print(f"{PROGRAM}: {options.page}: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"{PROGRAM}: {error}; matplotlib draws: {INSTALL}", file=sys.stderr)
        return 1
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for name, (draw, rows) in tables.items():
        save(pyplot, options.output_dir / f"{name}.svg", draw, rows)
    return 0


def table_of(text, first, columns):
    """The rows, each a list of cells, of the table whose first heading is `first`. Raises Unusable."""
    lines = text.splitlines()
    begin = next((n for n, line in enumerate(lines) if line.startswith(f"| {first} |")), None)
    if begin is None:
        raise Unusable(f"no table begins with the column \"{first}\"")
    rows = []
    for line in lines[begin + 2:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    if not rows or any(len(row) != columns for row in rows):
        raise Unusable(f"the table of the column \"{first}\" has no rows, or not {columns} columns")
    return rows


def number(text):
    """A figure such as "3.9" or "314 M". Raises Unusable."""
    match = re.fullmatch(r"([\d.]+)(?: ([kMG])B?)?", text)
    try:
        return float(match[1]) * {None: 1, "k": 1e3, "M": 1e6, "G": 1e9}[match[2]]
    except (TypeError, ValueError):
        raise Unusable(f"\"{text}\" is no figure") from None


def walk_of(text):
    """[(range, kernel, us)]"""
    return [(row[0].strip("`"), row[1].split(":")[0].strip("`"), number(row[3]))
            for row in table_of(text, "NVTX range", 7)]


def layouts_of(text):
    """[(layout, ms, GB that warps ask for, GB over the bus)]"""
    return [(row[0], number(row[1]), number(row[3]) * SECTOR / 1e9, number(row[4]) * SECTOR / 1e9)
            for row in table_of(text, "layout", 5)]


def draw_walk(pyplot, rows):
    figure, axes = pyplot.subplots(figsize=(5, 2.4))
    bars = axes.barh([kernel for _, kernel, _ in rows], [us for _, _, us in rows],
                     color=[COLOURS.get(name, "#bbbbbb") for name, _, _ in rows])
    axes.bar_label(bars, fmt="%g", padding=2)
    for name, colour in COLOURS.items():
        axes.barh([rows[0][1]], [0], color=colour, label=name)
    axes.legend(title="NVTX range", loc="lower right")
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("us of a GPU")
    axes.set_title("Kernels of a walk behind its build, by ncu")
    return figure


def draw_layouts(pyplot, rows):
    figure, panels = pyplot.subplots(1, 3, figsize=(6, 2.2))
    for place, title in enumerate(("ms", "GB that loads ask for", "GB over the bus"), 1):
        axes = panels[place - 1]
        bars = axes.bar([row[0] for row in rows], [row[place] for row in rows], color=["#4477aa", "#ee6677"])
        axes.bar_label(bars, fmt="%.3g")
        axes.margins(y=0.15)
        axes.set_title(title)
    figure.suptitle("stencil, half of 1 GiB on the host, by ncu")
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    sys.exit(main())
