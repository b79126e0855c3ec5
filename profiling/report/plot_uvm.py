#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Draws what `orchard uvm --json` wrote: bytes moved, modelled time and faults, pattern by pattern.

    orchard uvm --pattern same-index --pattern random --layout linear --layout interleaved:4KiB --json uvm.json
    profiling/report/plot_uvm.py uvm.json --output-dir pictures

One picture for each pattern: a group of bars for each layout, placement and policy, a bar for each capacity. Needs matplotlib
(package python3-matplotlib). The same version of it writes the same bytes again.

Exit codes: 0 done; 1 matplotlib is not installed; 2 the file cannot be used (one line on standard error).
"""

import argparse
import json
import re
import sys
from pathlib import Path

import misshapen

INSTALL = "sudo apt-get install python3-matplotlib"
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "orchard", "font.size": 8}
# What is drawn: the key of a row, its title, what it is divided by.
PANELS = (("bytes_in", "moved to the GPU (MB)", 1e6), ("bytes_out", "moved back (MB)", 1e6),
          ("seconds", "modelled time (ms)", 1e-3), ("faults", "faults", 1))


class Unusable(Exception):
    """The file is no result; the message says why."""


def main(arguments=None, load_pyplot=None):
    return draw_rows(arguments, load_pyplot, program="plot_uvm.py", command="orchard uvm --json", key="source",
                     needed={"source", "layout", "placement", "capacity", *(key for key, _, _ in PANELS)},
                     draw=draw, prefix="uvm")


def draw_rows(arguments, load_pyplot, *, program, command, key, needed, draw, prefix):
    """Draws a picture of the rows of each value of `key`, and returns the exit code. `needed`: keys of every row;
    `draw(pyplot, value, rows)` returns a figure, which becomes PREFIX-VALUE.svg."""
    parser = argparse.ArgumentParser(description=f"Draw what `{command}` wrote.")
    parser.add_argument("file", type=Path, help="what it wrote with --json")
    parser.add_argument("--output-dir", type=Path, default=Path("."), metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        rows = read_rows(options.file, command, needed)
        pyplot = (load_pyplot or _pyplot)()
    except Unusable as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"{program}: {error}; matplotlib draws: {INSTALL}", file=sys.stderr)
        return 1
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for value in dict.fromkeys(row[key] for row in rows):
        save(pyplot, options.output_dir / f"{prefix}-{file_name(value)}.svg", draw, value,
             [row for row in rows if row[key] == value])
    return 0


def save(pyplot, path, draw, *arguments):
    """Writes the figure that `draw(pyplot, *arguments)` returns, in the one style, and prints the path."""
    with pyplot.rc_context(STYLE):
        figure = draw(pyplot, *arguments)
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)
    print(path)


def read_rows(path, command, needed):
    """The rows of a result of a command. Raises Unusable."""
    try:
        rows = misshapen.rows_of(json.loads(path.read_text()))
        complete = rows and not any(needed - row.keys() for row in rows)
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}") from None
    except misshapen.ERRORS:
        raise Unusable(f"{path} is no result of `{command}`") from None
    if not complete:
        raise Unusable(f"{path} has no rows, or rows without {', '.join(sorted(needed))}")
    return rows


def file_name(source):
    """A source's name as part of a file's name: a trace's may be a path."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", source).strip("-") or "trace"


def group_of(row):
    return row["layout"], row["placement"], row.get("policy", "driver")  # files from before there were policies


def name_of(group, groups):
    """A group's name below its bars: its layout, and of placement and policy what is not the same for all groups."""
    varied = [part for i, part in enumerate(group) if i == 0 or len({other[i] for other in groups}) > 1]
    return "\n".join(varied)


def bars_of(rows, key, unit):
    """(groups, capacities, {capacity: heights, one for each group}) of one panel."""
    groups = list(dict.fromkeys(group_of(row) for row in rows))
    capacities = list(dict.fromkeys(row["capacity"] for row in rows))
    found = {(*group_of(row), row["capacity"]): row[key] / unit for row in rows}
    return groups, capacities, {c: [found.get((*g, c), 0) for g in groups] for c in capacities}


def draw(pyplot, source, rows):
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(3.2 * len(PANELS), 2.8))
    for axes, (key, title, unit) in zip(panels, PANELS):
        groups, capacities, heights = bars_of(rows, key, unit)
        width = 0.8 / len(capacities)
        for i, capacity in enumerate(capacities):
            at = [g + (i - (len(capacities) - 1) / 2) * width for g in range(len(groups))]
            axes.bar(at, heights[capacity], width, label=capacity)
        names = [name_of(group, groups) for group in groups]
        axes.set_xticks(range(len(groups)), names, rotation=30, ha="right")
        axes.set_title(title)
    panels[0].legend(title="capacity")
    figure.suptitle(source)
    return figure


def _pyplot():
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    return pyplot


if __name__ == "__main__":
    sys.exit(main())
