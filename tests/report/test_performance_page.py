#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Orchard's figures in docs/performance.md and README.md, which are written by hand, are those of profiling/results."""

import json
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/performance.md"
MOST_LINES = 80
REPETITIONS = ("first", "third", "tenth", "settled")

# Rows of tables: their first cell, the result and its row, and the keys of the cells that follow.
ROWS = [
    *[(f"{threads:,} x {size}", "pages", {"what": "fixed", "threads": threads, "bytes": bytes},
       [*(f"malloc_{r}_us" for r in REPETITIONS), "floor_malloc_settled_us"])
      for threads, bytes, size in [(100000, 16, "16 B"), (1000000, 16, "16 B"), (1000000, 256, "256 B"),
                                   (1000000, 4096, "4 KiB")]],
    ("`free` of 1,000,000 x 16 B", "pages", {"what": "fixed", "threads": 1000000, "bytes": 16},
     [None, None, None, "free_settled_us", "floor_free_settled_us"]),
    *[(f"{threads:,} x {sizes}", "first",
       {"what": "repetitions", "backing": "elastic", "threads": threads, "bytes_to": most},
       [f"allocate_{r}_us" for r in REPETITIONS])
      for threads, sizes, most in [(100000, "16 B to 8 KiB", 8192), (1000000, "16 to 512 B", 512),
                                   (16384, "1 to 256 KiB", 256 << 10), (16384, "256 to 512 KiB", 512 << 10)]],
    *[(sizes, "sizes", {"layout": "linear", "bytes_to": most}, ["cold_us", "recycled_us", "free_us"])
      for sizes, most in [("4 to 8 KiB", 8192), ("128 to 256 KiB", 256 << 10), ("0.5 to 1 MiB", 1 << 20),
                          ("2 to 4 MiB", 4 << 20)]],
]

# Figures in the text: what stands there, the result, its rows, the key, which of the rows' values, and a factor.
FIGURES = [
    ("Orchard\n26,996, Gallatin", "pages", {"what": "churn", "bytes": 64}, "pairs_per_us", max, 1, "26,996"),
    ("16 to 256 B: 11,560,", "pages", {"what": "churn", "bytes": 16}, "pairs_per_us", max, 1, "11,560"),
    ("256 B to 4 KiB: 11,007,", "pages", {"what": "churn", "bytes": 256}, "pairs_per_us", max, 1, "11,007"),
    ("1,000 iterations is 54.1 us", "iterations", {"mode": "all freed", "layout": "linear"}, "iteration_us", max, 1,
     "54.1"),
    ("with\n  one, 10.2 ms at most", "shortage", {}, "latest_third_us", max, 1e-3, "10.2"),
    ("a null came after 246.7 ms with both", "growth", {"what": "both budgets spent: nulls"}, "latest_us", max, 1e-3, "246.7"),
    ("take 1.04 times", "growth", {"what": "growing", "lanes_at_once": 8}, "to_committed_before", max, 1, "1.04"),
    ("1.23 times for 32", "growth", {"what": "growing", "lanes_at_once": 32}, "to_committed_before", max, 1, "1.23"),
    ("Up to 1.25 times", "growth", {"what": "growing"}, "committed_to_in_use", max, 1, "1.25"),
    ("cost 47.5 us", "pages", {"what": "mixed", "bytes_to": 512}, "malloc_us", max, 1, "47.5"),
    ("and 24.2 us", "pages", {"what": "mixed", "bytes_to": 8192}, "malloc_us", max, 1, "24.2"),
    ("of pages is 1.30 times", "pages", {"of": "free to floor, geometric mean"}, "value", max, 1, "1.30"),
    ("(155.9 us at worst)", "sizes", {}, "cold_us", max, 1, "155.9"),
    ("(103.3 us at worst)", "sizes", {}, "recycled_us", max, 1, "103.3"),
    ("19.4 us at worst", "sizes", {}, "free_us", max, 1, "19.4"),
    ("6.06 us for a lone warp", "mailbox", {"what": "round trip of a lone warp"}, "us_per_round", max, 1, "6.06"),
    ("8,448 warps 80.9 us", "mailbox", {"what": "commit 64 MiB while warps wait"}, "us", max, 1, "80.9"),
    ("take 6.30 times", "pages", {"of": "nearly full: 0.5 % free to 50 % free"}, "value", max, 1, "6.30"),
    ("reach 0.29 of", "access", {"by": "lane_array", "pattern": "sequential write"}, "share_of_hand", min, 1, "0.29"),
    ("by 128.2 ms", "calls", {"timed": True}, "longest_ms", max, 1, "128.2"),
]

