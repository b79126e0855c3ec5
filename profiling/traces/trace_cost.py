#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Measures what a trace costs small requests: `orchard bench pages` by turns without a trace, with a sampled and with a
complete one, and without again.

usage: profiling/traces/trace_cost.py [--program build/release/orchard] [--turns N] [--ways sampled,complete]
                                      [-- BENCH OPTIONS]

A complete trace of a GPU's benchmark is long: give --quick --repeats 3 behind the --, and the other way a run of its own.

For each kind of row it prints how many times as long `malloc` and `free` take as in the turn's first run without a trace:
the geometric mean of its rows, the median of the turns, and between which values half of these lie. *Again*, the second
run without one, shows by how much two runs differ anyhow.

The time to launch a kernel differs from process to process by more than a sampled trace may cost, and has nothing to do
with the heap. So each time has its own process's time of an empty kernel taken off, and that of the first run added:
the ratios are those of kernels that were launched equally fast. The last row has the ratios of the empty kernels.

Exit code: 0, or 1 if a program failed.
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
COLUMNS = ("malloc", "free")


def run(options, way, folder):
    """The rows of one run."""
    rows = os.path.join(folder, "rows.json")
    command = [options.program, "bench", "pages", "--json", rows, *options.bench]
    if way in TRACED:
        command += ["--trace", os.path.join(folder, "trace"), "--trace-mode", way]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    with open(rows, encoding="utf-8") as file:
        return json.load(file)["rows"]


def launch_of(rows, threads):
    """The settled time of an empty kernel of so many threads, in us: of all empty kernels, if none has so many."""
    empty = [row for row in rows if "empty_settled_us" in row]
    alike = [row for row in empty if row["threads"] == threads]
    return statistics.median(row["empty_settled_us"] for row in alike or empty)


def ratios(rows, without, column, kind):
    """How many times as long the rows of a kind (None: all) take, if kernels were launched as fast as in the other run."""
    found = []
    for row, other in zip(rows, without):
        key = f"{column}_settled_us"
        if key in row and kind in (None, row["what"]):
            launch, launch_without = (launch_of(r, row["threads"]) for r in (rows, without))
            found.append(max(row[key] - launch, 0) + launch_without)
            found[-1] /= max(other[key], launch_without)
    return found


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


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
    ways = ["without", *traced, "again"]
    turns = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.turns):
            begin = turn % len(ways)
            turns.append({way: run(options, way, folder) for way in ways[begin:] + ways[:begin]})
    pairs = [(column, way) for column in COLUMNS for way in ways[1:]]
    print(f"| rows | number | {' | '.join(f'`{c}`, {w}' for c, w in pairs)} |\n|---|---:|{'---:|' * len(pairs)}")
    first = turns[0]["without"]
    for kind in [*dict.fromkeys(row["what"] for row in first if "malloc_settled_us" in row), None]:
        cells = []
        for column, way in pairs:
            of_turns = [ratios(t[way], t["without"], column, kind) for t in turns]
            cells.append(spread([geometric_mean(r) for r in of_turns]) if of_turns[0] else "")
        number = len(ratios(first, first, "malloc", kind))
        print(f"| {kind or 'all'} | {number} | {' | '.join(cells)} |")
    cells = [spread([launch_of(t[way], None) / launch_of(t["without"], None) for t in turns]) for _, way in pairs]
    print(f"| empty kernels | | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
