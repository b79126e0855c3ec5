#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Adds to the rows of `orchard oversubscribe` what its targets speak of: ratios between the ways.

    orchard oversubscribe --capacity 8GiB --data 4 --json raw.json
    profiling/report/summarise_oversubscribe.py raw.json -o summed.json
    profiling/report/make_result.py summed.json --describe profiling/report/describe/oversubscribe.json ...

A row of the way `move` gets, beside the rows of the same pattern, layout and size:

    stay_over_move      time of a pass where nothing moves over that of a moved one: the lesser of the third pass's and
                        the settled ones'
    move_over_device    time of a moved pass over that where all is on the device: the greater of the two
    all_move_over_stay  all passes and all moves, over all passes where nothing moves

What the input has no rows or no times for is left out, and so is a pass whose kernel ended at its limit.

Exit codes: 0 done; 2 the input cannot be used (one line on standard error; nothing is written).
"""

import argparse
import sys

import misshapen

SAME = ("pattern", "layout", "data")
# From the third pass on.
LATER = ("kernel_third_ms", "kernel_settled_ms")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Add ratios to the rows of `orchard oversubscribe`.")
    parser.add_argument("input", help="raw JSON file, or - for standard input")
    parser.add_argument("--output", "-o", default="-", help="file to write; default: standard output")
    options = parser.parse_args(arguments)
    return misshapen.rewrite("summarise_oversubscribe.py", options, summarised)


def summarised(rows):
    """The rows, those of moves with their ratios. `rows` is not changed."""
    if not isinstance(rows, list) or not rows or not all(
            isinstance(row, dict) and {*SAME, "way"} <= row.keys() for row in rows):
        raise misshapen.Unusable("the input must be the rows that `orchard oversubscribe --json` writes")
    return [{**row, **(ratios(row, rows) if row["way"] == "move" else {})} for row in rows]


def ratios(move, rows):
    """What a row of moves is beside the rows of the other ways."""
    beside = {row["way"]: row for row in rows if all(row[key] == move[key] for key in SAME) and is_whole(row)}
    if not is_whole(move):
        return {}
    found = {}
    stay, device = beside.get("stay", {}), beside.get("device", {})
    faster = [quotient(stay.get(key), move.get(key)) for key in LATER]
    slower = [quotient(move.get(key), device.get(key)) for key in LATER]
    if None not in faster:
        found["stay_over_move"] = min(faster)
    if None not in slower:
        found["move_over_device"] = max(slower)
    if move.get("kernels_ms") is not None and move.get("moves_ms") is not None:
        whole = quotient(move["kernels_ms"] + move["moves_ms"], stay.get("kernels_ms"))
        found.update({} if whole is None else {"all_move_over_stay": whole})
    return found


def is_whole(row):
    """Whether the threads of all passes did all of their work."""
    return row.get("late_threads", 0) == 0


def quotient(of, by):
    """None where there is no such time."""
    return of / by if of is not None and by else None


if __name__ == "__main__":
    sys.exit(main())
