#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/plot_arena.py; what is drawn is looked at where matplotlib is installed."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "profiling/report"))

import plot_arena
from test_plot_uvm import has_matplotlib


def row(allocator, case="winter_9a/64", value=3.0, verdict="ok", ratio=1.0, **others):
    return {"allocator": allocator, "case": case, "source": "a paper", "bytes": 64, "verdict": verdict, "detail": "",
            "unit": "us", "value": value, "low": value, "high": value, "ratio_to_floor": ratio, **others}


def document(rows):
    return {"commit": "0123abc", "command": "orchard arena --quick", "device": {"kind": "emulated", "reason": "a <test>"},
            "options": {"repeats": 3}, "machine": {"host": {"cpu": "some"}}, "rows": rows}


class PlotArena(unittest.TestCase):
    def run_with(self, text, load_pyplot=None):
        """Exit code, standard error, {name: text} of what was written."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows"
            path.write_text(text)
            err = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
                code = plot_arena.main([str(path), "--output-dir", folder + "/pictures"], load_pyplot)
            return code, err.getvalue(), {p.name: p.read_text() for p in Path(folder, "pictures").glob("*")}

    def test_what_varies_is_a_number_or_none(self):
        self.assertEqual([plot_arena.varying(case) for case in ("winter_9a/64", "winter_10/2^4", "align_11/1024/2^3",
                                                                "winter_init", "x/16-64")],
                         [64, 16, 8, None, None])
        self.assertEqual(plot_arena.what_varies("x", [row("a"), row("a", bytes=8)]), "bytes")
        self.assertEqual(plot_arena.what_varies("x", [row("a"), row("a")]), "threads")
        self.assertEqual(plot_arena.what_varies("kma_6.1", [row("a"), row("a")]), "rounds")

    def test_a_family_is_all_but_the_last_part(self):
        cases = ("align_11/1024/2^3", "align_11/1024/2^4", "align_11/8192/2^3", "winter_init")
        self.assertEqual({k: len(v) for k, v in plot_arena.families_of([row("a", case) for case in cases]).items()},
                         {"align_11/1024": 2, "align_11/8192": 1, "winter_init": 1})

    def test_a_line_is_sorted_by_what_varies(self):
        rows = [row("a", "winter_9a/1024", 9.0), row("a", "winter_9a/64", 2.0, low=1.0), row("b", "winter_9a/64", 5.0)]
        self.assertEqual(plot_arena.lines_of(rows), {"a": ([64, 1024], [2.0, 9.0], [1.0, 9.0], [2.0, 9.0]),
                                                     "b": ([64], [5.0], [5.0], [5.0])})

    def test_faults_are_in_no_picture(self):
        rows = [row("a"), row("b", value=None, verdict="hang", ratio=None), row("c", value=1.0, verdict="overlap")]
        self.assertEqual({k: [r["allocator"] for r in v] for k, v in plot_arena.families_of(rows).items()},
                         {"winter_9a": ["a"]})

    def test_colours_go_from_green_to_red(self):
        self.assertEqual([plot_arena.colour_of(row("a", ratio=ratio)) for ratio in (0.5, 1, 10, 100, 1e6)],
                         [f"hsl({hue}, 70%, 70%)" for hue in (120, 120, 60, 0, 0)])
        self.assertEqual(plot_arena.colour_of(row("a", ratio=None)), "#eeeeee")
        self.assertEqual(plot_arena.colour_of(row("a", verdict="crash", ratio=None)), "#444444")
        self.assertEqual(plot_arena.colour_of(row("a", verdict="not run", ratio=None)), "#eeeeee")

    def test_the_matrix_has_a_cell_for_each_row(self):
        text = plot_arena.matrix_of([row("a", ratio=1.0), row("b", value=None, verdict="leak", ratio=None, detail="<lost>"),
                                     row("b", "winter_9b/64", ratio=2.5)])
        self.assertIn(">1</td>", text)
        self.assertIn('title="leak &lt;lost&gt;">leak</td>', text)
        self.assertIn("<tr><th>winter_9b/64</th><td></td><td", text)
        self.assertEqual(text.count("<td"), 4)

    def test_bars_have_quartiles_as_errors(self):
        rows = [row("a", value=5.0, low=4.0, high=7.5), row("b", low=None, high=None)]
        self.assertEqual(plot_arena.errors_of(rows), [[1.0, 0], [2.5, 0]])

    def test_the_header_says_the_machine_and_the_commits_in_words(self):
        rows = [row("a", commit="0123abc"), row("gallatin", commit="0123abc", code="1aa70ad"), row("old")]
        machine = {"host": {"cpu": "some", "usable_cores": 16},
                   "cuda": {"driver": "580.159.04", "driver_version": 13000, "runtime_version": 12080},
                   "gpus": [{"name": "NVIDIA H200", "compute_capability": "9.0", "memory_bytes": 141 << 30,
                             "multiprocessors": 132}]}
        self.assertEqual(dict(plot_arena.header_of(document(rows) | {"machine": machine})), {
            "command": "orchard arena --quick", "commit": "0123abc",
            "commits of the rows": "0123abc (a, gallatin); not recorded (old)", "code of others": "1aa70ad (gallatin)",
            "device": "kind: emulated, reason: a <test>", "options": "repeats: 3", "host": "some, 16 cores",
            "GPU": "NVIDIA H200, compute capability 9.0, 141 GiB, 132 multiprocessors",
            "driver": "580.159.04 for CUDA 13.0, built with CUDA 12.8"})
        for alike in (row("a"), row("a", commit="0123abc")):
            self.assertNotIn("commits of the rows", dict(plot_arena.header_of(document([alike]))))

    def test_names_in_a_picture_get_its_family(self):
        self.assertEqual(plot_arena.unique('<g id="m1"/><use href="#m1" clip-path="url(#p)"/>', "x"),
                         '<g id="x-m1"/><use href="#x-m1" clip-path="url(#x-p)"/>')

    @unittest.skipUnless(has_matplotlib(), "matplotlib is not installed")
    def test_draws_a_picture_for_each_family_and_a_page(self):
        rows = [row("a"), row("a", "winter_9a/256"), row("b", verdict="null"), row("a", "winter_init"),
                row("a", "winter_11b/256", 90.0, unit="percent")]
        code, err, written = self.run_with(json.dumps(document(rows)))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(written), ["arena-winter_11b.svg", "arena-winter_9a.svg", "arena-winter_init.svg",
                                           "arena.html"])
        page = written["arena.html"]
        self.assertEqual(page.count("<svg"), 3)
        self.assertIn("a &lt;test&gt;", page)
        self.assertIn("say nothing of a GPU", page)
        self.assertNotIn("src=", page)
        for name, text in written.items():
            if name.endswith(".svg"):
                xml.etree.ElementTree.fromstring(text)
        self.assertEqual(self.run_with(json.dumps(document(rows)))[2], written, "the same bytes again")

    def test_what_is_no_result_is_refused(self):
        for text in ("", "[]", "{}", '{"rows": []}', '{"rows": [{"allocator": "x"}]}', "3\n4", '{"rows": 5}',
                     json.dumps(document([row("a", value="much")])), json.dumps(document([row("a", case=7)]))):
            code, err, _ = self.run_with(text)
            self.assertEqual(code, 2, text)
            self.assertEqual(len(err.splitlines()), 1)

    def test_says_how_to_install_what_is_missing(self):
        def missing():
            raise ImportError("No module named 'matplotlib'")

        code, err, _ = self.run_with(json.dumps(document([row("a")])), missing)
        self.assertEqual(code, 1)
        self.assertIn("python3-matplotlib", err)


if __name__ == "__main__":
    unittest.main()
