#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/paper_*.py and of docs/uvm_paper.md; what is drawn is looked at where matplotlib is."""

import contextlib
import io
import json
import re
import shutil
import stat
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiling/report"))

import paper_figures
import paper_pictures
import paper_tables
import paper_theorems as theorems

PAGE = ROOT / "docs/uvm_paper.md"
FIGURES = ("1", "3", "4", "7", "12", "13", "14", "15", "16")
DATA = ROOT / "profiling/results/paper"


def has_matplotlib():
    try:
        paper_pictures.pyplot()
    except ImportError:
        return False
    return True


def missing_matplotlib():
    raise ImportError("No module named 'matplotlib'")


def run(*arguments, load_pyplot=None):
    """Exit code and standard error."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = paper_figures.main([str(a) for a in arguments], load_pyplot)
    return code, errors.getvalue()


class Theorems(unittest.TestCase):
    def test_a_node_passes_above_51_percent(self):
        for size, needed in ((2, 2), (4, 3), (8, 5), (16, 9), (32, 17)):
            first = size if size < 32 else 0
            self.assertFalse(theorems.passes(theorems.mask(first, needed - 1), first, size), size)
            self.assertTrue(theorems.passes(theorems.mask(first, needed), first, size), size)

    def test_the_largest_node_comes_and_nothing_cascades(self):
        self.assertEqual(theorems.prefetched(0b10, 0b1, 4), 0)
        self.assertEqual(theorems.prefetched(0b1011, 0b100, 8), 0)  # what passes is full already
        self.assertEqual(theorems.prefetched(0b0011, 0b100, 8), 0b1000)
        self.assertEqual(theorems.prefetched(0b110011, 0b100, 8), 0b11001000)
        self.assertEqual([("hit" in step) for step in theorems.play((1, 3, 4, 0, 5), 8)], [False] * 5)

    def test_five_of_eight_leaves_stay(self):
        steps = theorems.play((0, 1, 4, 2), 8)
        self.assertEqual(steps[-1], {"fault": 2, "prefetched": [3], "resident": [0, 1, 2, 3, 4]})
        self.assertIn(theorems.leaves_of(0, 1, 2, 3, 4), theorems.reachable(8, together=False))

    def test_theorem_1_holds_for_4_leaves_alone(self):
        self.assertEqual(theorems.theorem_1(4, True), {"cases": 12, "failing": 0, "worst_share": 0.5})
        found = theorems.theorem_1(8, True)
        self.assertEqual((found["failing"], found["worst_share"]), (8, 0.625))

    def test_theorem_2_is_refuted_by_an_ancestor(self):
        state = theorems.leaves_of(0, 1, 4, 5)
        self.assertIn(state, theorems.reachable(8, together=False))
        self.assertEqual(theorems.indices_of(theorems.prefetched(state, theorems.leaves_of(2), 8)), [3, 6, 7])
        self.assertEqual(theorems.theorem_2(4, True)["failing"], 0)
        self.assertGreater(theorems.theorem_2(8, False)["failing"], 0)

    def test_theorem_3_holds_for_the_parent_up_to_8_leaves(self):
        found = theorems.theorem_3(8, True, at_parent=True)
        self.assertGreater(found["cases"], 0)
        self.assertEqual((found["sibling_not_full"], found["node_empty"]), (0, 0))
        above = theorems.theorem_3(8, True, at_parent=False)
        self.assertGreater(min(above["sibling_not_full"], above["node_empty"]), 0)

    def test_theorem_3_is_refuted_with_16_leaves(self):
        state = theorems.leaves_of(0, 1, 2, 3, 4, 8, 9, 12)
        self.assertIn(state, theorems.reachable(16, together=False))
        tree = state | theorems.leaves_of(10)
        self.assertFalse(theorems.full(tree, 8, 8))
        self.assertEqual(theorems.after(state, theorems.leaves_of(10), 16), theorems.mask(0, 16))

    def test_padding_isolates_and_nothing_else_does(self):
        found = theorems.isolation(8)
        self.assertEqual(found["crossings"], 0)
        self.assertGreater(found["packed_crossings"], 0)
        # Each arrangement obeys equation (3), and all there are come: 2 + f(n/2)^2, less the empty one.
        for trees in theorems.arrangements(0, 8):
            parents = [theorems.mask(first // (2 * size) * 2 * size, 2 * size) for first, size in trees]
            self.assertEqual(sum(parents).bit_count(), sum(2 * size for _, size in trees), trees)
        self.assertEqual(found["arrangements"], 2 + 11 ** 2 - 1)

    def test_what_is_stored_is_what_the_rules_give(self):
        stored = json.loads((DATA / "theorems.json").read_text())
        found = json.loads(json.dumps(theorems.report(most_leaves=8)))
        for key, value in found.items():
            self.assertEqual({n: stored[key][n] for n in value} if key.startswith("theorem_") and isinstance(
                value, dict) else stored[key], value, key)
        self.assertEqual(sorted(stored["theorem_1"], key=int), ["4", "8", "16"])


class Data(unittest.TestCase):
    def test_every_cell_of_every_grid_is_stored_once_and_in_order(self):
        data = paper_figures.stored()
        for name, cells in paper_figures.grids().items():
            ran = [{key: row[key] for key in paper_figures.DEFAULTS} for row in data[name]]
            if name == "applications":
                cells = [{**of, "capacity": share} for of in cells for share in paper_figures.SHARES]
            self.assertEqual(ran, cells, name)

    def test_counts_are_possible(self):
        for name in paper_figures.grids():
            for row in paper_figures.stored()[name]:
                self.assertGreater(row["seconds"], 0)
                self.assertGreaterEqual(row["faults"], row["batches"])
                self.assertGreaterEqual(row["bytes_in"] / 4096, row["prefetched_pages"])
                self.assertGreaterEqual(row["bytes_in"], row["bytes_out"])
                if row["capacity_bytes"]:
                    self.assertLessEqual(row["peak_active_blocks"] * paper_figures.BLOCK, row["capacity_bytes"])
                else:
                    self.assertEqual((row["capacity"], row["evictions"]), ("unlimited", 0))

    def test_layouts_of_an_application_have_the_same_memory(self):
        rows = paper_figures.stored()["applications"]
        for linear in paper_tables.pick(rows, way="linear"):
            tiles = paper_tables.one(rows, pattern=linear["pattern"], capacity=linear["capacity"], way="tiles")
            self.assertEqual(tiles["capacity_bytes"], linear["capacity_bytes"])

    def test_stored_data_are_small(self):
        self.assertLess(sum(path.stat().st_size for path in DATA.iterdir()), 200_000)

    def test_a_row_gives_its_command(self):
        row = paper_tables.one(paper_figures.stored()["oversubscribed"], pattern="random", way="tiles", accesses=20)
        words = " ".join(paper_figures.words_of(row))
        self.assertIn("--layout interleaved:64KiB --placement padded --machine titan_v --threads 256", words)
        self.assertIn("--capacity 24GiB", words)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = PAGE.read_text(encoding="utf-8")
        cls.data = paper_figures.stored()

    def sections(self):
        return {part.split(":", 1)[0]: part for part in self.text.split("\n## ")[1:]}

    def test_every_figure_and_theorem_has_a_picture_or_table_and_a_verdict(self):
        sections = self.sections()
        wanted = [f"Figure {n}" for n in FIGURES] + [f"Theorem {n}" for n in (1, 2, 3)]
        self.assertEqual([name for name in sections if re.match("(Figure|Theorem) ", name)], wanted)
        for name in wanted:
            verdicts = re.findall(r"^\*\*(Confirmed|Refuted|Differs)\*\*", sections[name], re.M)
            self.assertEqual(len(verdicts), 1, name)
            listed = re.search(rf"^\| \[{name}\]\(#(\S+)\) \| (\w+)", self.text, re.M)
            self.assertEqual(listed.group(2), verdicts[0].lower(), name)
            heading = sections[name].split("\n", 1)[0].lower()
            self.assertEqual(listed.group(1), re.sub(r"[^a-z0-9 -]", "", heading).replace(" ", "-"))
            self.assertIn("<!-- table ", sections[name], name)

    def test_pictures_are_there_and_shown(self):
        shown = re.findall(r"!\[[^\]]+\]\(pictures/(paper_fig\d\d)\.svg\)", self.text)
        self.assertEqual(shown, list(paper_pictures.PICTURES))
        self.assertEqual(shown, [f"paper_fig{int(n):02}" for n in FIGURES])
        for name in shown:
            self.assertIn("<svg", (ROOT / f"docs/pictures/{name}.svg").read_text(encoding="utf-8"), name)

    def test_tables_are_those_of_the_data(self):
        tables = paper_tables.tables(self.data)
        self.assertEqual(re.findall(r"<!-- table (\w+) -->", self.text), list(tables))
        self.assertEqual(paper_figures.put_tables(self.text, tables), self.text)

    def test_a_wrong_number_would_be_seen(self):
        changed = re.sub(r"(\| 128 \| 1,049 \| )\d+", r"\g<1>170", self.text)
        self.assertNotEqual(changed, self.text)
        self.assertEqual(paper_figures.put_tables(changed, paper_tables.tables(self.data)), self.text)

    def test_a_table_without_a_place_is_refused(self):
        for page in ("", "<!-- table x -->\n"):
            with self.assertRaises(paper_figures.Unusable):
                paper_figures.put_tables(page, {"x": "y\n"})

    def test_numbers_in_the_text_are_those_of_the_data(self):
        def both(grid, **where):
            rows = paper_tables.pick(self.data[grid], **where)
            return paper_tables.one(rows, way="linear"), paper_tables.one(rows, way="tiles"), rows
        linear, tiles, rows = both("oversubscribed", pattern="same-index", accesses=420)
        small = paper_tables.one(rows, way="small tiles")
        large, large_tiles, _ = both("large", machine="titan_v", pattern="same-index",
                                     bytes_per_thread=8 << 20)
        walks = [row for row in self.data["walk"] if row["way"] == "linear"]
        gains = {pattern: max(row["seconds"] / paper_tables.one(
            self.data["walk"], **{**{key: row[key] for key in paper_figures.DEFAULTS}, "way": "tiles"})["seconds"]
            for row in walks if row["pattern"] == pattern) for pattern in ("graph-walk", "same-index")}
        self.assertLess(gains["graph-walk"], 1.01)  # "no order of the lists helps"
        for text in (f"{linear['seconds'] / tiles['seconds']:.1f} times as fast",
                     f"with those of 4 KiB it is a {linear['bytes_in'] / small['bytes_in']:.0f}th",
                     f"{100 * (1 - large_tiles['bytes_in'] / large['bytes_in']):.0f} % fewer bytes",
                     f"{100 * large['useful_big_page_share']:.0f} % used to 100 %",
                     f"at most {gains['same-index']:.2f} times here"):
            self.assertIn(text, " ".join(self.text.split()))

    def test_nothing_local_stands_in_it(self):
        stored = "".join(path.read_text() for path in DATA.iterdir())
        self.assertIsNone(re.search(r"/(tmp|home|root|work)/", self.text + stored))


class Command(unittest.TestCase):
    def copies(self, folder):
        page = Path(folder) / "page.md"
        shutil.copy(PAGE, page)
        return ["--page", page, "--pictures", Path(folder) / "pictures"]

    def test_tables_are_made_where_nothing_can_be_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = self.copies(folder)
            page = arguments[1]
            page.write_text(page.read_text().replace("| 128 | 1,049 |", "| 129 | 1,049 |"))
            code, errors = run(*arguments, load_pyplot=missing_matplotlib)
            self.assertEqual(code, 1)
            self.assertIn("apt-get install python3-matplotlib", errors)
            self.assertEqual(page.read_text(), PAGE.read_text())

    def test_what_cannot_be_done_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder) / "broken"
            broken.mkdir()
            (broken / "walk.json").write_text("[]")
            program = Path(folder) / "fails"
            program.write_text("#!/bin/sh\necho no such pattern >&2\nexit 2\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            for arguments, said in ((["--data", folder + "/none"], "--orchard makes it"),
                                    (["--data", broken], "--orchard makes it anew"),
                                    (["--data", folder + "/new", "--orchard", folder + "/absent"], "No such file"),
                                    (["--data", folder + "/new", "--orchard", program], "no such pattern"),
                                    (["--page", folder + "/none.md"], "none.md")):
                code, errors = run(*self.copies(folder), *arguments)
                self.assertEqual(code, 2, arguments)
                self.assertIn(said, errors)
                self.assertEqual(len(errors.splitlines()), 1)

    @unittest.skipUnless(has_matplotlib(), "matplotlib is not installed")
    def test_pictures_are_the_same_each_time(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = self.copies(folder)
            self.assertEqual(run(*arguments), (0, ""))
            drawn = {path.stem: path.read_bytes() for path in arguments[3].iterdir()}
            self.assertEqual(sorted(drawn), list(paper_pictures.PICTURES))
            again = ["paper_fig01", "paper_fig07"]  # lines and boxes
            for path in paper_pictures.draw_all(paper_pictures.pyplot(), paper_figures.stored(),
                                                Path(folder) / "again", tuple(again)):
                self.assertEqual(path.read_bytes(), drawn[path.stem], path.name)
                again.remove(path.stem)
            self.assertEqual(again, [])


if __name__ == "__main__":
    unittest.main()
