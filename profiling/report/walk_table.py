#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Runs `orchard walk` with every backing and several layouts, and prints one table of it, in Markdown.

    profiling/report/walk_table.py build/release/orchard --rmat 16
    profiling/report/walk_table.py build/cuda/orchard --backing elastic --backing managed -- --walkers 1000000

What follows `--` goes to every `orchard walk`. The checks of each run must pass.

Exit codes: 0 all done; 1 a run failed, or one of its checks; 2 an argument cannot be used.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import markdown

BACKINGS = ("fixed", "elastic", "managed")
LAYOUTS = ("linear", "interleaved:64K", "interleaved:4K")


class Failed(Exception):
    """A run gave no result; the message says why."""


def run_walk(program, backing, layout, arguments):
    """The result of one run, as `orchard walk --json` writes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "walk.json"
        command = [program, "walk", "--backing", backing, "--layout", layout, "--quiet", "--json", str(path), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not path.exists():
            raise Failed(f"{' '.join(command)}: {done.stderr.strip() or 'no result'}")
        result = json.loads(path.read_text())
    if not result["passed"]:
        wrong = ", ".join(c["name"] for c in result["checks"] if not c["passed"] and c.get("required", True))
        raise Failed(f"{' '.join(command)}: these checks failed: {wrong}")
    return result


def row_of(backing, layout, result):
    """One line of the table: the phases' kernel seconds, and what the heap had committed."""
    statistics = result["statistics"]
    phases = [f"{p['kernel_seconds'] or p['seconds']:.4f}" for p in result["phases"]]
    committed = statistics["peak_committed_bytes"] / 2**20
    return [backing, layout, *phases, f"{committed:.0f}", str(statistics["failed_allocations"])]


def table_of(rows, phases):
    """Rows of text as a table in Markdown."""
    head = ["backing", "layout", *(f"{name} (s)" for name in phases), "committed (MiB)", "nulls"]
    return markdown.as_table(head, [False, False, True], rows).removesuffix("\n")


def main(arguments):
    own, _, passed_on = ((arguments[:arguments.index("--")], None, arguments[arguments.index("--") + 1:])
                         if "--" in arguments else (arguments, None, []))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="a built `orchard`")
    parser.add_argument("--rmat", type=int, default=16, help="scale of the generated graph (default: 16)")
    parser.add_argument("--backing", action="append", choices=BACKINGS, help="may be repeated; default: all")
    parser.add_argument("--layout", action="append", help="may be repeated; default: " + ", ".join(LAYOUTS))
    options = parser.parse_args(own)
    rows, phases = [], []
    try:
        for backing in options.backing or BACKINGS:
            for layout in options.layout or LAYOUTS:
                result = run_walk(options.program, backing, layout, ["--rmat", str(options.rmat), *passed_on])
                phases = [p["name"] for p in result["phases"]]
                rows.append(row_of(backing, layout, result))
    except (Failed, OSError) as error:
        print(f"walk_table.py: {error}", file=sys.stderr)
        return 1
    print(table_of(rows, phases))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
