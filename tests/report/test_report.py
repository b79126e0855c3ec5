#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report: the result format, the page that is generated from it, and the committed page itself."""

import contextlib
import copy
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiling" / "report"))

import make_result  # noqa: E402
import performance  # noqa: E402

RESULT = {
    "schema": 1, "name": "round_trip", "title": "Round trip", "version": "0.1", "commit": "0123abc",
    "date": "2026-11-21", "machine": {"sms": 132, "gpu": "Some GPU", "cores": 16}, "driver": "580.1", "cuda": "13.0",
    "command": "orchard bench x",
    "columns": [{"key": "warps", "title": "Warps", "format": ",d", "axis": True},
                {"key": "us", "title": "Median", "unit": "us", "format": ".2f"}],
    "rows": [{"warps": 1, "us": 4.0, "hidden": 7}, {"warps": 8448, "us": 50.126}],
    "targets": [{"what": "lone warp", "where": {"warps": 1}, "key": "us", "at_most": 5},
                {"what": "all", "key": "us", "at_most": 40, "every": True}],
    "expected": "Less.", "happened": "More.", "notes": "Twice.",
}


def google_run(name, time, **more):
    return {"name": name, "run_name": name, "run_type": "iteration", "real_time": time, "cpu_time": time,
            "time_unit": "ns", "iterations": 10, **more}


GOOGLE = {
    "context": {"date": "2026-11-21T04:00:00+00:00", "host_name": "secret-host", "executable": "/home/x/bench",
                "num_cpus": 2, "mhz_per_cpu": 2100, "library_build_type": "release", "commit": "89abcde",
                "command": "or_tree_bench"},
    "benchmarks": [
        google_run("or_tree/take/segments:1024/fill:half/repeats:3", 10.0),
        google_run("or_tree/take/segments:1024/fill:half/repeats:3", 12.0),
        google_run("or_tree/take/segments:1024/fill:half/repeats:3", 90.0),
        {**google_run("or_tree/take/segments:1024/fill:half/repeats:3", 12.0), "run_type": "aggregate",
         "aggregate_name": "median", "name": "or_tree/take/segments:1024/fill:half/repeats:3_median"},
        google_run("scan/take/segments:1024/fill:half", 3.0, time_unit="us"),
        google_run("scan/run/segments:65536/fill:half", 999.0, items_per_second=2e6),
    ],
}


