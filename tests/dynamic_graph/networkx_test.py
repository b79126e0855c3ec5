#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Compares the analyses of `orchard graph` with those of NetworkX, on a small graph with weights that became its second
version, by batches and by kernels.

ORCHARD_PROGRAM names the program. Exit code 77, with a line that says why: skipped."""

import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import networkx
except ImportError:
    networkx = None

VERTICES = 70


def pagerank(graph):
    """Returns {vertex: rank}, by the function that needs neither NumPy nor SciPy where these are not installed."""
    settings = {"alpha": 0.85, "tol": 1e-12, "max_iter": 1000}
    try:
        return networkx.pagerank(graph, weight=None, **settings)
    except ImportError:
        from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python

        return _pagerank_python(graph, weight=None, **settings)


def versions():
    """Returns two graphs: the second lacks edges of the first, has others, and other weights of some."""
    numbers = random.Random(7)
    # The last ten vertices have no edges; there are two large components, since no edge leads from 30 or less beyond.
    pairs = sorted({tuple(sorted(numbers.sample(range(*part), 2)))
                    for part in ((0, 30), (30, 60)) for _ in range(60)})
    kept = {pair: numbers.randrange(1, 400) / 16 for pair in pairs}
    first = {pair: weight for i, (pair, weight) in enumerate(kept.items()) if i % 5 != 0}
    second = {pair: weight + (i % 7 == 0) for i, (pair, weight) in enumerate(kept.items()) if i % 4 != 0}
    return first, second


def write(path, edges):
    lines = [f"{v + 1} {u + 1} {weight}" for (u, v), weight in edges.items()]
    path.write_text("%%MatrixMarket matrix coordinate real symmetric\n"
                    f"{VERTICES} {VERTICES} {len(lines)}\n" + "\n".join(lines) + "\n", encoding="utf-8")


class AsNetworkX(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.first, cls.second = versions()
        cls.graph = networkx.Graph()
        cls.graph.add_nodes_from(range(VERTICES))
        cls.graph.add_weighted_edges_from((u, v, weight) for (u, v), weight in cls.second.items())

    def run_program(self, *words):
        with tempfile.TemporaryDirectory() as name:
            files = [Path(name) / "first.mtx", Path(name) / "second.mtx"]
            for file, edges in zip(files, (self.first, self.second)):
                write(file, edges)
            done = subprocess.run([os.environ["ORCHARD_PROGRAM"], "graph", str(files[0]), "--then", str(files[1]),
                                   "--weights", "input", "--batch", "100", "--rank-steps", "150", "--values", "--json",
                                   "--quiet", "--device", "emulated", "--emulated-workers", "2", *words],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        self.assertGreater(document["then"]["removed"], 0)
        return {row["analysis"]: row for row in document["analyses"]}

    def expect_same(self, rows):
        source = rows["bfs"]["source"]
        levels = networkx.single_source_shortest_path_length(self.graph, source)
        self.assertEqual(rows["bfs"]["values"], [levels.get(u) for u in range(VERTICES)])
        lengths = networkx.single_source_dijkstra_path_length(self.graph, source)
        for u, length in enumerate(rows["sssp"]["values"]):
            self.assertEqual(length is None, u not in lengths)
            self.assertTrue(length is None or math.isclose(length, lengths[u], rel_tol=1e-12), f"vertex {u}")
        labels = {u: min(part) for part in networkx.connected_components(self.graph) for u in part}
        self.assertEqual(rows["components"]["values"], [labels[u] for u in range(VERTICES)])
        self.assertGreater(len(set(labels.values())), 10)
        cores = networkx.core_number(self.graph)
        self.assertEqual(rows["kcore"]["values"], [cores[u] for u in range(VERTICES)])
        self.assertEqual(rows["triangles"]["values"], sum(networkx.triangles(self.graph).values()) // 3)
        self.expect_same_ranks(rows["pagerank"]["values"])

    def expect_same_ranks(self, ranks):
        """The ranks of NetworkX sum up to 1, those here to the number of vertices that have edges; there, a vertex without
        edges gives its rank to all, here to none."""
        with_edges = self.graph.subgraph([u for u in self.graph if self.graph.degree(u) != 0])
        right = pagerank(with_edges)
        for u, rank in enumerate(ranks):
            expected = right[u] * len(with_edges) if u in right else 0.15
            self.assertTrue(math.isclose(rank, expected, rel_tol=1e-8), f"vertex {u}: {rank}, not {expected}")

    def test_by_batches(self):
        self.expect_same(self.run_program())

    def test_by_kernels(self):
        self.expect_same(self.run_program("--by", "kernels"))


if __name__ == "__main__":
    for is_there, what in ((networkx is not None, "NetworkX (tests/python/requirements.txt) is not installed"),
                           ("ORCHARD_PROGRAM" in os.environ, "ORCHARD_PROGRAM does not name the program")):
        if not is_there:
            print(f"skipped: {what}")
            sys.exit(77)
    unittest.main()
