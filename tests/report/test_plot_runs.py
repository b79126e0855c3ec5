#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/plot_graph.py, plot_join.py and plot_tree.py; the pictures themselves where matplotlib is
installed."""

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

import plot_graph  # noqa: E402
import plot_join  # noqa: E402
import plot_run  # noqa: E402
import plot_tree  # noqa: E402


def graph():
    return {"device": {"kind": "emulated"}, "graph": "rmat:2", "vertices": 6, "edges": 5, "degrees": [1, 2, 0, 3, 0],
            "batches": [{"adds": True, "directions": 6000, "taken": 6, "ms": 2.0, "edges": 6, "bytes": 1 << 20},
                        {"adds": False, "directions": 4000, "taken": 4, "ms": 1.0, "edges": 2, "bytes": 1 << 19},
                        {"adds": True, "directions": 2, "taken": 2, "ms": 0, "edges": 4, "bytes": 1 << 19}]}


def join():
    return {"device": {"kind": "emulated"}, "tuples": 4, "matches": 3, "pages": 2, "page_bytes": 64,
            "runs": [{"memory": "direct", "probe_us": [3.0, 2.0], "free_us": [0, 0]},
                     {"memory": "orchard", "probe_us": [5.0, 4.0], "free_us": [1.0, 0.5]}]}


def tree():
    times = {"times": {"build_us": [2000.0, 1000.0], "free_us": []}}
    return {"device": {"kind": "emulated"}, "edges": 8, "nodes": 4, "bodies": 3, "search_tree_in_heap": times,
            "search_tree_in_array": times, "octree": {"cells": 2, "at_depth": [0, 1, 2], **times}}


SCRIPTS = ((plot_graph, graph, b"compressed rows"), (plot_join, join, b"orchard"), (plot_tree, tree, b"octree"))


class Plots(unittest.TestCase):
    def run_script(self, script, text, name="out.svg"):
        errors = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(errors):
            source = Path(folder) / "run.json"
            source.write_text(text, encoding="utf-8")
            output = Path(folder) / name
            code = script.main([str(source), str(output)])
            return code, errors.getvalue(), output.read_bytes() if output.exists() else b""

    def test_degrees_begin_at_powers_of_two(self):
        self.assertEqual(plot_graph.degrees_of(graph()), [(0, 1), (1, 2), (4, 3)])

    def test_rates_are_in_millions_of_directions_a_second(self):
        found = plot_graph.rates_of(graph())
        self.assertEqual(found["added"], ([1], [3.0]))  # the third took no time
        self.assertEqual(found["removed"], ([2], [4.0]))

    def test_memory_is_over_the_time_of_the_batches(self):
        at, heap, rows = plot_graph.memory_of(graph())
        self.assertEqual(at, [0, 2.0, 3.0, 3.0])
        self.assertEqual(heap, [0, 1.0, 0.5, 0.5])
        self.assertEqual(rows[1] * plot_run.MIB, 6 * 4 + 7 * 8)

    def test_an_array_has_no_times_of_free(self):
        self.assertEqual(plot_join.times_of(join(), "free"), {"orchard": [0.001, 0.0005]})
        self.assertEqual(list(plot_join.times_of(join(), "probe")), ["direct", "orchard"])

    def test_builds_are_in_milliseconds(self):
        self.assertEqual(plot_tree.builds_of(tree())["octree, in the heap"], [2.0, 1.0])
        self.assertEqual(len(plot_tree.builds_of(tree())), 3)
        other = tree() | {"allocator": "kma", "search_tree_in_allocator": {"times": {"build_us": [3000.0]}}}
        self.assertEqual(plot_tree.builds_of(other)["search tree, in kma"], [3.0])

    def test_other_documents_and_endings_are_refused(self):
        for script, document, _ in SCRIPTS:
            for text, name, why in (("{}", "out.svg", "no document of `orchard"), ("[]", "out.svg", "no document of"),
                                    (json.dumps(document()), "out.gif", "ends in .svg"),
                                    ("noise", "out.svg", "Expecting value")):
                code, errors, _ = self.run_script(script, text, name)
                self.assertEqual(code, 2)
                self.assertIn(why, errors)
                self.assertEqual(errors.count("\n"), 1)

    def test_the_pictures_are_drawn_the_same_each_time(self):
        drawn = []
        for script, document, words in (*SCRIPTS, SCRIPTS[0]):
            code, errors, picture = self.run_script(script, json.dumps(document()))
            if importlib.util.find_spec("matplotlib") is None:
                self.assertEqual(code, 2)
                self.assertIn("python3-matplotlib", errors)
                continue
            self.assertEqual(code, 0, errors)
            self.assertIn(words, picture)
            drawn.append(picture)
        self.assertEqual(drawn[:1], drawn[3:])


if __name__ == "__main__":
    unittest.main()