class Folder(unittest.TestCase):
    """A folder of results and a page, both temporary."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.results = Path(holder.name) / "results"
        self.results.mkdir()
        self.output = Path(holder.name) / "report.md"

    def put(self, document, name="a.json"):
        (self.results / name).write_text(document if isinstance(document, str) else json.dumps(document))

    def run_main(self, main, *arguments):
        """(exit code, standard output, standard error)"""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(a) for a in arguments])
        return code, out.getvalue(), err.getvalue()

    def generate(self, *arguments):
        return self.run_main(performance.main, "--results", self.results, "--output", self.output, *arguments)

    def page(self):
        self.assertEqual(self.generate(), (0, "", ""))
        return self.output.read_text()


class Page(Folder):
    def test_an_empty_folder_says_so(self):
        self.assertIn("No results have been recorded yet.", self.page())

    def test_rows_are_shown_by_the_columns(self):
        self.put(RESULT)
        page = self.page()
        self.assertIn("## Round trip\n", page)
        self.assertIn("| Warps | Median (us) |\n|---:|---:|\n| 1 | 4.00 |\n| 8,448 | 50.13 |\n", page)
        self.assertNotIn("hidden", page)

    def test_origin_and_texts_are_shown(self):
        self.put(RESULT)
        page = self.page()
        for line in ("- Command: `orchard bench x`", "- Machine: Some GPU, 132 SMs, 16 cores",
                     "- Driver, CUDA: 580.1, 13.0", "- Commit: `0123abc`", "- Date: 2026-11-21", "- Version: 0.1",
                     "**Expected.** Less.", "**What happened.** More.", "**Notes.** Twice."):
            self.assertIn(line, page)

    def test_a_picture_is_shown_where_there_is_one(self):
        self.put(RESULT)
        self.assertNotIn("pictures/", self.page())
        self.put({**RESULT, "picture": "round_trip.svg"})
        self.assertIn("![Round trip](../../docs/pictures/round_trip.svg)\n", self.page())

    def test_targets_are_judged(self):
        self.put(RESULT)
        page = self.page()
        self.assertIn("| lone warp | at most 5 us | 4.00 us | met |", page)
        self.assertIn("| all | at most 40 us | 50.13 us (worst of 2) | **missed by 10.1 us**, 25.3% |", page)
        self.assertIn("| [Round trip](#round-trip) | 0.1 | Some GPU | 1 of 2 met |", page)

    def test_at_least_is_met_at_the_bound_and_missed_below(self):
        result = copy.deepcopy(RESULT)
        result["targets"] = [{"what": "equal", "where": {"warps": 1}, "key": "us", "at_least": 4},
                             {"what": "below", "where": {"warps": 1}, "key": "us", "at_least": 8}]
        self.put(result)
        page = self.page()
        self.assertIn("| equal | at least 4 us | 4.00 us | met |", page)
        self.assertIn("| below | at least 8 us | 4.00 us | **missed by 4 us**, 50.0% |", page)

    def test_sections_are_ordered_by_order_then_name_whatever_the_files_are_called(self):
        for file, name, order in (("a", "zeta", 1000), ("b", "alpha", 1000), ("c", "mid", 1)):
            self.put({**RESULT, "name": name, "title": name, "order": order}, f"{file}.json")
        titles = [line for line in self.page().splitlines() if line.startswith("## ")]
        self.assertEqual(titles, ["## mid", "## alpha", "## zeta"])

    def test_versions_of_one_name_share_a_section(self):
        self.put({**RESULT, "version": "0.9", "commit": "aaaaaaa"}, "old.json")
        newer = copy.deepcopy(RESULT)
        newer.update(version="0.10", commit="bbbbbbb")
        newer["rows"][0]["us"] = 3.0
        self.put(newer, "new.json")
        page = self.page()
        self.assertEqual(page.count("## Round trip\n"), 1)
        self.assertIn("- Version: 0.10", page)
        self.assertIn("| Warps | Version | Commit | Median (us) |\n|---:|---|---|---:|\n"
                      "| 1 | 0.10 | `bbbbbbb` | 3.00 |\n| 1 | 0.9 | `aaaaaaa` | 4.00 |\n"
                      "| 8,448 | 0.10 | `bbbbbbb` | 50.13 |\n| 8,448 | 0.9 | `aaaaaaa` | 50.13 |\n", page)

    def test_a_bar_or_a_new_line_does_not_break_a_table(self):
        result = copy.deepcopy(RESULT)
        result["columns"][1] = {"key": "label"}
        result["rows"] = [{"warps": 1, "label": "a|b\nc"}]
        result["targets"] = []
        self.put(result)
        self.assertIn("| 1 | a\\|b c |", self.page())


    def test_which_repetition_is_shown_is_said(self):
        self.put(RESULT)
        page = self.page()
        self.assertIn("**Which repetition a time is of.**", page)
        self.assertIn("- Shown: not recorded\n", page)
        self.put({**RESULT, "shown": "the median of five"})
        self.assertIn("- Shown: the median of five\n", self.page())

    def test_a_result_that_says_nothing_of_repetitions_shows_what_its_description_says(self):
        self.put({**RESULT, "name": "scaling"})
        self.assertIn("- Shown: times are medians after one launch that does not count", self.page())
        self.put({**RESULT, "name": "scaling", "shown": "its own"})
        self.assertIn("- Shown: its own\n", self.page())

    def test_a_table_for_each_value_of_a_column(self):
        columns = [{"key": "what", "title": "What", "axis": True}, *RESULT["columns"], {"key": "ms", "title": "Load"}]
        rows = [{"what": "a|b", "warps": 1, "us": 4.0}, {"what": "c", "ms": 7}, {"what": "a|b", "warps": 2, "us": 5.0}]
        self.put({**RESULT, "columns": columns, "rows": rows, "targets": [], "split": "what"})
        self.assertIn("*a\\|b*\n\n| Warps | Median (us) |\n|---:|---:|\n| 1 | 4.00 |\n| 2 | 5.00 |\n\n"
                      "*c*\n\n| Load |\n|---:|\n| 7 |\n", self.page())

    def test_hidden_rows_are_judged_but_not_shown(self):
        self.put({**RESULT, "hide": {"warps": 8448}})
        page = self.page()
        self.assertIn("|---:|---:|\n| 1 | 4.00 |\n\n", page)
        self.assertIn("| all | at most 40 us | 50.13 us (worst of 2) |", page)


class Check(Folder):
    def test_up_to_date_then_stale(self):
        self.put(RESULT)
        self.page()
        self.assertEqual(self.generate("--check"), (0, "", ""))
        self.put({**RESULT, "date": "2026-11-22"})
        before = self.output.read_text()
        code, out, err = self.generate("--check")
        self.assertEqual(code, 1)
        self.assertIn("-- Date: 2026-11-21\n+- Date: 2026-11-22\n", out)
        self.assertIn("stale", err)
        self.assertEqual(self.output.read_text(), before)

    def test_a_missing_page_is_stale(self):
        self.put(RESULT)
        self.assertEqual(self.generate("--check")[0], 1)

    def test_the_committed_page_is_what_the_committed_results_give(self):
        code, out, err = self.run_main(performance.main, "--check")
        self.assertEqual((code, err), (0, ""), out)


class Refused(Folder):
    """Each is refused with exit code 2 and one line that names the file and what is wrong."""

    def refuse(self, document, *words, name="a.json"):
        self.put(document, name)
        code, out, err = self.generate()
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(err.count("\n"), 1, err)
        for word in (name, *words):
            self.assertIn(word, err)
        self.assertFalse(self.output.exists())

    def changed(self, **fields):
        return {**copy.deepcopy(RESULT), **fields}

    def test_text_that_is_not_json(self):
        self.refuse("{", "not JSON")
        self.refuse('{"schema": NaN}', "NaN")
        self.refuse("[]", "list")

    def test_a_missing_field(self):
        for field in ("name", "commit", "date", "machine", "driver", "cuda", "command", "columns", "rows"):
            self.refuse({k: v for k, v in RESULT.items() if k != field}, field)

    def test_fields_of_the_wrong_form(self):
        for field, value in (("schema", 2), ("name", "Round Trip"), ("commit", "main"), ("date", "21.11.2026"),
                             ("version", "v1"), ("machine", {}), ("machine", "a GPU"), ("driver", 580.1),
                             ("command", ""), ("rows", []), ("columns", []), ("order", True), ("notes", 1),
                             ("shown", 10), ("split", "us"), ("split", "none"),
                             ("surprise", 1)):
            self.refuse(self.changed(**{field: value}), field)

    def test_columns_and_rows_that_do_not_fit(self):
        self.refuse(self.changed(rows=[{"warps": "many", "us": 1.0}]), "warps", "'many'")
        self.refuse(self.changed(rows=[{"warps": 1, "us": [1]}]), "us")
        self.refuse(self.changed(rows=[{"warps": 1}]), "'us'")
        self.refuse(self.changed(columns=[{"key": "us", "format": "{x}"}]), "'{x}'")
        self.refuse(self.changed(columns=[{"key": "us"}, {"key": "us"}]), "two columns")
        self.refuse(self.changed(columns=[{"title": "us"}]), "no key")

    def test_targets_that_say_nothing(self):
        for target, word in (({"what": "x", "key": "us", "where": {"warps": 2}, "at_most": 1}, "no row"),
                             ({"what": "x", "key": "us", "at_most": 1}, "2 rows match"),
                             ({"what": "x", "key": "ms", "at_most": 1, "every": True}, "'ms'"),
                             ({"what": "x", "key": "us", "every": True}, "at_most"),
                             ({"what": "x", "key": "us", "every": True, "at_most": "1"}, "'1'"),
                             ({"key": "us", "at_most": 1}, "say what")):
            self.refuse(self.changed(targets=[target]), word)

    def test_hiding_that_says_nothing(self):
        self.refuse(self.changed(hide={"warps": 2}), "hide", "no row")
        self.refuse(self.changed(hide={}), "hide")
        self.refuse(self.changed(hide=["warps"]), "hide")
        same = [{"warps": 1, "us": 1.0}, {"warps": 1, "us": 2.0}]
        self.refuse(self.changed(hide={"warps": 1}, rows=same, targets=[]), "hide", "nothing is left")

    def test_one_version_twice(self):
        self.put(RESULT, "a.json")
        self.refuse(RESULT, "a.json", "another version", name="b.json")

    def test_a_failed_benchmark(self):
        broken = copy.deepcopy(GOOGLE)
        broken["benchmarks"][0].update(error_occurred=True, error_message="tree is not valid")
        self.refuse(broken, "tree is not valid")

    def test_a_folder_that_is_not_there(self):
        code, _, err = self.run_main(performance.main, "--results", self.results / "none", "--output", self.output)
        self.assertEqual(code, 2)
        self.assertIn("no such folder", err)


class GoogleBenchmark(Folder):
    TABLE = ("| Operation | Segments | Fill | or_tree (ns) | scan (ns) |\n|---|---:|---|---:|---:|\n"
             "| take | 1,024 | half | 12.0 | 3000.0 |\n| run | 65,536 | half | - | 500.0 |\n")

    def test_structures_stand_side_by_side(self):
        self.put(GOOGLE, "or_tree_cpu.json")
        page = self.page()
        self.assertIn("## or_tree_cpu\n", page)
        self.assertIn(self.TABLE, page)
        self.assertIn("- Commit: `89abcde`", page)
        self.assertIn("- Machine: 2 cores, 2100 MHz", page)
        self.assertIn("- Shown: the median over Google Benchmark's repetitions", page)
        self.assertIn("- Date: 2026-11-21", page)

    def test_what_was_not_recorded_is_said_to_be_so(self):
        plain = copy.deepcopy(GOOGLE)
        del plain["context"]["commit"], plain["context"]["command"]
        self.put(plain, "or_tree_cpu.json")
        self.assertIn("- Commit: not recorded", self.page())

    def test_an_object_beside_the_context_describes_it(self):
        self.put({**GOOGLE, "orchard": {"title": "OR-tree", "version": "0.1", "expected": "Flat.", "targets": [
            {"what": "take", "where": {"structure": "or_tree"}, "key": "ns", "at_most": 12}]}}, "or_tree_cpu.json")
        page = self.page()
        self.assertIn("## OR-tree\n", page)
        self.assertIn("**Expected.** Flat.", page)
        self.assertIn("| take | at most 12 ns | 12.0 ns | met |", page)

    def test_only_aggregates(self):
        document = copy.deepcopy(GOOGLE)
        document["benchmarks"] = document["benchmarks"][3:4]
        self.put(document, "or_tree_cpu.json")
        self.assertIn("| or_tree | take | 1,024 | half | 12.0 |", self.page())

    def test_a_template_argument_is_no_axis(self):
        document = copy.deepcopy(GOOGLE)
        document["benchmarks"] = [google_run("bench<orchard::or_tree>/take/8", 2.0)]
        self.put(document, "or_tree_cpu.json")
        self.assertIn("| bench&lt;orchard::or_tree> | take/8 | 2.0 |", self.page())


class MakeResult(Folder):
    ARGUMENTS = ("--name", "walk", "--commit", "0123abc", "--date", "2026-11-21", "--command", "orchard walk",
                 "--machine", "gpu=Some GPU", "--machine", "sms=132", "--driver", "580.1", "--cuda", "13.0")

    def make(self, raw, *more):
        """The result made from `raw`, put into the folder of results and shown on a page."""
        source = self.output.with_name("raw.json")
        source.write_text(json.dumps(raw))
        made = self.results / "walk.json"
        self.assertEqual(self.run_main(make_result.main, source, *self.ARGUMENTS, "-o", made, *more), (0, "", ""))
        return json.loads(made.read_text()), self.page()

    def test_rows(self):
        for raw in ([{"phase": "insert", "ms": 1.25, "count": 12000}],
                    {"rows": [{"phase": "insert", "ms": 1.25, "count": 12000}], "other": 1}):
            document, page = self.make(raw)
            self.assertIn("| phase | ms | count |\n|---|---:|---:|\n| insert | 1.25 | 12,000 |\n", page)
            self.assertEqual(document["machine"], {"gpu": "Some GPU", "sms": 132})

    def test_an_object_without_rows_is_one_row(self):
        _, page = self.make({"steps": 4, "time": {"insert": 1.5, "walk": 2.5}, "list": [1]})
        self.assertIn("| steps | time.insert | time.walk |\n|---:|---:|---:|\n| 4 | 1.5 | 2.5 |\n", page)

    def test_descriptions_win_over_the_program_and_arguments_over_both(self):
        about = self.output.with_name("about.json")
        about.write_text(json.dumps({"title": "described", "expected": "described", "columns": RESULT["columns"]}))
        document, _ = self.make({"rows": RESULT["rows"], "title": "own", "expected": "own", "notes": "own"},
                                "--describe", about, "--expected", "argument")
        self.assertEqual([document[k] for k in ("title", "expected", "notes")], ["described", "argument", "own"])

    def test_google_benchmark_loses_the_host_name(self):
        document, page = self.make(GOOGLE)
        self.assertNotIn("secret-host", json.dumps(document))
        self.assertIn(GoogleBenchmark.TABLE, page)
        self.assertIn("- Commit: `0123abc`", page)

    def test_bad_input_writes_nothing(self):
        source, made = self.output.with_name("raw.json"), self.results / "walk.json"
        for raw, word in (("{", "not JSON"), ("3", "int"), ("[]", "columns"), ("[1]", "list of objects")):
            source.write_text(raw)
            code, out, err = self.run_main(make_result.main, source, *self.ARGUMENTS, "-o", made)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
            self.assertIn(word, err)
            self.assertFalse(made.exists())
        code, _, err = self.run_main(make_result.main, source.with_name("none"), *self.ARGUMENTS)
        self.assertEqual(code, 2)
        self.assertIn("none", err)


if __name__ == "__main__":
    unittest.main()
