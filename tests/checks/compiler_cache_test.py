#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""A test of the build's use of ccache: a small project with a precompiled header, compiled as Orchard is."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROJECT = f"""cmake_minimum_required(VERSION 3.25)
set(CMAKE_BUILD_TYPE Release)
project(cached LANGUAGES CXX)
include({ROOT}/cmake/options.cmake)
include({ROOT}/cmake/compile.cmake)
add_library(cached OBJECT source.cpp)
target_include_directories(cached PRIVATE .)
orchard_precompile(cached <header.hpp>)
"""


@unittest.skipUnless(shutil.which("ccache") and shutil.which("ninja"), "needs ccache and ninja")
class CompilerCache(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("CCACHE_")}
        # Not the compiler's name in /usr/lib/ccache, behind which ccache does not see which compiler it is.
        folders = os.environ["PATH"].split(":")
        self.environment["PATH"] = ":".join(folder for folder in folders if not folder.endswith("/ccache"))
        self.environment["CCACHE_DIR"] = str(self.folder / "cache")

    def build(self, checkout, comment, number):
        """Compiles a checkout of the project with this comment in its header and this number in its source. Returns how
        often the cache had what the compiler would have made."""
        source = self.folder / checkout
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT)
        (source / "header.hpp").write_text(f"#pragma once\n// {comment}\nstruct counted {{\n    int number;\n}};\n")
        (source / "source.cpp").write_text(
            f'#include "header.hpp"\ncounted next(counted of) {{\n    return {{of.number + {number}}};\n}}\n')
        self.succeed("cmake", "-S", source, "-B", source / "build", "-G", "Ninja")
        before = self.hits()  # CMake's own checks of the compiler are not meant
        self.succeed("cmake", "--build", source / "build")
        return self.hits() - before

    def succeed(self, *command):
        """Returns what the command printed; it must succeed."""
        done = subprocess.run(command, env=self.environment, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def hits(self):
        """Returns the cache's own count of what it had."""
        counts = dict(line.split() for line in self.succeed("ccache", "--print-stats").splitlines())
        return int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])

    def test_another_checkout_compiles_nothing_twice(self):
        self.assertEqual(self.build("first", "a comment", 1), 0)
        self.assertEqual(self.build("second", "a comment", 1), 2)

    def test_a_comment_changes_in_a_precompiled_header(self):
        self.build("first", "a comment", 1)
        self.build("second", "another comment", 2)


if __name__ == "__main__":
    unittest.main()
