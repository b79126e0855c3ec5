#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of the results about memory that moves: `orchard bench moves`, `oversubscribe` and `apps`. Their ratios, their
targets, and the page that shows both. All figures here are made up."""

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
import markdown  # noqa: E402
import performance  # noqa: E402
import results  # noqa: E402
import summarise_oversubscribe  # noqa: E402

MIB = 1 << 20


def moves_rows():
    """What `orchard bench moves` writes."""
    times = {f"to_{where}_{which}_ms": 80.0 for where in ("host", "device")
             for which in ("first", "third", "tenth", "settled")}
    return [{"move_unit": unit * MIB, "bytes": 4096 * MIB, "wrong_segments": 0, **times, "to_host_gb_s": 52.0,
             "to_device_gb_s": 54.0, "moved_to_host_bytes": 1, "moved_to_device_bytes": 1} for unit in (2, 64)]


def passes(pattern, way, first, third, settled, moves=0.0, **more):
    """A row of `orchard oversubscribe`: ten passes, of which the last eight take the settled time."""
    return {"pattern": pattern, "layout": "linear", "data": 4.0, "way": way, "by": "hardware", "kernel_first_ms": first,
            "kernel_third_ms": third, "kernel_tenth_ms": settled, "kernel_settled_ms": settled,
            "kernels_ms": first + 9 * settled, "moves_ms": moves, "moved_to_device_bytes": 0, "resident_share": 0.3,
            "wrong": 0, "late_threads": 0, **more}


def oversubscribe_rows():
    """The rows of two patterns, all as good as the targets ask for."""
    rows = []
    for pattern, stays, moved in (("working-set", 100.0, 14.0), ("random", 300.0, 301.0)):
        rows += [passes(pattern, "device", 12.0, 11.0, 10.0), passes(pattern, "stay", stays, stays, stays),
                 passes(pattern, "move", stays, moved + 0.5, moved, moves=40.0),
                 {"pattern": pattern, "layout": "linear", "data": 4.0, "way": "managed", "by": "model",
                  "kernel_first_ms": 9000.0, "moved_to_device_bytes": 5}]
    return rows


def apps_rows():
    """What `orchard apps` writes."""
    return [{"application": "gemm", "backing": "elastic", "by": "hardware", "layout": "linear", "bytes": 8 << 30, "moves": True,
             "part": 0.5, "first_us": 3.0, "third_us": 2.0, "tenth_us": None, "median_us": 2.0, "gb_per_s": 50.0,
             "resident_share": 0.5, "moved_bytes": 4096, "moves_us": 9.0, "nulls": 0, "checked": 4096, "wrong": 0}]


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def run_main(self, main, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(a) for a in arguments])
        return code, out.getvalue(), err.getvalue()

    def make(self, name, rows):
        """The result of these rows, as a file in the folder."""
        raw = self.folder / "raw"
        raw.write_text(json.dumps(rows))
        made = self.folder / f"{name}.json"
        arguments = (raw, "--name", name, "--describe", ROOT / f"profiling/report/describe/{name}.json", "--commit",
                     "0123abc", "--date", "2026-11-21", "--version", "0.1", "--command", "x", "--machine", "gpu=Some GPU")
        self.assertEqual(self.run_main(make_result.main, *arguments, "-o", made), (0, "", ""))
        raw.unlink()
        return results.load(made)

    def missed(self, name, rows):
        result = self.make(name, rows)
        return [t["what"] for t in result["targets"] if markdown.judge(result, t)[2] != "met"]


class Ratios(Case):
    def ratios(self, rows, pattern="working-set"):
        row = next(r for r in summarise_oversubscribe.summarised(rows) if (r["pattern"], r["way"]) == (pattern, "move"))
        return {key: row[key] for key in ("stay_over_move", "move_over_device", "all_move_over_stay") if key in row}

    def test_are_those_of_the_worst_pass_from_the_third_on(self):
        self.assertEqual(self.ratios(oversubscribe_rows()),
                         {"stay_over_move": 100 / 14.5, "move_over_device": 14.0 / 10.0,
                          "all_move_over_stay": (100 + 9 * 14 + 40) / 1000})

    def test_of_another_size_or_layout_do_not_count(self):
        rows = oversubscribe_rows()
        others = copy.deepcopy(rows)
        for row in others:
            row.update(layout="interleaved:64K", kernel_settled_ms=1.0)
        self.assertEqual(self.ratios(rows + others), self.ratios(rows))

    def test_are_left_out_where_a_way_or_a_pass_is_missing(self):
        rows = oversubscribe_rows()
        self.assertEqual(list(self.ratios([r for r in rows if r["way"] != "device"])),
                         ["stay_over_move", "all_move_over_stay"])
        self.assertEqual(list(self.ratios([r for r in rows if r["way"] != "stay"])), ["move_over_device"])
        rows[2]["kernel_third_ms"] = None  # two passes
        self.assertEqual(list(self.ratios(rows)), ["all_move_over_stay"])

    def test_are_left_out_where_a_kernel_ended_at_its_limit(self):
        rows = oversubscribe_rows()
        rows[1]["late_threads"] = 7
        self.assertEqual(list(self.ratios(rows)), ["move_over_device"])
        rows[2]["late_threads"] = 7
        self.assertEqual(self.ratios(rows), {})

    def test_what_is_no_result_is_refused(self):
        raw = self.folder / "raw"
        for text in ("", "[]", "{}", '{"rows": [{"pattern": "x"}]}', '[{"pattern": 1, "layout": 1, "data": 1, "way": '
                     '"move", "kernel_third_ms": "x"}, {"pattern": 1, "layout": 1, "data": 1, "way": "stay", '
                     '"kernel_third_ms": 2}]'):
            raw.write_text(text)
            code, out, err = self.run_main(summarise_oversubscribe.main, raw)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1), text)


class Targets(Case):
    def test_of_moves(self):
        self.assertEqual(self.missed("moves", moves_rows()), [])
        rows = moves_rows()
        rows[0].update(to_host_gb_s=13.0, wrong_segments=1)  # small pieces have no target of a rate
        rows[1]["to_host_gb_s"] = 48.0
        self.assertEqual(self.missed("moves", rows),
                         ["to the host alone, in pieces of 64 MiB", "every segment is as it was"])

    def test_of_data_beyond_the_budget(self):
        def missed(rows):
            return [what.split(":")[-1].strip() for what in
                    self.missed("oversubscribe", summarise_oversubscribe.summarised(rows))]

        self.assertEqual(missed(oversubscribe_rows()), [])
        slow = oversubscribe_rows()
        slow[2]["kernel_third_ms"] = 21.0  # the settled passes alone would do
        self.assertEqual(missed(slow), ["time where it stays to time where it moves"] +
                         ["time where it moves to time with all on the device"])
        slow = oversubscribe_rows()
        slow[6]["moves_ms"] = 400.0
        self.assertEqual(missed(slow), ["all passes and moves to all passes where memory stays"])

    def test_of_applications(self):
        self.assertEqual(self.missed("apps", apps_rows()), [])
        rows = apps_rows()
        rows[0].update(wrong=1, checked=0)
        self.assertEqual(self.missed("apps", rows), ["every checked result is right", "results are checked"])


class Page(Case):
    def page(self):
        page = self.folder / "report.md"
        self.assertEqual(self.run_main(performance.main, "--results", self.folder, "--output", page), (0, "", ""))
        return page.read_text()

    def test_has_each_goal_beside_what_was_measured(self):
        rows = moves_rows()
        rows[1]["to_host_gb_s"] = 48.0
        self.make("moves", rows)
        self.make("oversubscribe", summarise_oversubscribe.summarised(oversubscribe_rows()))
        self.make("apps", apps_rows())
        page = self.page()
        for line in ("| to the host alone, in pieces of 64 MiB | at least 50 GB/s | 48.0 GB/s | **missed by 2 GB/s**",
                     "| to the device alone, in pieces of 64 MiB | at least 50 GB/s | 54.0 GB/s | met |",
                     "time where it stays to time where it moves | at least 5 | 6.90 | met |",
                     "time with all on the device | at most 1.5 | 1.40 | met |",
                     "to all passes where memory stays | at most 1.05 | 1.016 | met |",
                     "| every checked result is right | at most 0 | 0 | met |", "| managed | model |"):
            self.assertIn(line, page)

    def test_is_made_without_a_run_of_them(self):
        page = self.page()
        self.assertIn("No results have been recorded yet", page)
        self.make("moves", moves_rows())
        page = self.page()
        self.assertIn("Moves between the device and the host", page)
        self.assertNotIn("Data beyond the device's budget", page)


if __name__ == "__main__":
    unittest.main()
