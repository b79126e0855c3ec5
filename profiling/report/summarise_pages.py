#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Adds to the rows of `orchard bench pages` what its targets speak of: ratios and means.

    orchard bench pages --json raw.json
    profiling/report/summarise_pages.py raw.json --registers malloc=48 --registers free=24 -o summed.json
    profiling/report/make_result.py summed.json --describe profiling/report/describe/pages.json ...

Rows of fixed sizes get `malloc_to_floor`, `malloc_to_floor_net` (both less an empty kernel) and `free_to_floor`. Rows
with "what": "summary" follow, each with `of` and `value`. What the input has no rows for is left out.

Exit codes: 0 done; 2 the input cannot be used (one line on standard error; nothing is written).
"""

import argparse
import math
import sys

import misshapen

# Groups that a warp makes: its lanes ask for one class, or each for another.
GROUPS_A_WARP = {"full warps": 1, "one lane": 1, "seven lanes": 1, "each its class": 32}
LANES_OF_A_WARP = 32
MANY_THREADS = 1_000_000
# Rows that are made anew here, or belong to the result of `orchard bench walks`.
NOT_TIMED = {"summary", "walk", "queue", "theorem 1", "theorem 2"}


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Add ratios and means to the rows of `orchard bench pages`.")
    parser.add_argument("input", help="raw JSON file, or - for standard input")
    parser.add_argument("--registers", action="append", default=[], metavar="KERNEL=NUMBER",
                        help="registers of a kernel, as the compiler says; repeat")
    parser.add_argument("--output", "-o", default="-", help="file to write; default: standard output")
    options = parser.parse_args(arguments)
    return misshapen.rewrite("summarise_pages.py", options,
                             lambda rows: summarised(rows, [register(text) for text in options.registers]))


def register(text):
    """("malloc", 48) from "malloc=48"."""
    kernel, equals, number = text.partition("=")
    if not kernel or not equals or not number.isdecimal():
        raise misshapen.Unusable(f"{text!r} is not KERNEL=NUMBER")
    return kernel, int(number)


def summarised(rows, registers=()):
    """The rows with their ratios, and the summaries after them. `rows` is not changed."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and "what" in row for row in rows):
        raise misshapen.Unusable("the input must be the rows that `orchard bench pages --json` writes")
    rows = [{**row, **ratios(row)} for row in rows if row["what"] not in NOT_TIMED]
    lines = _fixed_summaries(rows) + _partial_warps(rows) + _nearly_full(rows)
    lines += [(f"registers of {kernel}", number) for kernel, number in registers]
    return rows + [{"what": "summary", "of": of, "value": value} for of, value in lines]


def ratios(row):
    """What a row of a fixed size is beside the floor; nothing for other rows."""
    if row["what"] != "fixed":
        return {}
    try:
        found = {"malloc_to_floor": row["malloc_us"] / row["floor_malloc_us"],
                 "free_to_floor": row["free_us"] / row["floor_free_us"]}
        net = row["floor_malloc_us"] - row["empty_us"]
        if net > 0:  # otherwise the floor was not slower than nothing, and there is no ratio
            found["malloc_to_floor_net"] = max(row["malloc_us"] - row["empty_us"], 0.0) / net
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise misshapen.Unusable(f"a row of a fixed size lacks a time: {error!r} in {row!r}") from None
    return found


def geometric_mean(values):
    """0 where one is 0."""
    values = list(values)
    if min(values) <= 0:
        return 0.0
    return math.exp(sum(math.log(v) for v in values) / len(values))


def _fixed_summaries(rows):
    fixed = [row for row in rows if row["what"] == "fixed"]
    if not fixed:
        return []
    lines = [("malloc to floor, geometric mean", geometric_mean(r["malloc_to_floor"] for r in fixed)),
             ("malloc to floor, worst", max(r["malloc_to_floor"] for r in fixed)),
             ("free to floor, geometric mean", geometric_mean(r["free_to_floor"] for r in fixed))]
    net = [r["malloc_to_floor_net"] for r in fixed if "malloc_to_floor_net" in r]
    if net:
        lines.append(("malloc to floor, less an empty kernel, geometric mean", geometric_mean(net)))
    many = [r["malloc_to_floor"] for r in fixed if r["threads"] >= MANY_THREADS]
    if many:
        lines.append(("malloc to floor with 1 M threads, geometric mean", geometric_mean(many)))
        lines.append(("malloc to floor with 1 M threads, worst", max(many)))
    return lines


def _partial_warps(rows):
    """The time of a group beside that of a full warp's, with as many threads launched: the worst."""
    def a_group(row):
        return row["malloc_us"] / (row["threads"] / LANES_OF_A_WARP * GROUPS_A_WARP[row["what"]])

    full = {row["threads"]: a_group(row) for row in rows if row["what"] == "full warps"}
    found = [a_group(row) / full[row["threads"]] for row in rows
             if row["what"] in GROUPS_A_WARP and row["what"] != "full warps" and row["threads"] in full]
    return [("partial warps to full warps, time a group, worst", max(found))] if found else []


def _nearly_full(rows):
    """Times with little free beside the time with half free."""
    times = {row["free_percent"]: row["malloc_us"] for row in rows if row["what"] == "nearly full"}
    if 50 not in times:
        return []
    return [(f"nearly full: {percent:g} % free to 50 % free", us / times[50])
            for percent, us in sorted(times.items(), reverse=True) if percent != 50]


if __name__ == "__main__":
    sys.exit(main())
