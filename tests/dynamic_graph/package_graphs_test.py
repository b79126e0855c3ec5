#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of examples/data/make_package_graphs.py, with small indexes; and that its README has the counts of the files."""

import contextlib
import gzip
import io
import lzma
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "examples" / "data"
sys.path.insert(0, str(DATA))

import make_package_graphs as graphs  # noqa: E402

RELEASE = """Package: alpha
Version: 1.0-1
Depends: beta (>= 1), gamma:any | delta,
 libold-1
Recommends: virtual-thing
Suggests: alpha

Package: beta
Version: 2
Pre-Depends: gamma

Package: gamma
Version: 1

Package: delta
Version: 1

Package: libold-1
Source: old (1.0)
Version: 1.0+b1
Depends: gamma
"""

# `old` builds another library now; alpha uses it. A second, older version of `old` is in the index too.
UPDATES = """Package: libold-2
Source: old
Version: 2.0

Package: libold-1b
Source: old (1.5)
Version: 1.5

Package: alpha
Version: 1.0-1+deb12u1
Depends: beta, delta, libold-2
"""


def edges_of(path):
    """Returns the vertices of a MatrixMarket file, and its edges."""
    lines = [line for line in gzip.decompress(path.read_bytes()).decode().split("\n") if line and line[0] != "%"]
    sizes = lines[0].split()
    edges = [tuple(map(int, line.split())) for line in lines[1:]]
    assert len(edges) == int(sizes[2])
    return int(sizes[0]), edges


class Graphs(unittest.TestCase):
    def run_script(self, folder, *names):
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = graphs.main([str(folder / name) for name in names] + ["--output-dir", str(folder)])
        return code, out.getvalue(), errors.getvalue()

    def test_both_versions_have_one_numbering(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "release.xz").write_bytes(lzma.compress(RELEASE.encode()))
            (folder / "updates").write_text(UPDATES, encoding="utf-8")
            code, text, errors = self.run_script(folder, "release.xz", "updates")
            self.assertEqual((code, errors), (0, ""))
            # 1 alpha, 2 beta, 3 delta, 4 gamma, 5 libold-1, 6 libold-2; libold-1b is of an older source.
            before = edges_of(folder / "debian12-release.mtx.gz")
            after = edges_of(folder / "debian12-updates.mtx.gz")
            self.assertEqual(before, (6, [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 4), (5, 4)]))
            self.assertEqual(after, (6, [(1, 2), (1, 3), (1, 6), (2, 4)]))
            self.assertRegex(text, r"(?m)^added +1$")
            self.assertRegex(text, r"(?m)^removed +4$")
            self.assertRegex(text, r"(?m)^pairs removed +3$")  # a loop is no pair

    def test_the_same_input_gives_the_same_bytes(self):
        found = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                (folder / "index").write_text(RELEASE, encoding="utf-8")
                self.assertEqual(self.run_script(folder, "index", "index")[0], 0)
                found.append((folder / "debian12-updates.mtx.gz").read_bytes())
        self.assertEqual(*found)

    def test_what_is_no_index_is_one_line(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "index").write_text(RELEASE, encoding="utf-8")
            (folder / "noise").write_text("nothing here\n", encoding="utf-8")
            (folder / "noise.xz").write_text("nothing here\n", encoding="utf-8")
            for other, why in (("noise", "no package"), ("missing", "No such file"), ("noise.xz", "")):
                code, _, errors = self.run_script(folder, "index", other)
                self.assertEqual(code, 2)
                self.assertIn(why, errors)
                self.assertEqual(errors.count("\n"), 1)

    def test_versions_are_ordered_as_debian_orders_them(self):
        ascending = ["0.9", "1.0~rc1-1", "1.0-1", "1.0-1+b1", "1.0-1+deb12u1", "1.0-1+deb12u10", "1.0a-1", "1.0.1-1",
                     "1.10-1", "1:0.1"]
        for i, a in enumerate(ascending):
            for k, b in enumerate(ascending):
                order = graphs.compare_versions(a, b)
                self.assertEqual((order > 0) - (order < 0), (i > k) - (i < k), f"{a} and {b}")

    def test_the_readme_has_the_counts_of_the_files(self):
        lines = [gzip.decompress((DATA / f"debian12-{name}.mtx.gz").read_bytes()).split(b"\n")
                 for name in ("release", "updates")]
        head = [line[:1] == b"%" for line in lines[0]].index(False)  # behind the comments, which both have
        vertices = int(lines[0][head].split()[0])
        before, after = [set(lines_of[head + 1:]) - {b""} for lines_of in lines]
        text = (DATA / "README.md").read_text(encoding="utf-8")
        for count in (vertices, len(before), len(after), len(after - before), len(before - after)):
            self.assertIn(f"{count:,}", text)
        self.assertGreaterEqual(len(before - after), 100)


if __name__ == "__main__":
    unittest.main()
