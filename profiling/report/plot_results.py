#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Draws what `orchard bench` measured: utilisation, pages, sizes, scaling.

    profiling/report/plot_results.py profiling/results/utilisation.json profiling/results/pages.json --output-dir plots

Each input is a result of profiling/results, or the rows as the benchmark wrote them. Rows of utilisation give
`utilisation.svg`: percent of a heap against size, measured and reachable. Rows of pages give `pages.svg`: malloc beside
the floor for each size and number of threads, and churn. Rows of sizes give `sizes.svg`, those of scaling `scaling.svg`:
times against size, and against the number of threads. All times are medians without the first launches. Needs
matplotlib (package python3-matplotlib).

Exit codes: 0 done; 1 matplotlib is not installed; 2 an input cannot be used (one line on standard error).
"""

import argparse
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the checkout stays as it is

import misshapen
import summarise_pages

TARGETS = {"average": 90, "worst": 80}  # percent of a heap
INSTALL = "sudo apt-get install python3-matplotlib"


class Unusable(Exception):
    """An input that holds nothing to draw."""


def main(arguments=None, load_pyplot=None):
    parser = argparse.ArgumentParser(description="Draw the results of `orchard bench utilisation`, `pages`, `sizes` and `scaling`.")
    parser.add_argument("inputs", nargs="+", type=Path, metavar="FILE", help="JSON: a result, or a benchmark's rows")
    parser.add_argument("--output-dir", type=Path, default=Path("."), metavar="FOLDER")
    parser.add_argument("--format", choices=("svg", "png", "pdf"), default="svg")
    options = parser.parse_args(arguments)
    try:
        figures = figures_of([row for path in options.inputs for row in rows_of(path)])
    except (Unusable, misshapen.Unusable, OSError) as error:
        print(f"plot_results.py: {error}", file=sys.stderr)
        return 2
    except misshapen.ERRORS as error:
        inputs = ", ".join(str(path) for path in options.inputs)
        print(f"plot_results.py: {inputs}: {misshapen.why(error)}", file=sys.stderr)
        return 2
    try:
        pyplot = (load_pyplot or _pyplot)()
    except ImportError as error:
        print(f"plot_results.py: {error}; matplotlib draws: {INSTALL}", file=sys.stderr)
        return 1
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for name, (draw, data) in figures.items():
        figure = draw(pyplot, data)
        path = options.output_dir / f"{name}.{options.format}"
        # The same rows give the same file.
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if options.format == "svg" else None)
        pyplot.close(figure)
        print(path)
    return 0


def rows_of(path):
    """The rows of a file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Unusable(f"{path}: not JSON: {error}") from None
    rows = document.get("rows") if isinstance(document, dict) else document
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Unusable(f"{path}: holds no rows")
    return rows


def figures_of(rows):
    """{name: (function that draws it, its data)} for what the rows hold."""
    figures = {}
    points = utilisation_points(rows)
    if points["bytes"]:
        figures["utilisation"] = (draw_utilisation, points)
    ratios, bars = floor_ratios(rows), churn_bars(rows)
    if ratios or bars:
        figures["pages"] = (draw_pages, (ratios, bars))
    for name, lines, label in (("sizes", lines_of_sizes(rows), "bytes asked for, at least"),
                               ("scaling", lines_of_scaling(rows), "threads")):
        if lines:
            figures[name] = (draw_lines, (lines, label))
    if not figures:
        raise Unusable("the inputs hold no rows of `orchard bench utilisation`, `pages`, `sizes` or `scaling`")
    return figures


def utilisation_points(rows):
    """{"bytes": [...], "percent": [...], "reachable_percent": [...]} by size."""
    sizes = sorted((row for row in rows if row.get("what") == "one size"), key=lambda row: row["bytes"])
    return {key: [row[key] for row in sizes] for key in ("bytes", "percent", "reachable_percent")}


def floor_ratios(rows):
    """{threads: [(bytes, malloc to floor), ...]}, both ascending."""
    lines = {}
    for row in rows:
        if row.get("what") == "fixed":
            ratio = summarise_pages.ratios(row)["malloc_to_floor"]
            lines.setdefault(row["threads"], []).append((row["bytes"], ratio))
    return {threads: sorted(lines[threads]) for threads in sorted(lines)}


