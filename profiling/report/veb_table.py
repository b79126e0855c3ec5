#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Prints the table of docs/uvm_paper.md that holds OR-trees and van Emde Boas trees against each other.

It reads what or_tree_bench wrote, profiling/results/veb_tree_cpu.json, and shows the medians of the repetitions. Exit
code 1, with one line on standard error, where a benchmark is not in the file.
"""

import json
import sys
from pathlib import Path

RESULT = Path(__file__).resolve().parents[2] / "profiling/results/veb_tree_cpu.json"

SIZES = {"1 K": 1 << 10, "16 K": 1 << 14, "256 K": 1 << 18, "1 M": 1 << 20, "4 M": 1 << 22, "16 M": 1 << 24}
TREES = {"or_tree": "OR-tree", "binary_or_tree": "binary OR-tree", "textbook_veb": "textbook vEB",
         "word_leaf_veb": "vEB, word leaves", "gallatin_veb": "Gallatin's vEB", "linear_bitmap": "bitmap scan"}
# What is shown: the title, the benchmark with `{}` for the number of segments, the nanoseconds or bytes of a unit, and
# whether it is the memory.
ROWS = [
    ("build, all free, us", "build/segments:{}", 1e3, False),
    ("memory, all free, KiB", "build/segments:{}", 1024, True),
    ("memory, 1 of 1,000 free, KiB", "find_first/segments:{}/taken_per_mille:999", 1024, True),
    ("first free, all free, ns", "find_first/segments:{}/taken_per_mille:0", 1, False),
    ("first free, one free, ns", "find_first/segments:{}/taken_per_mille:1000", 1, False),
    ("next free, half free, ns", "find_next/segments:{}/taken_per_mille:500", 1, False),
    ("next free, 1 of 1,000 free, ns", "find_next/segments:{}/taken_per_mille:999", 1, False),
    ("insert or erase at random, half free, ns", "toggle/segments:{}/taken_per_mille:500", 1, False),
    ("random frees, lowest taken, ns", "churn/segments:{}", 1, False),
    ("find a run of 512, all free, ns", "find_run/segments:{}/taken_per_mille:0/k:512", 1, False),
    ("find a run of 512, there is none, us", "find_run/segments:{}/taken_per_mille:500/k:512", 1e3, False),
]


def medians(document):
    """By name of a benchmark: nanoseconds an operation, and bytes where they were counted."""
    found = {}
    for run in document["benchmarks"]:
        if run.get("aggregate_name") == "median":
            time = run["real_time" if run["run_name"].endswith("/manual_time") else "cpu_time"]
            if "items_per_second" in run:
                time = 1e9 / run["items_per_second"]
            found[run["run_name"].removesuffix("/manual_time")] = (time, run.get("bytes"))
    return found


def cell(value):
    """Thousandths below a tenth, tenths below 100, whole numbers above."""
    return f"{value:,.{3 if value < 0.1 else 1 if value < 100 else 0}f}"


def table(document):
    """The table in Markdown. A structure that was not measured at every size has no row."""
    found = medians(document)
    lines = ["| | structure | " + " | ".join(SIZES) + " |", "|---|---|" + "---:|" * len(SIZES)]
    for title, benchmark, unit, memory in ROWS:
        for tree, name in TREES.items():
            names = [f"{tree}/{benchmark.format(size)}" for size in SIZES.values()]
            if all(each in found for each in names):
                values = [found[each][1 if memory else 0] / unit for each in names]
                lines.append(f"| {title} | {name} | " + " | ".join(map(cell, values)) + " |")
                title = ""
        if title:
            raise KeyError(benchmark)
    return "\n".join(line.replace("|  |", "| |") for line in lines)


def main():
    try:
        print(table(json.loads(RESULT.read_text(encoding="utf-8"))))
    except (KeyError, OSError) as error:
        print(f"veb_table.py: {RESULT}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
