# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Google Benchmark's JSON, converted to a result of our own schema.

A benchmark's name is read as

    structure/operation/segments:65536/fill:half

The bare parts are the structure and the operation, in this order (further bare parts join the operation); the parts
with a colon are axes. Parts that Google Benchmark itself appends (`repeats:5`, `real_time`, ...) are dropped.
"""

import re
import statistics

import misshapen

NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}

_OWN_PARTS = re.compile(r"(iterations|min_time|min_warmup_time|repeats|threads):.*|real_time|manual_time|process_time")
_AGGREGATE_SUFFIX = re.compile(r"_(mean|median|stddev|cv|min|max)$")
_META = ("title", "version", "commit", "command", "expected", "happened", "notes", "driver", "cuda")
_SHOWN = ("the median over Google Benchmark's repetitions, each a mean over many operations: settled; the first "
          "operations are not recorded")


class Unusable(Exception):
    """The document holds something that no table can be made of."""


def is_google_benchmark(document):
    """Whether a JSON document was written by Google Benchmark."""
    return isinstance(document, dict) and "benchmarks" in document and "context" in document


def to_result(document, name):
    """The document as a result. Raises `Unusable`. What `--benchmark_context=KEY=VALUE` recorded of commit, command, version, title,
    expected, happened and notes is taken over; an object under the key "orchard" may hold the same and more."""
    try:
        return _to_result(document, name)
    except misshapen.ERRORS as error:
        raise Unusable(f"Google Benchmark's JSON: {misshapen.why(error)}") from None


def _to_result(document, name):
    context = document["context"]
    rows = _rows(document["benchmarks"])
    axis_keys = _ordered_axes(rows)
    result = {
        "schema": 1,
        "name": name,
        "title": name,
        "commit": None,
        "command": None,
        "date": str(context.get("date", ""))[:10] or None,
        "machine": {"cores": context.get("num_cpus", 0), "mhz": context.get("mhz_per_cpu", 0)},
        "driver": None,
        "cuda": None,
        "shown": _SHOWN,
        "columns": [{"key": key, "title": key.capitalize(), "axis": True, "format": _axis_format(rows, key)}
                    for key in axis_keys] + [{"key": "ns", "title": "Time", "unit": "ns", "format": ".1f"}],
        "rows": rows,
    }
    if len({row["structure"] for row in rows}) > 1:
        result["pivot"] = {"column": "structure", "value": "ns"}
    if context.get("library_build_type") == "debug":
        result["notes"] = "Google Benchmark itself was a debug build."
    result.update({key: context[key] for key in _META if key in context})
    result.update(document.get("orchard", {}))
    return result


def _rows(benchmarks):
    """One row for each benchmark: the median over its repetitions."""
    times = {}
    for run in benchmarks:
        if run.get("error_occurred") or run.get("skipped"):
            raise Unusable(f"benchmark {run.get('name')!r} failed: {run.get('error_message', 'no message')}")
        if run.get("run_type", "iteration") == "iteration":
            times.setdefault(_identity(run), []).append(_nanoseconds(run))
        elif run.get("aggregate_name") == "median":
            times.setdefault(_identity(run), [])  # the repetitions give it, unless only aggregates were reported
    for run in benchmarks:
        if run.get("aggregate_name") == "median" and not times[_identity(run)]:
            times[_identity(run)].append(_nanoseconds(run))
    if not times:
        raise Unusable("it holds no benchmark")
    return [{**dict(identity), "ns": statistics.median(values)} for identity, values in times.items()]


def _identity(run):
    """Which row a run belongs to: its axes in the order of the name."""
    name = run.get("run_name") or _AGGREGATE_SUFFIX.sub("", run["name"])
    bare, axes = [], []
    for part in name.split("/"):
        if _OWN_PARTS.fullmatch(part):
            continue
        key, colon, value = part.partition(":")
        # A template argument such as tree<orchard::or_tree> is no axis.
        if colon and not value.startswith(":") and key.isidentifier():
            axes.append((key, _number(value)))
        else:
            bare.append(part)
    structure, operation = bare[0] if bare else "", "/".join(bare[1:])
    return (("structure", structure), ("operation", operation), *axes)


def _nanoseconds(run):
    """Nanoseconds an operation: from the items where they are counted, since an iteration may do several."""
    if run.get("items_per_second"):
        return 1e9 / run["items_per_second"]
    unit = run.get("time_unit", "ns")
    if unit not in NANOSECONDS:
        raise Unusable(f"benchmark {run.get('name')!r} has the unknown time unit {unit!r}")
    wall = any(part in run["name"] for part in ("/real_time", "/manual_time"))
    return run["real_time" if wall else "cpu_time"] * NANOSECONDS[unit]


def _ordered_axes(rows):
    """Axis keys: structure, operation, then as named."""
    keys = []
    for row in rows:
        keys += [key for key in row if key not in keys and key not in ("ns", "structure", "operation")]
    operation = ["operation"] if any(row["operation"] for row in rows) else []
    return ["structure"] + operation + keys


def _axis_format(rows, key):
    return ",d" if all(isinstance(row.get(key, 0), int) for row in rows) else ""


def _number(text):
    return int(text) if re.fullmatch(r"-?\d+", text) else text