def churn_bars(rows):
    """[(label, pairs a second in thousand millions), ...] in the order of the rows."""
    return [(sizes_text(row["bytes"], row.get("bytes_to", row["bytes"])), row["pairs_per_us"] / 1e3)
            for row in rows if row.get("what") == "churn"]


def lines_of_sizes(rows):
    """{label: [(least bytes, us), ...]}, ascending, of each layout with memory from the host and recycled."""
    lines = {}
    for row in rows:
        if "cold_us" in row and "layout" in row:
            for key, text in (("cold_us", "from the host"), ("recycled_us", "recycled")):
                lines.setdefault(f"{row['layout']}, {text}", []).append((row["bytes_from"], row[key]))
    return {label: sorted(line) for label, line in lines.items()}


def lines_of_scaling(rows):
    """{label: [(threads, us), ...]}, ascending, of each size and layout."""
    lines = {}
    for row in rows:
        if "requests_per_us" in row and "layout" in row:
            label = f"{bytes_text(row['bytes'])}, {row['layout']}"
            lines.setdefault(label, []).append((row["threads"], row["allocate_us"]))
    return {label: sorted(line) for label, line in lines.items()}


def sizes_text(least, most):
    """"64 B", or "16 B to 8 KiB"."""
    return bytes_text(least) if least == most else f"{bytes_text(least)} to {bytes_text(most)}"


def bytes_text(number):
    return f"{number // 1024} KiB" if number >= 1024 and number % 1024 == 0 else f"{number} B"


def threads_text(number):
    """"1 M threads", "100 K threads", "500 threads"."""
    for unit, size in (("M", 1_000_000), ("K", 1_000)):
        if number >= size and number % size == 0:
            return f"{number // size} {unit} threads"
    return f"{number:,} threads"


def draw_utilisation(pyplot, points):
    figure, axes = pyplot.subplots(figsize=(8, 4))
    axes.plot(points["bytes"], points["reachable_percent"], color="0.6", linewidth=2.5, label="the classes allow")
    axes.plot(points["bytes"], points["percent"], color="tab:green", linewidth=1, label="measured")
    for name, percent in TARGETS.items():
        axes.axhline(percent, color="tab:red", linewidth=0.7, linestyle=":")
        axes.annotate(f"{name}: {percent} %", (points["bytes"][0], percent), fontsize=8, va="bottom")
    _log_sizes(axes, points["bytes"])
    axes.set_xlabel("bytes asked for")
    axes.set_ylabel("of the heap and its metadata (%)")
    axes.set_ylim(min(75, min(points["percent"]) - 2), 100.5)
    axes.legend(loc="lower left")
    return figure


def draw_pages(pyplot, data):
    ratios, bars = data
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4))
    for threads, line in ratios.items():
        left.plot([size for size, _ in line], [ratio for _, ratio in line], marker="o", label=threads_text(threads))
    left.axhline(1, color="0.6", linewidth=0.7)
    left.set_xlabel("bytes asked for")
    left.set_ylabel("malloc beside the bump pointer, medians without the first rounds")
    left.set_ylim(bottom=0)
    if ratios:
        _log_sizes(left, [size for line in ratios.values() for size, _ in line])
        left.legend()
    right.bar([label for label, _ in bars], [rate for _, rate in bars], color="tab:green")
    right.set_ylabel("churn, median without the first (thousand million pairs a second)")
    return figure


def draw_lines(pyplot, data):
    lines, label = data
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for text, line in lines.items():
        axes.plot([x for x, _ in line], [us for _, us in line], marker="o", markersize=3, label=text)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("a launch that allocates, median without the first (us)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def _log_sizes(axes, sizes):
    """An axis of doublings, named in bytes."""
    axes.set_xscale("log", base=2)
    ticks = [1 << n for n in range(4, 21) if min(sizes) <= 1 << n <= max(sizes)]
    axes.set_xticks(ticks)
    axes.set_xticklabels([bytes_text(tick) for tick in ticks], rotation=45, ha="right")


def _pyplot():
    import matplotlib
    matplotlib.use("Agg")  # files only: there may be no screen
    matplotlib.rcParams["svg.hashsalt"] = "orchard"
    from matplotlib import pyplot
    return pyplot


if __name__ == "__main__":
    sys.exit(main())
