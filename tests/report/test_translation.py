#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of profiling/report/translation.py, on listings in the form of nvdisasm's. No tool of CUDA is needed."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "profiling" / "report"))

import translation  # noqa: E402
from registers import Unusable  # noqa: E402


def kernel(name, *lines):
    """A kernel's listing: labels end with a colon, all else are instructions."""
    text = [f".text.{name}:"]
    for at, line in enumerate(lines):
        text.append(line if line.endswith(":") else f"        /*{at * 16:04x}*/                   {line} ;")
    return "\n".join(text) + "\n"


POINTER = kernel("pointer", "LDC R1, c[0x0][0x28]", ".L_x_1:", "LDG.E R3, desc[UR4][R6.64]", "IMAD.WIDE.U32 R2, R3, 0x4, R8",
                 "@!P0 BRA `(.L_x_1)", "EXIT", ".L_x_2:", "BRA `(.L_x_2)")
EQUATION = kernel("eq_2", ".L_x_3:", "LDG", "IADD3", "SHF", "IMAD", "LEA", "@!P0 BRA `(.L_x_3)", "EXIT")


class TranslationTest(unittest.TestCase):
    def test_the_endless_loop_behind_a_kernel_does_not_count(self):
        self.assertEqual(translation.shortest_loops(POINTER), {"pointer": 3})

    def test_the_shortest_of_several_loops_counts(self):
        text = kernel("array_rows", ".L_x_5:", "LDG", "ISETP", "@!P1 BRA `(.L_x_6)", "SHF", ".L_x_6:", "LOP3",
                      "@!P0 BRA `(.L_x_5)", ".L_x_7:", "LDG", "LOP3", "IMAD", "@!P0 BRA `(.L_x_7)")
        self.assertEqual(translation.shortest_loops(text), {"array_rows": 4})

    def test_labels_of_another_kernel_are_not_meant(self):
        text = kernel("a", ".L_x_1:", "LDG", "@!P0 BRA `(.L_x_1)") + kernel("b", "LDG", "BRA `(.L_x_1)")
        self.assertEqual(translation.shortest_loops(text), {"a": 2})

    def test_counts_are_relative_to_the_plain_pointer(self):
        loops = translation.shortest_loops(POINTER + EQUATION)
        self.assertEqual(translation.address_instructions(loops), {"pointer": 1, "eq_2": 4})

    def test_a_listing_without_the_loops_is_an_error(self):
        with self.assertRaises(Unusable):
            translation.address_instructions(translation.shortest_loops(POINTER))


if __name__ == "__main__":
    unittest.main()
