#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/programs_table.py: the table of calls, and that of docs/programs.md itself."""

import contextlib
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
import programs_table  # noqa: E402

PAGE = f"# Programs\n\nbefore\n\n{programs_table.BEGIN}\nold\n{programs_table.END}\n\nafter\n"


def call_row(call="cudaFree", size=2048, loading="LAZY", longest_us=1800.0, verdict="through", **more):
    return {"call": call, "block_bytes": size, "loading": loading, "calls": 3, "longest_call_us": 9.5,
            "longest_request_us": longest_us, "nulls": 0, "reason": "none", "begun_mib": 512, "verdict": verdict,
            "error": "", **more}


def step_row(blocker="cudaFree", step="cuMemMap", outcome="through", us=62.0):
    return {"blocker": blocker, "blocker_waited": True, "step": step, "outcome": outcome,
            "us": us if outcome == "through" else None}


class ProgramsTable(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.page = self.folder / "programs.md"
        self.page.write_text(PAGE)
        self.write_calls([call_row()])
        self.write_locks([step_row()])

    def write_calls(self, rows):
        (self.folder / "calls.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def write_locks(self, rows):
        (self.folder / "locks.json").write_text(json.dumps(rows))

    def run_tool(self, *more):
        """Exit code, standard output, standard error."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = programs_table.main(["--calls", str(self.folder / "calls.jsonl"), "--locks",
                                        str(self.folder / "locks.json"), "--output", str(self.page), *more])
        return code, out.getvalue(), err.getvalue()

    def lines(self):
        """The table's lines, without its head."""
        self.assertEqual(self.run_tool()[0], 0)
        return [line for line in self.page.read_text().splitlines() if line.startswith("|")][2:]

    def test_the_table_stands_between_the_markers_and_the_rest_stays(self):
        self.assertEqual(self.lines(), ["| cudaFree | 1.80 | through | through, 62 us at most | not available |"])
        text = self.page.read_text()
        self.assertTrue(text.startswith("# Programs\n\nbefore\n"))
        self.assertTrue(text.endswith(f"{programs_table.END}\n\nafter\n"))
        self.assertNotIn("old", text)

    def test_check_says_whether_the_page_is_up_to_date(self):
        code, out, err = self.run_tool("--check")
        self.assertEqual(code, 1)
        self.assertIn("-old", out)
        self.assertIn("stale", err)
        self.assertEqual(self.page.read_text(), PAGE)
        self.run_tool()
        self.assertEqual(self.run_tool("--check"), (0, "", ""))

    def test_sizes_and_modes_are_columns_in_order(self):
        self.write_calls([call_row(size=8 << 20, loading="EAGER", longest_us=7.0),
                          call_row(size=8 << 20, longest_us=6.0), call_row(), call_row(size=65536, longest_us=3.0)])
        self.assertIn("| cudaFree | 1.80 | 0.00 | 0.01 | 0.01 | through |", self.lines()[0])
        self.assertIn("| Call of another thread | 2 KiB, LAZY (ms) | 64 KiB, LAZY (ms) | 8 MiB, LAZY (ms) "
                      "| 8 MiB, EAGER (ms) |", self.page.read_text())

    def test_a_null_is_seen_with_its_reason(self):
        self.write_calls([call_row(), call_row(size=65536, verdict="null", nulls=2064, reason="commit_blocked",
                                               longest_us=5e6)])
        line = self.lines()[0]
        self.assertIn("| 2,064 null (commit_blocked), 5,000 |", line)
        self.assertIn("| through; 64 KiB, LAZY: null |", line)

    def test_rows_that_say_nothing_are_no_success(self):
        self.write_calls([call_row(verdict="not tested"),
                          call_row(call="peer", verdict="not available", longest_us=None),
                          call_row(call="copy", verdict="failed", longest_us=None, error="cudaMemcpy: no")])
        for line, verdict in zip(self.lines(), ("not tested", "not available", "failed")):
            self.assertIn(f"| {verdict} | {verdict} |", line)

    def test_of_several_runs_the_worst_counts(self):
        for rows in ([call_row(), call_row(longest_us=9000.0)], [call_row(longest_us=9000.0), call_row()]):
            self.write_calls(rows)
            self.assertIn("| 9.00 | through |", self.lines()[0])
        self.write_calls([call_row(verdict="null", nulls=1, longest_us=1.0), call_row()])
        self.assertIn("| null |", self.lines()[0])

    def test_the_end_of_the_process_has_no_longest_request(self):
        self.write_calls([call_row(call="exit of the process", longest_us=None, nulls=None)])
        self.assertEqual(self.lines(), ["| exit of the process | ended | through | - | - |"])

    def test_blocked_calls_are_named(self):
        self.write_locks([step_row(), step_row(step="cuMemCreate", outcome="blocked"),
                          step_row(step="cudaMemsetAsync", outcome="blocked"),
                          step_row(step="cudaMemsetAsync, completion", outcome="blocked")])
        self.assertIn("| cuMemCreate blocked | blocked |", self.lines()[0])

    def test_only_some_of_the_queued_work_may_be_blocked(self):
        self.write_locks([step_row(), step_row(step="launch, completion"),
                          step_row(step="cudaMemsetAsync, completion", outcome="blocked")])
        self.assertIn("| cudaMemsetAsync blocked |", self.lines()[0])

    def test_results_say_where_they_are_from(self):
        self.make_result("calls", self.folder / "calls.jsonl")
        self.make_result("driver_locks", self.folder / "locks.json")
        with contextlib.redirect_stdout(io.StringIO()):
            code = programs_table.main(["--calls", str(self.folder / "results/calls.json"), "--locks",
                                        str(self.folder / "results/driver_locks.json"), "--output", str(self.page)])
        self.assertEqual(code, 0)
        self.assertIn("Requests: Some GPU; driver 580.1, CUDA 13.0; commit `0123abc`, 2026-11-24; `the command`.",
                      self.page.read_text())
        page = self.folder / "report.md"
        self.assertEqual(performance.main(["--results", str(self.folder / "results"), "--output", str(page)]), 0)
        self.assertIn("| every request gets memory | at most 0 | 0 | met |", page.read_text())
        self.assertIn("| no virtual-memory call is blocked | at most 0 | 0 | met |", page.read_text())

    def make_result(self, name, raw):
        (self.folder / "results").mkdir(exist_ok=True)
        rows = self.folder / "rows.json"
        self.assertEqual(programs_table.main(["--rows", str(raw), "--output", str(rows)]), 0)
        self.assertEqual(make_result.main([str(rows), "--name", name, "--commit", "0123abc", "--date", "2026-11-24",
                                           "--driver", "580.1", "--cuda", "13.0", "--machine", "gpu=Some GPU",
                                           "--command", "the command", "--output",
                                           str(self.folder / "results" / f"{name}.json")]), 0)

    def test_a_result_of_rows_that_were_not_timed_can_be_made(self):
        self.write_calls([call_row(verdict="not tested", longest_us=None)])
        self.make_result("calls", self.folder / "calls.jsonl")

    def test_what_cannot_be_used_is_said_in_one_line(self):
        def broken(change, words):
            change()
            code, _, err = self.run_tool()
            self.assertEqual(code, 2)
            self.assertIn(words, err)
            self.assertEqual(err.count("\n"), 1)
            self.setUp()

        broken(lambda: self.page.write_text("no markers\n"), "needs the two lines")
        broken(lambda: self.page.write_text(PAGE + programs_table.END), "once each")
        broken(self.page.unlink, "no such page")
        broken(lambda: self.write_calls([call_row(verdict="fine")]), "'fine'")
        broken(lambda: self.write_calls([]), "holds no rows")
        broken(lambda: self.write_calls([{"call": "x"}]), "has no 'block_bytes'")
        broken(lambda: self.write_locks([{"blocker": "x"}]), "has no 'step'")
        broken((self.folder / "locks.json").unlink, "locks.json")
        broken(lambda: (self.folder / "calls.jsonl").write_text("{}\n{"), "calls.jsonl:2: not JSON")


@unittest.skipUnless((ROOT / "profiling/results/calls.json").exists(), "the calls were not measured yet")
class CommittedPage(unittest.TestCase):
    def test_is_up_to_date(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(programs_table.main(["--check"]), 0, out.getvalue())


if __name__ == "__main__":
    unittest.main()
