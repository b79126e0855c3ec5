#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/plot_utilisation.py; the picture itself where matplotlib is installed."""

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

import plot_utilisation  # noqa: E402

ROWS = [
    {"unit": 256, "bytes": 4096, "bytes_to": 4096, "utilisation": 1.0},
    {"unit": 64, "bytes": 200, "bytes_to": 200, "utilisation": 0.75},
    {"unit": 64, "bytes": 64, "bytes_to": 64, "utilisation": 0.5},
    {"unit": 64, "bytes": 16, "bytes_to": 8192, "utilisation": 0.9},
]


class Plot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_script(self, text, output="out.png"):
        (self.folder / "rows.json").write_text(text, encoding="utf-8")
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = plot_utilisation.main([str(self.folder / "rows.json"), str(self.folder / output)])
        return code, errors.getvalue()

    def test_lines_are_sorted_and_mixed_sizes_apart(self):
        self.assertEqual(plot_utilisation.lines_of(ROWS),
                         {64: ([(64, 0.5), (200, 0.75)], 0.9), 256: ([(4096, 1.0)], None)})

    def test_rows_may_stand_in_a_document(self):
        path = self.folder / "rows.json"
        for document in (ROWS, {"version": "0.1.0", "rows": ROWS}):
            path.write_text(json.dumps(document), encoding="utf-8")
            self.assertEqual(plot_utilisation.rows_of(path), ROWS)

    def test_what_cannot_be_used_is_said_in_one_line(self):
        for text, words in (("{", "not JSON"), ("[]", "no rows"), ("{}", "no rows"), ("[1]", "row 0: 'unit'"),
                            (json.dumps([ROWS[0], {"unit": 1, "bytes": 2}]), "row 1: 'bytes_to'")):
            code, errors = self.run_script(text)
            self.assertEqual(code, 2, text)
            self.assertIn(words, errors)
            self.assertEqual(errors.count("\n"), 1)

    def test_other_endings_are_refused(self):
        code, errors = self.run_script(json.dumps(ROWS), "out.gif")
        self.assertEqual(code, 2)
        self.assertIn("ends in .png or .svg", errors)

    def test_picture(self):
        code, errors = self.run_script(json.dumps(ROWS))
        if importlib.util.find_spec("matplotlib") is None:
            self.assertEqual(code, 2)
            self.assertIn("python3-matplotlib", errors)
        else:
            self.assertEqual(code, 0, errors)
            self.assertTrue((self.folder / "out.png").read_bytes().startswith(b"\x89PNG"))


if __name__ == "__main__":
    unittest.main()
