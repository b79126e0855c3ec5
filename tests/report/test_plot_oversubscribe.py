#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/plot_oversubscribe.py; what is drawn is looked at where matplotlib is installed."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "profiling/report"))

import plot_oversubscribe
from test_plot_uvm import has_matplotlib


def row(data, way="stay", by="hardware", settled=3.0, **others):
    return {"pattern": "random", "layout": "linear", "data": data, "way": way, "by": by, "kernel_first_ms": 5.0,
            "kernel_settled_ms": settled, **others}


class PlotOversubscribe(unittest.TestCase):
    def run_with(self, text, load_pyplot=None):
        """Exit code, standard error, names of the pictures."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows"
            path.write_text(text)
            err = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
                code = plot_oversubscribe.main([str(path), "--output-dir", folder + "/pictures"], load_pyplot)
            return code, err.getvalue(), sorted(p.name for p in Path(folder, "pictures").glob("*"))

    def test_a_line_has_the_settled_times_by_size(self):
        rows = [row(2, settled=4.0), row(1), row(1, way="managed", by="model", settled=None)]
        self.assertEqual(plot_oversubscribe.lines_of(rows),
                         {("stay", "hardware"): ([1, 2], [3.0, 4.0]), ("managed", "model"): ([1], [5.0])})

    @unittest.skipUnless(has_matplotlib(), "matplotlib is not installed")
    def test_draws_a_picture_for_each_layout(self):
        rows = [row(1), row(2), row(1, layout="interleaved:64K"), row(1, pattern="strided")]
        code, err, names = self.run_with(json.dumps({"rows": rows}))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(names, ["oversubscribe-interleaved-64K.svg", "oversubscribe-linear.svg"])

    def test_what_is_no_result_is_refused(self):
        for text in ("", "[]", "{}", '{"rows": []}', '{"rows": [{"pattern": "x"}]}', "3\n4"):
            code, err, _ = self.run_with(text)
            self.assertEqual(code, 2, text)
            self.assertEqual(len(err.splitlines()), 1)

    def test_says_how_to_install_what_is_missing(self):
        def missing():
            raise ImportError("No module named 'matplotlib'")

        code, err, _ = self.run_with(json.dumps({"rows": [row(1)]}), missing)
        self.assertEqual(code, 1)
        self.assertIn("python3-matplotlib", err)


if __name__ == "__main__":
    unittest.main()