# Times of the README's table.
README_ROWS = [
    ("1 M threads ask for 16 B each", "pages", {"what": "fixed", "threads": 1000000, "bytes": 16}, "malloc_settled_us"),
    ("1 M threads ask for 256 B each", "pages", {"what": "fixed", "threads": 1000000, "bytes": 256},
     "malloc_settled_us"),
    ("16,384 threads ask for 0.5 to 1 MiB each", "sizes", {"layout": "linear", "bytes_to": 1 << 20}, "recycled_us"),
    ("16,384 threads, 1 to 256 KiB each, malloc and free, again and again", "iterations",
     {"mode": "all freed", "layout": "linear"}, "iteration_us"),
]

RUN = re.compile(r"`orchard bench (\w+) [^`]*`, commit `(\w+)`, (\d{4}-\d\d-\d\d)")


def result(name):
    return json.loads((ROOT / "profiling/results" / f"{name}.json").read_text(encoding="utf-8"))


def rows_of(name, where):
    return [row for row in result(name)["rows"] if all(row.get(key) == value for key, value in where.items())]


class PerformancePage(unittest.TestCase):
    def setUp(self):
        self.text = PAGE.read_text(encoding="utf-8")

    def test_the_page_is_short(self):
        self.assertLessEqual(len(self.text.splitlines()), MOST_LINES)

    def test_tables_show_the_results(self):
        for title, name, where, keys in ROWS:
            with self.subTest(row=title, result=name):
                row, = rows_of(name, where)
                cells = ["-" if key is None else f"{row[key]:,.1f}" for key in keys]
                self.assertIn("| " + " | ".join([title, *cells]) + " |", self.text)

    def test_figures_in_the_text_are_those_of_the_results(self):
        for words, name, where, key, chosen, factor, shown in FIGURES:
            with self.subTest(words=words, result=name):
                self.assertIn(words, self.text)
                self.assertIn(shown, words)
                values = [row[key] for row in rows_of(name, where) if row.get(key) is not None]
                digits = len(shown.partition(".")[2])
                self.assertEqual(shown, f"{chosen(values) * factor:,.{digits}f}")

    def test_the_readme_shows_the_same_results(self):
        whole = (ROOT / "README.md").read_text(encoding="utf-8")
        readme = whole.partition("## Try it")[0]
        for words, name, where, key in README_ROWS:
            with self.subTest(row=words, result=name):
                row, = rows_of(name, where)
                self.assertIn(f"| {words} | {row[key]:,.0f} us |", readme)
        floor, = rows_of("pages", README_ROWS[0][2])
        self.assertIn(f"takes {floor['floor_malloc_settled_us']:,.0f} us in the first row", readme.replace("\n", " "))
        longest = max(row["longest_ms"] for row in rows_of("calls", {"timed": True}))
        self.assertIn(f"delayed a request by {longest:.0f} ms", whole)

    def test_commits_and_dates_are_those_of_the_results(self):
        runs = RUN.findall(self.text)
        self.assertGreater(len(runs), 3)
        for name, commit, date in runs:
            with self.subTest(result=name):
                self.assertEqual((commit, date), (result(name)["commit"], result(name)["date"]))

    def test_commands_are_those_of_the_results(self):
        for command in re.findall(r"`(orchard bench \w+ --json \w+\.json)`", self.text):
            with self.subTest(command=command):
                self.assertEqual(result(command.split()[2])["command"], command)


if __name__ == "__main__":
    unittest.main()
