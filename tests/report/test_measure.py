#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/measure.py, with a script in place of the program."""

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

import measure  # noqa: E402
import results  # noqa: E402

PROGRAM = """#!/usr/bin/env python3
import json, sys, time
if sys.argv[1] == "info":
    print(json.dumps({"version": "0.1.0", "host": {"cpu": "Some CPU", "cores": 2, "memory_bytes": 25274793984},
                      "cuda": {"current_gpu": 0, "driver_version": 13000, "runtime_version": 12080},
                      "gpus": [{"name": "Some GPU", "compute_capability": "9.0", "multiprocessors": 132}]}))
    sys.exit(0)
name, path = sys.argv[2] if sys.argv[1] == "bench" else sys.argv[1], sys.argv[sys.argv.index("--json") + 1]
with open(path + ".runs", "a") as runs:
    runs.write(" ".join(sys.argv[1:]) + "\\n")
if name == "idle":
    sys.exit("no such thing")
if name == "soak":
    time.sleep(60)
row = {"layout": "linear", "bytes": 1024, "threads": 128, "allocate_us": 1.0, "free_us": 1.0, "requests_per_us": 128.0,
       "nulls": 0, "wrong_stamps": 0}
if name == "oversubscribe":
    row = {"pattern": "working-set", "layout": "linear", "data": 4.0, "by": "hardware"}
    rows = [{**row, "way": way, "kernel_first_ms": ms, "kernel_third_ms": ms, "kernel_tenth_ms": ms, "wrong": 0,
             "kernel_settled_ms": ms, "kernels_ms": 10 * ms, "moves_ms": 1.0, "moved_to_device_bytes": 1,
             "resident_share": 0.5, "pattern": pattern}
            for pattern in ("working-set", "random") for way, ms in (("device", 1.0), ("stay", 8.0), ("move", 1.25))]
    json.dump({"rows": rows}, open(path, "w"))
    sys.exit(0)
row.update({f"{what}_{which}_us": 1.0 for what in ("allocate", "free")
            for which in ("first", "third", "tenth", "settled")})
json.dump({"version": "0.1.0", "commit": "fedcba9", "rows": [row]}, open(path, "w"))
"""


class Measure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.folder / "orchard"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = measure.main([str(self.program), *arguments, "--commit", "0123abc", "--date", "2026-01-02",
                                 "--output-dir", str(self.folder / "out")])
        return code, out.getvalue(), err.getvalue()

    def test_a_result_says_where_it_comes_from(self):
        code, out, err = self.run_main("scaling", "--argument=--repeats=3")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^scaling: \d+ s\n$")
        document = json.loads((self.folder / "out/scaling.json").read_text())
        results.check(document, "scaling")
        self.assertEqual(document["machine"], {"gpu": "Some GPU", "architecture": "sm_90", "sms": 132, "cpu": "Some CPU", "cores": 2,
                                               "memory": "24 GiB"})
        self.assertIn("medians after one launch that does not count", document["shown"])
        self.assertEqual([document[key] for key in ("commit", "date", "driver", "cuda", "version", "command")],
                         ["0123abc", "2026-01-02", "13.0", "12.8", "0.1.0",
                          "orchard bench scaling --repeats=3 --json scaling.json"])

    def test_a_command_of_its_own_gets_its_ratios(self):
        code, out, err = self.run_main("oversubscribe")
        self.assertEqual((code, err), (0, ""))
        document = json.loads((self.folder / "out/oversubscribe.json").read_text())
        self.assertEqual(document["command"], "orchard oversubscribe --capacity 8GiB --data 4 --patterns "
                                              "working-set,random,graph-walk --json oversubscribe.json")
        self.assertEqual(document["rows"][2]["stay_over_move"], 6.4)

    def test_what_fails_keeps_no_other_from_being_run(self):
        code, out, err = self.run_main("idle", "soak", "scaling", "--timeout", "4")
        self.assertEqual(code, 1)
        self.assertRegex(out, r"idle: FAILED after \d+ s: ended with 1: no such thing\n")
        self.assertRegex(out, r"soak: FAILED after \d+ s: took longer than 4\.0 s\n")
        self.assertTrue((self.folder / "out/scaling.json").exists())
        self.assertEqual(err.count("\n"), 1)
        self.assertIn("2 failed", err)

    def test_rows_that_do_not_fit_are_no_result(self):
        code, out, err = self.run_main("fragmentation", "utilisation")
        self.assertEqual(code, 1)
        self.assertFalse((self.folder / "out/utilisation.json").exists())

    def test_bad_arguments(self):
        code, _, err = self.run_main("sizes", "size")
        self.assertEqual((code, err.count("\n")), (2, 1))
        self.assertIn("there is no result 'size'; choose from ", err)
        self.program.unlink()
        code, _, err = self.run_main("sizes")
        self.assertEqual((code, err.count("\n")), (2, 1))

    def test_all_described_benchmarks_are_known(self):
        self.assertIn("pages", measure.known_names())
        self.assertNotIn("walk", measure.known_names())
        self.assertLessEqual({"moves", *measure.COMMANDS}, set(measure.known_names()))

    def test_the_steps_on_a_gpu_and_the_page_have_the_same_commands(self):
        for place in (".ci/gpu", "profiling/results/README.md"):
            text = " ".join((ROOT / place).read_text(encoding="utf-8").replace("\\\n", " ").split())
            for words in measure.COMMANDS.values():
                self.assertIn(" ".join(words), text.replace('"$build/orchard" ', ""), place)


if __name__ == "__main__":
    unittest.main()
