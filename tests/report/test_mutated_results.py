#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The scripts of profiling/report read results that were changed at random: each one is fine, or gives one clear line
and an exit code. The seeds are fixed; a failure names reader and seed."""

import contextlib
import copy
import io
import json
import random
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiling" / "report"))

import make_result  # noqa: E402
import paper_figures  # noqa: E402
import performance  # noqa: E402
import plot_arena  # noqa: E402
import plot_results  # noqa: E402
import plot_utilisation  # noqa: E402
import plot_uvm  # noqa: E402
import programs_table  # noqa: E402
import summarise_oversubscribe  # noqa: E402
import summarise_pages  # noqa: E402

RESULTS = ROOT / "profiling" / "results"
SEEDS = 250  # of each reader
ODD = (None, True, False, 0, -1, 1, 1 << 70, 0.5, -1e308, 1e400, float("nan"), "", "x", "a\nb", "\ud800", "ns", "12",
       [], {}, [1], ["x"], {"a": 1}, [[]], [{}], {"a": {"b": []}})
GOOGLE = {
    "context": {"date": "2026-11-21T04:00:00+00:00", "num_cpus": 2, "mhz_per_cpu": 2100, "commit": "89abcde",
                "library_build_type": "release", "command": "or_tree_bench"},
    "benchmarks": [
        {"name": f"{kind}/take/segments:1024/fill:half/repeats:3", "run_type": "iteration", "real_time": 10.0,
         "run_name": f"{kind}/take/segments:1024/fill:half/repeats:3", "cpu_time": 10.0, "time_unit": "ns"}
        for kind in ("or_tree", "scan")] + [
        {"name": "scan/x/real_time_median", "run_name": "scan/x/real_time", "run_type": "aggregate", "real_time": 1.0,
         "cpu_time": 10.0, "time_unit": "us", "aggregate_name": "median"}],
}


def short(document):
    """The document with four rows: mutations then meet the other fields, too."""
    return {key: value[:4] if key in ("rows", "benchmarks") else value for key, value in document.items()}


def result(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def places(node):
    """Every (container, key) below a node."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], (dict, list)):
            yield from places(node[key])


