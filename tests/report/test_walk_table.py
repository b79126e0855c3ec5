#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/walk_table.py, with a program that stands for `orchard`."""

import contextlib
import io
import stat
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "profiling/report"))

import walk_table

PROGRAM = """\
    #!/usr/bin/env python3
    import json, sys
    a = sys.argv
    backing = a[a.index("--backing") + 1]
    if backing == "managed" and "broken" in a:
        sys.exit("orchard: no managed memory here")
    result = {
        "passed": not (backing == "elastic" and "wrong" in a),
        "checks": [{"name": "degrees", "passed": False}],
        "phases": [{"name": "insert", "seconds": 2.0, "kernel_seconds": 0}, {"name": "walk", "seconds": 3.0,
                    "kernel_seconds": 1.5}],
        "statistics": {"peak_committed_bytes": 5 * 2**20, "failed_allocations": 0},
    }
    with open(a[a.index("--json") + 1], "w") as f:
        json.dump(result, f)
"""


class WalkTable(unittest.TestCase):
    def run_with(self, *arguments):
        """Exit code, standard output, standard error."""
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "orchard"
            program.write_text(textwrap.dedent(PROGRAM))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = walk_table.main([str(program), *arguments])
            return code, out.getvalue(), err.getvalue()

    def test_has_a_row_for_each_backing_and_layout(self):
        code, out, _ = self.run_with()
        self.assertEqual(code, 0)
        lines = out.splitlines()
        self.assertEqual(len(lines), 2 + 3 * 3)
        self.assertIn("| elastic | interleaved:4K | 2.0000 | 1.5000 | 5 | 0 |", lines)

    def test_takes_some_of_them(self):
        code, out, _ = self.run_with("--backing", "fixed", "--layout", "linear", "--layout", "interleaved:16")
        self.assertEqual(code, 0)
        self.assertEqual(len(out.splitlines()), 2 + 2)

    def test_a_check_that_failed_is_named(self):
        code, _, err = self.run_with("--", "wrong")
        self.assertEqual(code, 1)
        self.assertIn("degrees", err)

    def test_a_run_without_a_result_says_why(self):
        code, _, err = self.run_with("--", "broken")
        self.assertEqual(code, 1)
        self.assertIn("no managed memory here", err)


if __name__ == "__main__":
    unittest.main()
