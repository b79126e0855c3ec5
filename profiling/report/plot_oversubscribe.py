#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Draws what `orchard oversubscribe` wrote with --json: the time of a pass over the size of the data.

    orchard oversubscribe --capacity 8GiB --json rows.json
    profiling/report/plot_oversubscribe.py rows.json --output-dir pictures

One picture for each layout, with a panel for each pattern and a line for each way; a dashed line is the model's. Needs
matplotlib (package python3-matplotlib). The same version of it writes the same bytes again.

Exit codes: 0 done; 1 matplotlib is not installed; 2 the file cannot be used (one line on standard error).
"""

import argparse
import json
import sys
from pathlib import Path

import misshapen
from plot_uvm import INSTALL, STYLE, Unusable, _pyplot, file_name

NEEDED = {"pattern", "layout", "data", "way", "by", "kernel_first_ms"}


def main(arguments=None, load_pyplot=None):
    parser = argparse.ArgumentParser(description="Draw what `orchard oversubscribe` wrote.")
    parser.add_argument("file", type=Path, help="what it wrote with --json")
    parser.add_argument("--output-dir", type=Path, default=Path("."), metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        rows = read_rows(options.file)
        pyplot = (load_pyplot or _pyplot)()
    except Unusable as error:
        print(f"plot_oversubscribe.py: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"plot_oversubscribe.py: {error}; matplotlib draws: {INSTALL}", file=sys.stderr)
        return 1
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for layout in dict.fromkeys(row["layout"] for row in rows):
        with pyplot.rc_context(STYLE):
            figure = draw(pyplot, layout, [row for row in rows if row["layout"] == layout])
            path = options.output_dir / f"oversubscribe-{file_name(layout)}.svg"
            figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
            pyplot.close(figure)
        print(path)
    return 0


def read_rows(path):
    """The rows of a result. Raises Unusable."""
    try:
        rows = misshapen.rows_of(json.loads(path.read_text()))
        complete = rows and not any(NEEDED - row.keys() for row in rows)
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}") from None
    except misshapen.ERRORS:
        raise Unusable(f"{path} is no result of `orchard oversubscribe`") from None
    if not complete:
        raise Unusable(f"{path} has no rows, or rows without {', '.join(sorted(NEEDED))}")
    return rows


def milliseconds_of(row):
    """The time of a settled pass; of the first one where there is no other, as in the model's rows."""
    settled = row.get("kernel_settled_ms")
    return row["kernel_first_ms"] if settled is None else settled


def lines_of(rows):
    """{(way, by): ([data], [ms])} of one pattern, by size."""
    lines = {}
    for row in sorted(rows, key=lambda row: row["data"]):
        sizes, times = lines.setdefault((row["way"], row["by"]), ([], []))
        sizes.append(row["data"])
        times.append(milliseconds_of(row))
    return lines


def draw(pyplot, layout, rows):
    patterns = list(dict.fromkeys(row["pattern"] for row in rows))
    figure, panels = pyplot.subplots(1, len(patterns), figsize=(2.8 * len(patterns), 2.8), squeeze=False)
    colours = {way: f"C{i}" for i, way in enumerate(dict.fromkeys(row["way"] for row in rows))}
    for axes, pattern in zip(panels[0], patterns):
        for (way, by), (sizes, times) in lines_of([row for row in rows if row["pattern"] == pattern]).items():
            axes.plot(sizes, times, "--" if by == "model" else "-", marker="o", color=colours[way],
                      label=f"{way} ({by})" if by == "model" else way)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_title(pattern)
        axes.set_xlabel("data / device budget")
    panels[0][0].set_ylabel("a pass (ms)")
    panels[0][0].legend()
    figure.suptitle(layout)
    return figure


if __name__ == "__main__":
    sys.exit(main())
