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

import sys

from plot_uvm import draw_rows

NEEDED = {"pattern", "layout", "data", "way", "by", "kernel_first_ms"}


def main(arguments=None, load_pyplot=None):
    return draw_rows(arguments, load_pyplot, program="plot_oversubscribe.py", command="orchard oversubscribe",
                     key="layout", needed=NEEDED, draw=draw, prefix="oversubscribe")


def milliseconds_of(row):
    """The time of a settled pass; of the first one where there is no other, as in the model's rows."""
    settled = row.get("kernel_settled_ms")
    return row["kernel_first_ms"] if settled is None else settled


def lines_of(rows):
    """{(way, by): ([data], [ms])} of one pattern, by size."""
    lines = {}
    for row in sorted(rows, key=lambda row: row["data"]):
        if milliseconds_of(row) is None:  # the model had no record of all accesses
            continue
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
