#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""docs/walkthrough.md names functions that are in the files named beside them."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `([\w./]+)` \| `(\w+)` \|", re.MULTILINE)


class WalkthroughTest(unittest.TestCase):
    def rows(self):
        return ROW.findall((ROOT / "docs/walkthrough.md").read_text())

    def test_has_rows(self):
        self.assertGreater(len(self.rows()), 30)

    def test_each_function_is_in_its_file(self):
        for path, function in self.rows():
            with self.subTest(file=path, function=function):
                text = (ROOT / path).read_text()
                # A declaration or a definition, or a name that is taken over (`using`).
                self.assertRegex(text, rf"\b{function}(\(|;)")


if __name__ == "__main__":
    unittest.main()
