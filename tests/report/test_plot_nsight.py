#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/plot_nsight.py; the pictures are drawn where matplotlib is installed."""

import contextlib
import io
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiling/report"))

import plot_nsight
from test_plot_uvm import has_matplotlib

PAGE = plot_nsight.PAGE.read_text(encoding="utf-8")


class PlotNsight(unittest.TestCase):
    def run_with(self, text, load_pyplot=None):
        """Exit code, standard error, {name: text} of what was written."""
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text(text, encoding="utf-8")
            err = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
                code = plot_nsight.main([str(page), "--output-dir", folder + "/pictures"], load_pyplot)
            return code, err.getvalue(), {p.name: p.read_text() for p in Path(folder, "pictures").glob("*")}

    def test_the_figures_are_those_of_the_page(self):
        walk = plot_nsight.walk_of(PAGE)
        self.assertEqual(walk[0], ("compute", "walk_graph", 116.0))
        self.assertEqual({name for name, _, _ in walk}, set(plot_nsight.COLOURS))
        layouts = plot_nsight.layouts_of(PAGE)
        self.assertEqual([row[0] for row in layouts], ["linear", "64 KiB tiles"])
        self.assertAlmostEqual(layouts[0][2], 314e6 * 32 / 1e9)

    def test_figures(self):
        self.assertEqual([plot_nsight.number(text) for text in ("3.9", "314 M", "54 kB", "0.3 MB")],
                         [3.9, 314e6, 54e3, 0.3e6])
        for text in ("", "many", "1.2.3", "-"):
            with self.assertRaises(plot_nsight.Unusable):
                plot_nsight.number(text)

    def test_pages_that_cannot_be_drawn(self):
        for text, words in (("", "no table begins"), (PAGE.replace("| 116 |", "| often |"), "no figure"),
                            (PAGE.replace("| linear | 58.2 |", "| linear |"), "5 columns")):
            code, err, written = self.run_with(text)
            self.assertEqual((code, err.count("\n"), written), (2, 1, {}), err)
            self.assertIn("page.md", err)
            self.assertIn(words, err)

    def test_without_matplotlib(self):
        def none():
            raise ImportError("No module named 'matplotlib'")
        self.assertEqual(self.run_with(PAGE, none)[0], 1)

    @unittest.skipUnless(has_matplotlib(), "matplotlib is not installed")
    def test_the_pictures_of_the_page_are_those_that_are_shown(self):
        code, err, written = self.run_with(PAGE)
        self.assertEqual((code, err, sorted(written)), (0, "", ["nsight_layouts.svg", "nsight_walk.svg"]))
        for name, text in written.items():
            self.assertIn(f"pictures/{name}", PAGE)
            shown = (ROOT / "docs/pictures" / name).read_text(encoding="utf-8")
            # The words alone: another version of matplotlib draws other lines.
            self.assertEqual(*(["".join(t.itertext()) for t in xml.etree.ElementTree.fromstring(svg).iter()
                                if t.tag.endswith("text")] for svg in (text, shown)))


if __name__ == "__main__":
    unittest.main()
