#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/plot_layouts.py and of the pictures in docs/layouts.md; the drawing itself where matplotlib
is installed."""

import contextlib
import importlib.util
import io
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiling" / "report"))

import plot_layouts  # noqa: E402
from plot_layouts import KIB, PAGE, cells_of, prefetch_first, rows_of  # noqa: E402


class Places(unittest.TestCase):
    def test_cells_follow_the_formula(self):
        for tile, width in ((4, 32), (16, 5), (64 * KIB, 32)):
            for offset, size, lane, row in cells_of(rows_of(tile, 3 * tile), width):
                user = row * tile  # AlignMalloc's equation (2), from the beginning of the chunk
                self.assertEqual(offset, user + (row * width + lane - row) * tile)
                self.assertEqual(size, tile)

    def test_cells_fill_their_chunk_without_a_gap(self):
        for pages in range(1, 50):
            for tail_rows in (False, True):
                end = 0
                for offset, size, _, _ in cells_of(rows_of(64 * KIB, pages * PAGE, tail_rows), 3):
                    self.assertEqual(offset, end)
                    end += size
                self.assertEqual(end, 3 * (pages * PAGE if tail_rows else -(-pages // 16) * 64 * KIB))

    def test_tail_rows_are_smaller_and_smaller_powers_of_two(self):
        self.assertEqual(rows_of(64 * KIB, 84 * KIB, True),
                         [(64 * KIB, 0), (16 * KIB, 64 * KIB), (4 * KIB, 80 * KIB)])
        self.assertEqual(rows_of(64 * KIB, 1, True), [(4 * KIB, 0)])

    def test_lanes_of_different_lengths_overlap_nowhere_and_have_all_their_pages(self):
        cells, table = plot_layouts.ragged_cells((37, 16, 34, 21), 16)
        self.assertEqual(table, 47)  # as in uvm/geometry/ragged_rows.hpp, and its test
        self.assertEqual([lane for _, size, lane in cells if size == 16], [0, 2, 0, 1, 2, 3])
        for pages in ((37, 16, 34, 21), (5, 5, 8), (16, 100), (40, 33, 63, 17, 18)):
            cells, table = plot_layouts.ragged_cells(pages, 16 if min(pages) >= 16 else 4)
            used = [offset + k for offset, size, _ in cells for k in range(size)]
            self.assertEqual(len(used), len(set(used)))
            self.assertNotIn(table, used)
            for lane, n in enumerate(pages):
                self.assertEqual(sum(size for _, size, owner in cells if owner == lane), n)

    def test_lane_order(self):
        self.assertEqual(prefetch_first(8), [0, 1, 2, 4, 6, 3, 5, 7])
        for width in range(1, 33):
            self.assertEqual(sorted(prefetch_first(width)), list(range(width)))


class Pictures(unittest.TestCase):
    def test_the_page_shows_those_that_are_drawn(self):
        page = (ROOT / "docs" / "layouts.md").read_text(encoding="utf-8")
        self.assertEqual(sorted(re.findall(r"\(pictures/(\w+)\.svg\)", page)), sorted(plot_layouts.PICTURES))
        for name in plot_layouts.PICTURES:
            text = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
            self.assertLess(len(text), 60_000, name)
            self.assertNotIn("<dc:date>", text)

    def test_without_matplotlib_it_says_what_to_install(self):
        def missing():
            raise ImportError("No module named 'matplotlib'")
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            self.assertEqual(plot_layouts.main([], missing), 1)
        self.assertIn("python3-matplotlib", errors.getvalue())

    @unittest.skipIf(importlib.util.find_spec("matplotlib") is None, "needs matplotlib")
    def test_drawing_twice_gives_the_same_bytes(self):
        drawn = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(plot_layouts.main(["--output-dir", folder]), 0)
                drawn.append({path.name: path.read_bytes() for path in Path(folder).iterdir()})
        self.assertEqual(drawn[0], drawn[1])
        self.assertEqual(sorted(drawn[0]), sorted(f"{name}.svg" for name in plot_layouts.PICTURES))


if __name__ == "__main__":
    unittest.main()
