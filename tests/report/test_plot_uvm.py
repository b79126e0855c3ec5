#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/plot_uvm.py; what is drawn is looked at where matplotlib is installed."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "profiling/report"))

import plot_uvm


def row(source="random", layout="linear", capacity="50%", **others):
    return {"source": source, "layout": layout, "placement": "packed", "capacity": capacity, "bytes_in": 4e6,
            "bytes_out": 0, "seconds": 0.5, "faults": 7, **others}


def has_matplotlib():
    try:
        plot_uvm._pyplot()
    except ImportError:
        return False
    return True


class PlotUvm(unittest.TestCase):
    def run_with(self, text, load_pyplot=None):
        """Exit code, standard error, names of the pictures."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "uvm.json"
            path.write_text(text)
            err = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
                code = plot_uvm.main([str(path), "--output-dir", folder + "/pictures"], load_pyplot)
            return code, err.getvalue(), sorted(p.name for p in Path(folder, "pictures").glob("*"))

    def test_bars_stand_for_capacities_in_groups_of_layouts(self):
        rows = [row(), row(capacity="unlimited", bytes_in=2e6), row(layout="interleaved:4K", bytes_in=1e6)]
        groups, capacities, heights = plot_uvm.bars_of(rows, "bytes_in", 1e6)
        self.assertEqual(groups, [("linear", "packed", "driver"), ("interleaved:4K", "packed", "driver")])
        self.assertEqual(capacities, ["50%", "unlimited"])
        self.assertEqual(heights, {"50%": [4, 1], "unlimited": [2, 0]})

    def test_groups_are_named_by_what_is_not_the_same(self):
        groups, _, heights = plot_uvm.bars_of([row(), row(policy="dynamic_act", bytes_in=1e6)], "bytes_in", 1e6)
        self.assertEqual([plot_uvm.name_of(group, groups) for group in groups], ["linear\ndriver", "linear\ndynamic_act"])
        self.assertEqual(plot_uvm.name_of(groups[0], groups[:1]), "linear")
        self.assertEqual(heights, {"50%": [4, 1]})

    @unittest.skipUnless(has_matplotlib(), "matplotlib is not installed")
    def test_draws_a_picture_for_each_pattern(self):
        rows = [row(), row(layout="interleaved:4K"), row(source="/tmp/a b.trace", capacity="4 GiB")]
        code, err, names = self.run_with(json.dumps({"rows": rows}))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(names, ["uvm-random.svg", "uvm-tmp-a-b-trace.svg"])

    def test_what_is_no_result_is_refused(self):
        for text in ("", "[]", "{}", '{"rows": []}', '{"rows": [{"source": "x"}]}'):
            code, err, _ = self.run_with(text)
            self.assertEqual(code, 2, text)
            self.assertEqual(len(err.splitlines()), 1)

    def test_says_how_to_install_what_is_missing(self):
        def missing():
            raise ImportError("No module named 'matplotlib'")
        code, err, _ = self.run_with(json.dumps({"rows": [row()]}), missing)
        self.assertEqual(code, 1)
        self.assertIn("apt-get install", err)


if __name__ == "__main__":
    unittest.main()
