# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Committed results: what a file under profiling/results may hold, read and checked.

The format is described in profiling/results/README.md. Every problem is a `BadResult` whose text is one line that
names the file, the field and the value.
"""

import json
import re
from pathlib import Path

import google_benchmark

SCHEMA = 1
NOT_RECORDED = "not recorded"

_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
_VERSION = re.compile(r"\d+(\.\d+)*")
_COMMIT = re.compile(r"[0-9a-f]{7,40}(-dirty)?")
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
_FORMAT = re.compile(r",?(\.\d{1,2})?[dfegs%]?")
_REQUIRED = ("name", "commit", "date", "machine", "driver", "cuda", "command", "columns", "rows")
_OPTIONAL = ("schema", "title", "version", "order", "pivot", "hide", "targets", "picture", "split", "shown",
             "expected", "happened", "notes")
_COLUMN_FIELDS = ("key", "title", "unit", "format", "axis")
_TARGET_FIELDS = ("what", "where", "key", "at_most", "at_least", "every")


class BadResult(Exception):
    """A result file that cannot be used. The text is for people: one line, file first."""


def load_all(folder):
    """Every result of `folder`, as a list of dictionaries in the order of the page: by `order`, name, then version."""
    loaded = [load(path) for path in sorted(Path(folder).glob("*.json"))]
    seen = {}
    for result in loaded:
        identity = (result["name"], result["version"])
        if identity in seen:
            raise BadResult(f"{result['file']}: name {identity[0]!r} version {identity[1]!r} is already in "
                            f"{seen[identity]}; give one of them another version")
        seen[identity] = result["file"]
    return sorted(loaded, key=lambda r: (r["order"], r["name"], version_key(r["version"])))


def load(path):
    """One file: a result of our own schema, or Google Benchmark's JSON, which is converted."""
    path = Path(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
        json.dumps(document, ensure_ascii=False).encode("utf-8")  # refuses text that is no Unicode
    except (ValueError, UnicodeDecodeError) as error:
        raise BadResult(f"{path.name}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadResult(f"{path.name}: holds a {type(document).__name__}, not an object; wrap it with make_result.py")
    if google_benchmark.is_google_benchmark(document):
        try:
            document = google_benchmark.to_result(document, path.stem)
        except google_benchmark.Unusable as error:
            raise BadResult(f"{path.name}: {error}") from None
        for field in ("commit", "command", "date"):
            if document.get(field) is None:
                document[field] = NOT_RECORDED
    return check(document, path.name)


def check(document, file):
    """Checks a document of our own schema and fills in what is optional. Raises `BadResult`."""
    if document.get("schema") != SCHEMA:
        raise BadResult(f"{file}: schema is {document.get('schema')!r}, this generator knows {SCHEMA}")
    for field in _REQUIRED:
        if field not in document:
            raise BadResult(f"{file}: field {field!r} is missing")
    for field in document:
        if field not in _REQUIRED + _OPTIONAL:
            raise BadResult(f"{file}: field {field!r} is unknown")
    result = {"title": document["name"], "version": "0", "order": 1000, "pivot": None, "hide": None, "targets": [],
              "picture": "", "split": None, "shown": "", "expected": "", "happened": "", "notes": "",
              **document, "file": file}
    _check_scalars(result, file)
    _check_columns(result, file)
    _check_rows(result, file)
    _check_pivot(result, file)
    _check_hide(result, file)
    if result["split"] is not None and (result["pivot"] is not None or result["split"] not in axes(result)):
        raise BadResult(f"{file}: split must name an axis, in a result without pivot, not {result['split']!r}")
    if not isinstance(result["targets"], list):
        raise BadResult(f"{file}: targets must be a list, not {result['targets']!r}")
    for target in result["targets"]:
        _check_target(result, target, file)
    return result


def version_key(version):
    """Sorts "0.10" after "0.9"."""
    return tuple(int(part) for part in version.split("."))


def axes(result):
    """The keys of the columns that say which row it is, rather than what was measured."""
    return [c["key"] for c in result["columns"] if c["axis"]]


def _refuse_constant(text):
    raise ValueError(f"{text} is not a number that JSON has")


def _check_scalars(result, file):
    patterns = {"name": _NAME, "version": _VERSION, "commit": _COMMIT, "date": _DATE}
    for field, pattern in patterns.items():
        value = result[field]
        if value != NOT_RECORDED and not (isinstance(value, str) and pattern.fullmatch(value)):
            raise BadResult(f"{file}: {field} {value!r} does not have the form {pattern.pattern}")
    for field in ("title", "command", "picture", "shown", "expected", "happened", "notes"):
        if not isinstance(result[field], str):
            raise BadResult(f"{file}: {field} must be text, not {result[field]!r}")
    for field in ("driver", "cuda"):
        if result[field] is not None and not isinstance(result[field], str):
            raise BadResult(f"{file}: {field} must be text, or null where there was none, not {result[field]!r}")
    if not result["command"]:
        raise BadResult(f"{file}: command is empty")
    if isinstance(result["order"], bool) or not isinstance(result["order"], int):
        raise BadResult(f"{file}: order must be an integer, not {result['order']!r}")
    machine = result["machine"]
    if not isinstance(machine, dict) or not machine or not all(_is_scalar(v) for v in machine.values()):
        raise BadResult(f"{file}: machine must be an object of names and plain values, such as "
                        '{"gpu": "NVIDIA H200", "sms": 132}')


def _check_columns(result, file):
    if not isinstance(result["columns"], list) or not result["columns"]:
        raise BadResult(f"{file}: columns must be a list with at least one column")
    result["columns"] = [_checked_column(column, file) for column in result["columns"]]
    keys = [c["key"] for c in result["columns"]]
    for key in keys:
        if keys.count(key) > 1:
            raise BadResult(f"{file}: two columns have the key {key!r}")


def _checked_column(column, file):
    if not isinstance(column, dict) or not isinstance(column.get("key"), str):
        raise BadResult(f"{file}: column {column!r} has no key")
    for field in column:
        if field not in _COLUMN_FIELDS:
            raise BadResult(f"{file}: column {column['key']!r} has the unknown field {field!r}")
    column = {"title": column["key"], "unit": "", "format": "", "axis": False, **column}
    for field in ("title", "unit"):
        if not isinstance(column[field], str):
            raise BadResult(f"{file}: column {column['key']!r}: {field} must be text, not {column[field]!r}")
    if not isinstance(column["format"], str) or not _FORMAT.fullmatch(column["format"]):
        raise BadResult(f"{file}: column {column['key']!r} has the format {column['format']!r}; "
                        "use for example \",d\", \".1f\" or \".3g\"")
    return column


def _check_rows(result, file):
    if not isinstance(result["rows"], list) or not result["rows"]:
        raise BadResult(f"{file}: rows must be a list with at least one row")
    known = {c["key"]: c for c in result["columns"]}
    for number, row in enumerate(result["rows"]):
        if not isinstance(row, dict):
            raise BadResult(f"{file}: row {number} is not an object: {row!r}")
        for key, value in row.items():
            if not _is_scalar(value) and value is not None:
                raise BadResult(f"{file}: row {number}: {key} is not a plain value: {value!r}")
            if key in known:
                _check_formats(known[key], value, f"{file}: row {number}")
    for key in known:
        if not any(key in row for row in result["rows"]):
            raise BadResult(f"{file}: no row has the column {key!r}")


def _check_formats(column, value, where):
    if value is None or isinstance(value, bool) or column["format"] == "":
        return
    try:
        format(value, column["format"])
    except (ValueError, TypeError):
        raise BadResult(f"{where}: {column['key']} is {value!r}, which its format {column['format']!r} cannot show"
                        ) from None


def _check_pivot(result, file):
    pivot = result["pivot"]
    if pivot is None:
        return
    keys = [c["key"] for c in result["columns"]]
    if not isinstance(pivot, dict) or set(pivot) != {"column", "value"}:
        raise BadResult(f'{file}: pivot must be {{"column": KEY, "value": KEY}}, not {pivot!r}')
    for key in pivot.values():
        if key not in keys:
            raise BadResult(f"{file}: pivot names {key!r}, which is no column")
    if pivot["column"] not in axes(result):
        raise BadResult(f"{file}: pivot column {pivot['column']!r} is not an axis")


def _check_hide(result, file):
    hide = result["hide"]
    if hide is None:
        return
    if not isinstance(hide, dict) or not hide or not all(_is_scalar(v) for v in hide.values()):
        raise BadResult(f"{file}: hide must be an object of values that pick rows, not {hide!r}")
    if not _matching(result["rows"], hide):
        raise BadResult(f"{file}: hide: no row has {hide!r}")
    if not shown_rows(result):
        raise BadResult(f"{file}: hide: every row has {hide!r}, so that nothing is left to show")


def _check_target(result, target, file):
    what = target.get("what") if isinstance(target, dict) else None
    if not isinstance(what, str) or not what:
        raise BadResult(f"{file}: target {target!r} does not say what it is")
    for field in target:
        if field not in _TARGET_FIELDS:
            raise BadResult(f"{file}: target {what!r} has the unknown field {field!r}")
    if ("at_most" in target) == ("at_least" in target):
        raise BadResult(f"{file}: target {what!r} needs one of at_most and at_least")
    bound = target.get("at_most", target.get("at_least"))
    if not _is_number(bound):
        raise BadResult(f"{file}: target {what!r}: bound {bound!r} is not a number")
    if target.get("key") not in [c["key"] for c in result["columns"]]:
        raise BadResult(f"{file}: target {what!r}: key {target.get('key')!r} is no column")
    if not isinstance(target.get("where", {}), dict):
        raise BadResult(f"{file}: target {what!r}: where must be an object, not {target['where']!r}")
    rows = target_rows(result, target)
    if not rows:
        raise BadResult(f"{file}: target {what!r}: no row has {target.get('where')!r}")
    if len(rows) > 1 and not target.get("every", False):
        raise BadResult(f"{file}: target {what!r}: {len(rows)} rows match; narrow 'where', or set 'every' to true")
    for row in rows:
        if not _is_number(row.get(target["key"])):
            raise BadResult(f"{file}: target {what!r}: {target['key']} is {row.get(target['key'])!r}, not a number")


def target_rows(result, target):
    """The rows that a target speaks of."""
    return _matching(result["rows"], target.get("where", {}))


def shown_rows(result):
    """The rows that the page shows: all but those to hide."""
    if not result["hide"]:
        return result["rows"]
    hidden = _matching(result["rows"], result["hide"])
    return [row for row in result["rows"] if not any(row is other for other in hidden)]


def _matching(rows, where):
    return [row for row in rows if all(key in row and row[key] == value for key, value in where.items())]


def _is_scalar(value):
    return isinstance(value, (str, int, float, bool))


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)
