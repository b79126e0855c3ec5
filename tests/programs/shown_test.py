#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""README.md and docs/programs.md show exactly the programs that are compiled: examples/quickstart, examples/programs.

What a page shows of a file stands between `// [program: NAME]` and `// [end of part]`, in one or several parts."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
END = "// [end of part]"
BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown_part(text, name):
    """The marked lines of a file. Raises ValueError where marks are missing or do not alternate."""
    begin = f"// [program: {name}]"
    lines, inside, parts = [], False, 0
    for number, line in enumerate(text.splitlines(), 1):
        if line in (begin, END):
            if inside == (line == begin):
                raise ValueError(f"line {number}: {line} where the other mark is due")
            inside = line == begin
            parts += inside
        elif inside:
            lines.append(line)
    if inside or parts == 0:
        raise ValueError(f"{begin} without {END}" if inside else f"no {begin}")
    return "".join(line + "\n" for line in lines)


def program(folder, name):
    return shown_part((ROOT / "examples" / folder / f"{name}.cu").read_text(encoding="utf-8"), name)


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


class ShownPart(unittest.TestCase):
    def test_parts_are_joined(self):
        text = f"a\n// [program: p]\nb\n{END}\nc\n// [program: p]\n\nd\n{END}\ne\n"
        self.assertEqual(shown_part(text, "p"), "b\n\nd\n")

    def test_wrong_marks(self):
        for text in ["a\n", "// [program: p]\na\n", f"{END}\n", f"// [program: q]\na\n{END}\n",
                     f"// [program: p]\n// [program: p]\n{END}\n"]:
            with self.assertRaises(ValueError, msg=text):
                shown_part(text, "p")


class Pages(unittest.TestCase):
    maxDiff = None

    def test_readme_shows_one_small_ordinary_program(self):
        shown, = blocks("README.md")
        self.assertEqual(shown, program("quickstart", "kernel"))
        self.assertLess(len(shown.splitlines()), 25)

    def test_programs_page_shows_every_program_once_and_nothing_else(self):
        names = sorted(path.stem for path in (ROOT / "examples/programs").glob("*.cu"))
        self.assertGreaterEqual(len(names), 5)
        shown = blocks("docs/programs.md")
        programs = {name: program("programs", name) for name in names}
        for name, text in programs.items():
            with self.subTest(program=name):
                self.assertGreater(len(text.splitlines()), 30)
        programs["both_devices"] = program("quickstart", "both_devices")
        for name, text in programs.items():
            with self.subTest(program=name):
                self.assertIn(text, shown, f"docs/programs.md does not show {name}.cu as it is")
        self.assertEqual(len(shown), len(programs))

    def test_every_program_is_one_of_the_subcommand(self):
        command = (ROOT / "examples/programs/programs_command.cpp").read_text(encoding="utf-8")
        for path in (ROOT / "examples/programs").glob("*.cu"):
            self.assertIn(f"ORCHARD_CUDA_PROGRAM({path.stem})", command)

    def test_programs_page_has_a_place_for_the_table_of_calls(self):
        text = (ROOT / "docs/programs.md").read_text(encoding="utf-8")
        for mark in ["<!-- table of calls: begin -->\n", "<!-- table of calls: end -->\n"]:
            self.assertEqual(text.count(mark), 1, mark)
        self.assertLess(text.index("table of calls: begin"), text.index("table of calls: end"))

    def test_local_links_lead_to_headings(self):
        page = ROOT / "docs/programs.md"
        text = BLOCK.sub("", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)]+)\)", text):
            name, _, heading = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            self.assertTrue(path.is_file(), target)
            if heading:
                found = [re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
                         for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
                self.assertIn(heading, found, target)


if __name__ == "__main__":
    unittest.main()
