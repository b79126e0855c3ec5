#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Measures what the live page costs a program: `orchard bench soak` by turns without a page, with one, and with `orchard
top` at 10 Hz attached.

usage: profiling/top/attached.py [--program build/release/orchard] [--turns N] [--seconds S] [-- HEAP OPTIONS]

Two runs: bound by the mailbox (blocks of 512 KiB to 4 MiB, each of which the host grants), and bound by pages. Prints
the rate of each run, in allocations a microsecond of kernel time, to standard error, and then the medians, and the
medians of the ratios of each turn with their quartiles. Exit code: 0, or 1 if a program failed.
"""

import argparse
import json
import os
import pty
import select
import statistics
import subprocess
import sys
import threading

RUNS = {"mailbox": ["--large", "--cached-segments", "0"], "pages": []}
WAYS = ("no page", "page", "attached")


def attach(program, pid, stop):
    """Runs `orchard top` at 10 Hz on a pseudo-terminal until `stop` is set, or the heap ends."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
        os.execv(program, [program, "top", "--pid", str(pid), "--heap", "0", "--interval", "100ms"])
    read = 0
    while not stop.is_set():
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                read += len(os.read(terminal, 65536))
            except OSError:
                break
    os.close(terminal)
    os.waitpid(child, 0)
    return read


def soak(options, way, run, operations):
    """One run of the benchmark; returns allocations a microsecond, 0 if filling the tables took all operations."""
    command = [options.program, "bench", "soak", "--operations", str(operations), "--json", "-",
               *RUNS[run], *options.heap, *([] if way == "no page" else ["--live-page"])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    stop = threading.Event()
    drawn = []
    watcher = threading.Thread(target=lambda: watch(options.program, process.pid, stop, drawn))
    if way == "attached":
        watcher.start()
    out, err = process.communicate()
    stop.set()
    if way == "attached":
        watcher.join()
        if not drawn or drawn[-1] < 2000:
            sys.exit(f"orchard top has drawn {drawn} bytes: it was not attached")
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: {err}")
    rate = json.loads(out)["rows"][0]["pairs_per_us"]
    print(f"{run}, {way}: {rate:.4g} allocations a microsecond", file=sys.stderr, flush=True)
    return rate


def watch(program, pid, stop, drawn):
    """Waits until the heap shows itself, and attaches to it."""
    listed = ["--pid", str(pid), "--heap", "0", "--list"]
    while not stop.is_set() and subprocess.run([program, "top", *listed], capture_output=True).returncode != 0:
        stop.wait(0.05)
    if not stop.is_set():
        drawn.append(attach(program, pid, stop))


def spread(ratios):
    """The median, and between which values half of all lie."""
    return f"{statistics.median(ratios):.3f} ({ratios[len(ratios) // 4]:.2f} to {ratios[-1 - len(ratios) // 4]:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/orchard", type=os.path.abspath)
    parser.add_argument("--turns", default=9, type=int)
    parser.add_argument("--seconds", default=4, type=float, help="kernel time of a run, about")
    parser.add_argument("heap", nargs="*")
    options = parser.parse_args()
    print("| run | " + " | ".join(WAYS) + " | page / no page | attached / page |\n|---|" + "---:|" * 5)
    for run in RUNS:
        # As many allocations as take that long, by the rate of the first short run that does more than fill its tables.
        operations = 200_000
        while (rate := soak(options, "no page", run, operations)) == 0:
            operations *= 4
        operations = max(operations, min(10**10, int(rate * options.seconds * 1e6)))
        rates = {way: [] for way in WAYS}
        for turn in range(options.turns):
            for way in WAYS[turn % 3:] + WAYS[:turn % 3]:
                rates[way].append(soak(options, way, run, operations))
        ratios = [sorted(a / b for a, b in zip(rates[x], rates[y]))
                  for x, y in (("page", "no page"), ("attached", "page"))]
        cells = [f"{statistics.median(rates[way]):.4g}" for way in WAYS] + [spread(r) for r in ratios]
        print(f"| {run} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
