#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/linked_registers.py, on a recorded report."""

import contextlib
import io
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiling" / "report"))

import linked_registers  # noqa: E402

# As the device linker of CUDA 13.0 wrote it.
REPORT = """\
nvlink info    : 48 bytes gmem, 336 bytes cmem[3]
nvlink info    : Function properties for '_Z5probePPv':
nvlink info    : used 32 registers, used 0 barriers, 1208 stack, 0 bytes smem, 536 bytes cmem[0], 48 bytes cmem[2], 0 bytes lmem
"""


class LinkedRegisters(unittest.TestCase):
    def test_reads_the_report(self):
        self.assertEqual(linked_registers.used_by_probe(REPORT), (32, 1208))

    def test_refuses_a_report_of_no_kernel_or_of_two(self):
        for text in ("", REPORT * 2):
            with self.assertRaises(linked_registers.Unusable):
                linked_registers.used_by_probe(text)

    def run_with(self, rows):
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.object(linked_registers, "measure", lambda *_: rows), \
                mock.patch.object(linked_registers, "find_tool", lambda *_: "nvcc"), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = linked_registers.main([])
        return code, out.getvalue(), err.getvalue()

    def test_holds_each_probe_to_its_limits(self):
        within = [(probe, registers, stack) for probe, _, registers, stack in linked_registers.PROBES]
        self.assertEqual(self.run_with(within)[0], 0)
        for i in range(len(within)):
            for more in ((1, 0), (0, 8)):
                rows = list(within)
                rows[i] = (rows[i][0], rows[i][1] + more[0], rows[i][2] + more[1])
                code, _, error = self.run_with(rows)
                self.assertEqual(code, 1)
                self.assertIn(rows[i][0] + ":", error)


if __name__ == "__main__":
    unittest.main()
