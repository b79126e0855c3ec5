#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""What the documents name is in the tree: files, folders, headings that links lead to, commands, benchmarks, tests."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "profiling/results").glob("*.md")])
# Generated from results, which speak of the files of their own time.
GENERATED = {ROOT / "profiling/results/report.md"}
TOP_FOLDERS = {"uvm", "device", "host", "runtime", "profiling", "tests", "examples", "docs", "cmake", ".ci"}
CODE_SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".py", ".def", ".md", ".cmake"}
# Names in examples of commands.
NOT_HERE = {"my_program.cu", "profiling/results/mailbox_round_trip.json"}

LINK = re.compile(r"\]\(([^()\s]*?)(?:#([^()\s]+))?\)")
CODE = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"[\w.*/<>-]+")
COMMAND = re.compile(r"(?:^|[\s`/])(?:\./)?orchard (?!--)([a-z]\w*)(?: (\w[\w-]*))?", re.MULTILINE)


def text_of(page):
    return page.read_text(encoding="utf-8")


def prose(page):
    """The page without its blocks of code."""
    return BLOCK.sub("", text_of(page))


def anchors(page):
    """The names that GitHub gives the headings of a page."""
    names = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        names.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return names


def sources(*folders):
    return "".join(path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).rglob("*")
                   if path.suffix in (".cpp", ".cu", ".hpp", ".cuh"))


def named_paths(page):
    """Words in code, in a line or in a block of commands, that are paths of this repository."""
    words = [word for code in CODE.findall(prose(page)) for word in code.split()]
    words += [word for kind, block in BLOCK.findall(text_of(page)) if kind == "sh" for word in block.split()]
    for word in (word.strip("\"',;:()").removeprefix("./") for word in words):
        if PATH.fullmatch(word) and word not in NOT_HERE and "<" not in word:
            top = word.split("/")[0]
            if "/" in word and top in TOP_FOLDERS or "/" not in word and Path(word).suffix in CODE_SUFFIXES:
                yield word


class Documents(unittest.TestCase):
    def assert_pages(self, problems):
        self.assertEqual(sorted({f"{page.relative_to(ROOT)}: {problem}" for page, problem in problems}), [])

    def test_links_lead_to_files_and_headings(self):
        def problems():
            for page in PAGES:
                for target, anchor in LINK.findall(prose(page)):
                    if target.startswith("http"):
                        continue
                    path = (page.parent / target).resolve() if target else page
                    if not path.exists():
                        yield page, target
                    elif anchor and anchor not in anchors(path):
                        yield page, f"{target}#{anchor}"
        self.assert_pages(problems())

    def test_files_that_are_named_exist(self):
        def problems():
            for page in PAGES:
                if page in GENERATED:
                    continue
                for name in named_paths(page):
                    # A bare name may be that of a file anywhere.
                    found = any(ROOT.glob(name)) if "/" in name or (ROOT / name).exists() else self.is_somewhere(name)
                    if not found:
                        yield page, name
        self.assert_pages(problems())

    @staticmethod
    def is_somewhere(name):
        return any(True for folder in TOP_FOLDERS for _ in (ROOT / folder).rglob(name))

    def test_commands_and_benchmarks_exist(self):
        launcher = text_of(ROOT / "orchard")
        program = sources("runtime", "examples", "profiling", "tests/explore")
        benchmarks = set(re.findall(r'registrar \w+_registered\{\s*\{\s*"(\w+)"', sources("profiling/bench")))
        self.assertIn("pages", benchmarks)

        def problems():
            for page in PAGES:
                for command, argument in COMMAND.findall(text_of(page)):
                    if not re.search(rf"^\s*{command}\)|\b{command}\b.*\)$|^  {command} ", launcher, re.MULTILINE) \
                            and f'"{command}"' not in program:
                        yield page, f"orchard {command}"
                    elif command == "bench" and argument not in benchmarks | {"NAME", ""}:
                        yield page, f"orchard bench {argument}"
        self.assert_pages(problems())

    def test_variables_of_options_exist(self):
        table = text_of(ROOT / "docs/options.md")
        library = sources("device", "runtime") + text_of(ROOT / "runtime/python/orchard/_library.py")
        nightly = re.findall(r"\$\{(ORCHARD_NIGHTLY_[A-Z_]+):-", text_of(ROOT / ".ci/nightly"))

        def problems():
            for page in PAGES:
                for name in re.findall(r"`(ORCHARD_[A-Z_]+)`", text_of(page)):
                    if f"`{name}`" not in table and name not in nightly and name not in library:
                        yield page, name
        self.assert_pages(problems())

    def test_the_numbers_of_scenarios_and_mutants_are_right(self):
        page = text_of(ROOT / "docs/reliability.md")
        finders = re.findall(r"\{fault::(\w+), \"(\w+)\", \d+\}", text_of(ROOT / "tests/mutants/found_test.cpp"))
        finders = [each for each in finders if each[1] != "any_options"]  # faults that others find, too
        for mutant, scenario in finders:
            self.assertRegex(page, rf"(?m)^\| `{mutant}`: .* \| `{scenario}` \| \d+ \|$")
        self.assertIn(f"{len(finders)} of {len(finders)} mutants found", page)
        scenarios = len(re.findall(r"\bconst registrar \w+\{", sources("tests/explore/scenarios")))
        self.assertIn(f"weak memory, {scenarios} scenarios", page)

    def test_the_readme_names_every_page(self):
        readme = ROOT / "README.md"
        linked = {(ROOT / target).resolve() for target, _ in LINK.findall(text_of(readme)) if target}
        self.assert_pages((page, "README.md does not name it") for page in PAGES if page not in {*linked, readme})


if __name__ == "__main__":
    unittest.main()
