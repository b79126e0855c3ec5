#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Measures what a trace costs small requests: `orchard bench pages` by turns without a trace, with a sampled and with a
complete one.

usage: profiling/traces/trace_cost.py [--program build/release/orchard] [--turns N] [--ways sampled,complete]
                                      [-- BENCH OPTIONS]

A complete trace of a GPU's benchmark is long: give --quick --repeats 3 behind the --, and the other way a run of its own.

For each kind of row it prints how many times as long `malloc` takes as without a trace: the geometric mean of its rows, the
median of the turns, and between which values half of these lie. Exit code: 0, or 1 if a program failed.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

TRACED = ("sampled", "complete")


def run(options, way, folder):
    """The settled time of `malloc` of each row of one run, by the row's kind and place."""
    rows = os.path.join(folder, "rows.json")
    command = [options.program, "bench", "pages", "--json", rows, *options.bench]
    if way != "none":
        command += ["--trace", os.path.join(folder, "trace"), "--trace-mode", way]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    with open(rows, encoding="utf-8") as file:
        found = json.load(file)["rows"]
    return {(row["what"], place): row["malloc_settled_us"] for place, row in enumerate(found) if "malloc_settled_us" in row}


def mean_ratio(times, without, kind):
    """How many times as long the rows of one kind take, as a geometric mean."""
    logarithms = [math.log(us / without[row]) for row, us in times.items() if row[0] == kind and without[row] > 0]
    return math.exp(sum(logarithms) / len(logarithms))


def spread(ratios):
    ratios = sorted(ratios)
    return f"{statistics.median(ratios):.3f} ({ratios[len(ratios) // 4]:.3f} to {ratios[-1 - len(ratios) // 4]:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/orchard", type=os.path.abspath)
    parser.add_argument("--turns", default=5, type=int)
    parser.add_argument("--ways", default=",".join(TRACED), help="sampled, complete, or both; default: %(default)s")
    parser.add_argument("bench", nargs="*")
    options = parser.parse_args()
    traced = options.ways.split(",")
    if not set(traced) <= set(TRACED):
        parser.error(f"--ways: '{options.ways}': give {' or '.join(TRACED)}, or both with a comma between")
    ways = ["none", *traced]
    turns = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.turns):
            turns.append({way: run(options, way, folder) for way in ways[turn % len(ways):] + ways[:turn % len(ways)]})
    print(f"| rows | number | {' | '.join(traced)} |\n|---|---:|{'---:|' * len(traced)}")
    kinds = list(dict.fromkeys(kind for kind, _ in turns[0]["none"]))
    for kind in kinds:
        cells = [spread([mean_ratio(t[way], t["none"], kind) for t in turns]) for way in traced]
        print(f"| {kind} | {sum(k == kind for k, _ in turns[0]['none'])} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
