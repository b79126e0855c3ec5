#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/plot_particles.py; the picture itself where matplotlib is installed."""

import contextlib
import importlib.util
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiling" / "report"))

import plot_particles  # noqa: E402


def run(complete=False):
    passes = [{"alive": 2, "device_bytes": 1 << 20, "host_bytes": 0, "kernel_us": 1.0, "moved_bytes": 0},
              {"alive": 1024, "device_bytes": 1 << 20, "host_bytes": 3 << 20, "kernel_us": 2.0, "moved_bytes": 0}]
    return {"device": {"kind": "emulated"}, "primaries": 2, "energy_mev": 5, "track_bytes": 2048,
            "device_budget_bytes": 1 << 20, "heap": {"complete": True, "passes": passes},
            "pool": {"complete": complete, "passes": passes[:1]}}


class Plot(unittest.TestCase):
    def run_script(self, text, name="out.svg"):
        errors = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(errors):
            source = Path(folder) / "run.json"
            source.write_text(text, encoding="utf-8")
            output = Path(folder) / name
            code = plot_particles.main([str(source), str(output)])
            return code, errors.getvalue(), output.read_bytes() if output.exists() else b""

    def test_curves_are_in_mebibytes_by_kernel(self):
        found = plot_particles.curves(run())
        self.assertEqual(found["device"], [1, 1])
        self.assertEqual(found["host"], [0, 3])
        self.assertEqual(found["tracks"], [2 * 2048 / (1 << 20), 2])
        self.assertEqual(found["ends"], 1)
        self.assertIsNone(plot_particles.curves(run(complete=True))["ends"])

    def test_other_documents_and_endings_are_refused(self):
        for text, name, why in (("{}", "out.svg", "'heap' is missing"), ("[]", "out.svg", "missing"),
                                (json.dumps(run()), "out.gif", "ends in .svg"), ("noise", "out.svg", "Expecting value")):
            code, errors, _ = self.run_script(text, name)
            self.assertEqual(code, 2)
            self.assertIn(why, errors)
            self.assertEqual(errors.count("\n"), 1)

    def test_the_picture_is_the_same_each_time(self):
        code, errors, first = self.run_script(json.dumps(run()))
        if importlib.util.find_spec("matplotlib") is None:
            self.assertEqual(code, 2)
            self.assertIn("python3-matplotlib", errors)
            return
        self.assertEqual(code, 0, errors)
        self.assertEqual(self.run_script(json.dumps(run()))[2], first)
        self.assertIn(b"the fixed pool ends here", first)


if __name__ == "__main__":
    unittest.main()
