#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Wraps a program's raw JSON into a result file for profiling/results.

The machine that measures need not have the repository: commit, machine and the rest are arguments. INPUT is a list of
rows; an object with "rows" (whose other known fields are taken over); any other object, which becomes one row with
nested names joined by dots; or Google Benchmark's JSON. Later sources win: INPUT, then --describe, then arguments.

Exit codes: 0 done; 2 the input or an argument cannot be used (one line on standard error; nothing is written).
"""

import argparse
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the checkout stays as it is

import google_benchmark
import results

TEXTS = ("title", "version", "commit", "date", "driver", "cuda", "command", "picture", "shown", "expected",
         "happened", "notes")
DESCRIBED = TEXTS + ("machine", "columns", "pivot", "split", "hide", "targets", "order")


def main(arguments=None):
    options = _parser().parse_args(arguments)
    try:
        # Before anything is written: text that is no Unicode is an error, too.
        text = (json.dumps(build(options), indent=1, ensure_ascii=False) + "\n").encode("utf-8")
    except (results.BadResult, google_benchmark.Unusable, OSError, ValueError) as error:
        print(f"make_result.py: {error}", file=sys.stderr)
        return 2
    if options.output == "-":
        sys.stdout.write(text.decode("utf-8"))
    else:
        Path(options.output).write_bytes(text)
    return 0


def build(options):
    """The result as a dictionary, checked."""
    raw = _read(options.input)
    if google_benchmark.is_google_benchmark(raw):
        document = google_benchmark.to_result(raw, options.name)
    else:
        document = {"schema": results.SCHEMA, "name": options.name, "driver": None, "cuda": None, **_rows_of(raw)}
    if options.describe:
        described = _read(options.describe)
        if not isinstance(described, dict):
            raise ValueError(f"{options.describe}: must hold an object")
        for key in described:
            if key not in DESCRIBED:
                raise ValueError(f"{options.describe}: {key!r} cannot be described; known: {', '.join(DESCRIBED)}")
        document.update(described)
    document.update({key: getattr(options, key) for key in TEXTS if getattr(options, key) is not None})
    if options.machine:
        document["machine"] = dict(options.machine)
    document.setdefault("columns", _derived_columns(document["rows"]))
    document = {key: value for key, value in document.items()
                if value is not None or key in ("driver", "cuda", "pivot")}
    results.check(document, options.name)
    return document


def _parser():
    parser = argparse.ArgumentParser(description="Wrap raw JSON into a result file for profiling/results.")
    parser.add_argument("input", help="raw JSON file, or - for standard input")
    parser.add_argument("--name", required=True, help="name of the result: lower case, digits, underscores")
    parser.add_argument("--output", "-o", default="-", help="file to write; default: standard output")
    parser.add_argument("--describe", metavar="FILE", help="JSON object with title, columns, targets, expected, ...")
    parser.add_argument("--machine", action="append", type=_key_value, metavar="KEY=VALUE",
                        help="gpu, architecture, sms, cpu, cores, memory, os, ...; repeat")
    for key in TEXTS:
        parser.add_argument(f"--{key}", metavar="TEXT")
    return parser


def _key_value(text):
    key, equals, value = text.partition("=")
    if not key or not equals or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, int(value) if value.isdecimal() else value


def _read(path):
    text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None


def _rows_of(raw):
    if isinstance(raw, list):
        return {"rows": raw}
    if not isinstance(raw, dict):
        raise ValueError(f"the input is a {type(raw).__name__}; it must be a list of rows or an object")
    if "rows" in raw:
        return {"rows": raw["rows"], **{key: raw[key] for key in DESCRIBED if key in raw}}
    return {"rows": [dict(_flattened(raw, ""))]}


def _flattened(value, prefix):
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _flattened(item, f"{prefix}{key}.")
        elif not isinstance(item, list):
            yield prefix + key, item


def _derived_columns(rows):
    """Columns for rows without a description: every key, integers with separators, other numbers to four digits."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("rows must be a list of objects")
    columns = []
    for key in dict.fromkeys(key for row in rows for key in row):
        values = [row[key] for row in rows if row.get(key) is not None and not isinstance(row.get(key), bool)]
        if values and all(isinstance(v, int) for v in values):
            shown = ",d"
        elif values and all(isinstance(v, (int, float)) for v in values):
            shown = ".4g"
        else:
            shown = ""
        columns.append({"key": key, "format": shown})
    return columns


if __name__ == "__main__":
    sys.exit(main())
