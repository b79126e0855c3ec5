#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/plot_portions.py; the picture itself where matplotlib is installed."""

import contextlib
import importlib.util
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiling" / "report"))

import plot_portions  # noqa: E402


class Plot(unittest.TestCase):
    def run_script(self, output):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = plot_portions.main([str(output)])
        return code, errors.getvalue()

    def test_reserved_leaves_lie_in_blocks_and_are_shared_by_none(self):
        for policy in ("packed", "padded"):
            taken = set()
            for name, block, first, own, reserved in plot_portions.placed(policy):
                leaves = {(block, leaf) for leaf in range(first, first + reserved)}
                self.assertFalse(taken & leaves, (policy, name))
                self.assertTrue(block < plot_portions.BLOCKS and first + reserved <= plot_portions.LEAVES)
                taken |= leaves
            self.assertLessEqual({asked <= places[2] for _, asked, *both in plot_portions.PORTIONS for places in both},
                                 {True})

    def test_other_endings_are_refused(self):
        code, errors = self.run_script("out.gif")
        self.assertEqual(code, 2)
        self.assertIn("ends in .svg", errors)

    def test_the_picture_is_the_same_each_time(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.svg"
            code, errors = self.run_script(path)
            if importlib.util.find_spec("matplotlib") is None:
                self.assertEqual(code, 2)
                self.assertIn("python3-matplotlib", errors)
                return
            self.assertEqual(code, 0, errors)
            first = path.read_bytes()
            self.run_script(path)
            self.assertEqual(path.read_bytes(), first)

    def test_the_committed_picture_shows_every_portion(self):
        text = (ROOT / "docs" / "pictures" / "portions.svg").read_text(encoding="utf-8")
        for name, *_ in plot_portions.PORTIONS:
            self.assertEqual(text.count(f">{name}</text>"), 2, name)


if __name__ == "__main__":
    unittest.main()
