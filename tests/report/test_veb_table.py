#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The table of OR-trees and van Emde Boas trees in docs/uvm_paper.md is that of profiling/results/veb_tree_cpu.json."""

import json
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiling/report"))

import veb_table


class VebTable(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.document = json.loads(veb_table.RESULT.read_text(encoding="utf-8"))
        cls.page = (ROOT / "docs/uvm_paper.md").read_text(encoding="utf-8")

    def test_the_page_shows_the_medians(self):
        self.assertIn("\n\n" + veb_table.table(self.document) + "\n\n", self.page)

    def test_another_median_gives_another_table(self):
        changed = json.loads(json.dumps(self.document))
        run = next(run for run in changed["benchmarks"] if run["run_name"].startswith("or_tree/build/segments:1024"))
        run["real_time"] += 1000
        self.assertNotEqual(veb_table.table(changed), veb_table.table(self.document))

    def test_a_benchmark_that_is_not_there_is_an_error(self):
        runs = [run for run in self.document["benchmarks"] if "/segments:1048576/" not in run["run_name"]]
        with self.assertRaises(KeyError):
            veb_table.table({**self.document, "benchmarks": runs})

    def test_commit_command_and_date_are_those_of_the_result(self):
        section = self.page.partition("\n## OR-tree and van Emde Boas tree\n")[2]
        about = self.document["orchard"]
        for text in (about["command"], about["commit"], self.document["context"]["date"][:10]):
            self.assertIn(text, section)


if __name__ == "__main__":
    unittest.main()