def changed(document, rng):
    """The document as text, after one to three changes: of values, of keys, or of the bytes."""
    holder = [copy.deepcopy(document)]
    for _ in range(rng.randint(1, 3)):
        node, key = rng.choice(list(places(holder)))
        kind = rng.randrange(5)
        if kind < 3 or isinstance(node, list) and node is holder:
            node[key] = copy.deepcopy(rng.choice(ODD))
        elif kind == 3:
            del node[key]
        elif isinstance(node, dict):
            node[rng.choice(("", "a", "rows", "key"))] = node.pop(key)
        else:
            node.insert(key, copy.deepcopy(node[key]))
    text = bytearray(json.dumps(holder[0]), "utf-8")
    if rng.randrange(4) == 0:
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text)) if text else 0
            text[at:at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
    return bytes(text)


def no_matplotlib():
    raise ImportError("no matplotlib in this test")


class MutatedResults(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.input = self.folder / "in" / "a.json"
        self.input.parent.mkdir()
        self.output = self.folder / "out"

    def try_reader(self, documents, main, *arguments, **more):
        """Runs a script's `main` on many mutations of the documents, each once unchanged. Some must be refused, and
        some accepted: otherwise nothing was tested."""
        codes = {0: 0, 1: 0, 2: 0}
        for seed in range(SEEDS):
            rng = random.Random(seed)
            self.input.write_bytes(changed(rng.choice(documents), rng))
            out, err = io.StringIO(), io.StringIO()
            with self.subTest(reader=main.__module__, seed=seed):
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    code = main([str(a) for a in arguments], **more)
                self.assertIn(code, codes)
                codes[code] += 1
                if code != 0:
                    self.assertRegex(err.getvalue(), r"\A\w+\.py: [^\n]+\n\Z")
                else:
                    self.assertEqual(err.getvalue(), "")
        self.assertGreater(codes[2], SEEDS / 20, "hardly a mutation was refused")
        self.assertGreater(codes[0] + codes[1], SEEDS / 20, "hardly a mutation was accepted")

    def test_performance(self):
        documents = [short(result(name)) for name in ("pages", "walks", "managed", "calls", "shortage")] + [GOOGLE]
        self.try_reader(documents, performance.main, "--results", self.input.parent, "--output", self.output)

    def test_make_result(self):
        raw = [short(result("pages")), short(result("shortage"))["rows"], {"a": {"b": 1}, "c": 0.5}, GOOGLE]
        self.try_reader(raw, make_result.main, self.input, "--name", "x", "--commit", "0123abc", "--date",
                        "2026-11-25", "--machine", "cores=2", "--command", "x", "--output", self.output)

    def test_descriptions(self):
        raw = self.folder / "raw.json"
        raw.write_text(json.dumps(result("fragmentation")["rows"]))
        described = json.loads((ROOT / "profiling/report/describe/fragmentation.json").read_text(encoding="utf-8"))
        self.try_reader([described], make_result.main, raw, "--describe", self.input, "--name", "x", "--commit",
                        "0123abc", "--date", "2026-11-25", "--machine", "cores=2", "--command", "x", "--output",
                        self.output)

    def test_summarise_pages(self):
        rows = [row for row in result("pages")["rows"] if row["what"] != "summary"]
        kinds = {row["what"]: row for row in rows}
        self.try_reader([list(kinds.values())], summarise_pages.main, self.input, "--output", self.output)

    def test_summarise_oversubscribe(self):
        times = {"kernel_third_ms": 2.0, "kernel_settled_ms": 1.0, "kernels_ms": 9.0, "moves_ms": 1.0, "late_threads": 0}
        rows = [{"pattern": "random", "layout": "linear", "data": 4.0, "way": way, **times}
                for way in ("device", "stay", "move")]
        self.try_reader([rows, {"rows": rows}], summarise_oversubscribe.main, self.input, "--output", self.output)

    def test_programs_table(self):
        page = self.folder / "page.md"
        shutil.copy(ROOT / "docs/programs.md", page)
        for name, option in (("calls", "--calls"), ("driver_locks", "--locks")):
            self.try_reader([short(result(name))], programs_table.main, option, self.input, "--output", page)
            self.try_reader([short(result(name))["rows"]], programs_table.main, "--rows", self.input, "--output",
                            self.output)

    def test_plots(self):
        kinds = {row["what"]: row for name in ("pages", "utilisation", "sizes", "scaling")
                 for row in result(name)["rows"] if "what" in row}
        self.try_reader([list(kinds.values())], plot_results.main, self.input, load_pyplot=no_matplotlib)
        row = {"source": "random", "layout": "linear", "placement": "packed", "capacity": "unlimited", "seconds": 1.5,
               "bytes_in": 1, "bytes_out": 2, "faults": 3}
        self.try_reader([{"rows": [row, {**row, "layout": "interleaved:4KiB"}]}], plot_uvm.main, self.input,
                        load_pyplot=no_matplotlib)
        row = {"allocator": "orchard", "case": "winter_9a/64", "source": "a paper", "bytes": 64, "verdict": "ok",
               "detail": "", "unit": "us", "value": 1.5, "low": 1.0, "high": 2.0, "ratio_to_floor": None}
        self.try_reader([{"rows": [row, {**row, "case": "winter_9b/64"}]}], plot_arena.main, self.input,
                        load_pyplot=no_matplotlib)
        rows = [{"unit": unit, "bytes": 64, "bytes_to": to, "utilisation": 0.5} for unit in (8, 16) for to in (64, 99)]
        with mock.patch.object(plot_utilisation, "draw", lambda lines, output: None):
            self.try_reader([rows], plot_utilisation.main, self.input, "x.svg")

    def test_paper_figures(self):
        data = self.folder / "paper"
        shutil.copytree(RESULTS / "paper", data)
        page = self.folder / "page.md"
        shutil.copy(ROOT / "docs/uvm_paper.md", page)
        for name in ("batches", "theorems"):
            self.input = data / f"{name}.json"
            document = json.loads(self.input.read_text(encoding="utf-8"))
            good = self.input.read_bytes()
            self.try_reader([document], paper_figures.main, "--data", data, "--page", page, load_pyplot=no_matplotlib)
            self.input.write_bytes(good)


if __name__ == "__main__":
    unittest.main()
