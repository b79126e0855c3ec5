#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of .ci/check_includes on small trees: each rule is broken once, and the tree without that break passes."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = "// SPDX-License-Identifier: Apache-2.0\n// Copyright the Orchard authors.\n"
GOOD = {
    "device/simt/lane.cuh": HEADER + "#include <cstdint>\n#ifdef __CUDA_ARCH__\n#endif\n",
    "device/state/slab.cuh": HEADER + '#include "device/simt/lane.cuh"\n#include "uvm/geometry/geometry.hpp"\n',
    "uvm/geometry/geometry.hpp": HEADER + '#include "device/simt/lane.cuh"\n',
    "host/or_tree.hpp": HEADER + '#include "uvm/geometry/geometry.hpp"\n#include <absl/status/status.h>\n',
    "runtime/heap/heap.hpp": HEADER + '#include "host/or_tree.hpp"\n#include "device/state/slab.cuh"\n',
    "runtime/include/orchard/heap.hpp": HEADER + '#include "runtime/heap/heap.hpp"\n',
    "examples/walk.cpp": HEADER + "#include <orchard/heap.hpp>\n",
    "profiling/bench.cpp": HEADER + '#include "runtime/heap/heap.hpp"\n',
    "tests/heap/create_test.cpp": HEADER + '#include <gtest/gtest.h>\n#include "profiling/bench.cpp"\n',
    "build/anything.cpp": "no licence\n",
    "README.md": "text\n",
}


def run(tree):
    """Exit code and output lines of the check on a tree given as {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, "-B", ROOT / ".ci/check_includes", folder], capture_output=True,
                              text=True, check=False)
    return done.returncode, done.stdout.splitlines()


class CheckIncludes(unittest.TestCase):
    def assert_violation(self, file, text, place, words):
        """The good tree with `file` replaced has one violation, at `place`, whose message has `words` in it."""
        code, lines = run(GOOD | {file: text})
        self.assertEqual(code, 1, lines)
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith(place + ": "), lines[0])
        self.assertIn(words, lines[0])

    def assert_include_refused(self, file, include, words):
        self.assert_violation(file, f"{HEADER}\n#include {include}\n", f"{file}:4", words)

    def test_good_tree_passes(self):
        self.assertEqual(run(GOOD), (0, []))

    def test_layers_point_down(self):
        for file, include in [
            ("device/simt/lane.cuh", '"uvm/geometry/geometry.hpp"'),
            ("device/simt/lane.cuh", '"device/state/slab.cuh"'),
            ("uvm/geometry/geometry.hpp", '"device/state/slab.cuh"'),
            ("uvm/geometry/geometry.hpp", '"host/or_tree.hpp"'),
            ("device/state/slab.cuh", '"host/or_tree.hpp"'),
            ("host/or_tree.hpp", '"device/state/slab.cuh"'),
            ("host/or_tree.hpp", "<orchard/heap.hpp>"),
            ("runtime/heap/heap.hpp", '"examples/walk.cpp"'),
            ("runtime/heap/heap.hpp", '"tests/heap/create_test.cpp"'),
            ("examples/walk.cpp", '"profiling/bench.cpp"'),
            ("profiling/bench.cpp", '"examples/walk.cpp"'),
        ]:
            with self.subTest(file=file, include=include):
                self.assert_include_refused(file, include, "may not include")

    def test_rooms_point_down(self):
        tree = GOOD | {"device/small/search.cuh": HEADER, "device/published/rw.cuh": HEADER, "device/heap_ref.cuh": HEADER}
        for file, include, right in [
            ("device/small/search.cuh", "device/state/slab.cuh", True),
            ("device/state/slab.cuh", "device/small/search.cuh", False),
            ("device/heap_ref.cuh", "device/small/search.cuh", True),
            ("device/small/search.cuh", "device/heap_ref.cuh", False),
            ("device/published/rw.cuh", "device/heap_ref.cuh", True),
            ("device/heap_ref.cuh", "device/published/rw.cuh", False),
        ]:
            with self.subTest(file=file, include=include):
                code, lines = run(tree | {file: f'{HEADER}#include "{include}"\n'})
                self.assertEqual(code, 0 if right else 1, lines)
                if not right:
                    self.assertIn(f"may not include {include}", lines[0])
        code, lines = run(tree | {"device/cellar/box.cuh": f'{HEADER}#include "device/state/slab.cuh"\n'})
        self.assertEqual(code, 1)
        self.assertIn("device/cellar has no place in the order of rooms", lines[0])

    def test_includes_are_written_from_the_root(self):
        self.assert_include_refused("runtime/version.hpp", '"include/orchard/heap.hpp"', "from the root")
        self.assert_include_refused("runtime/heap/heap.hpp", '"heap.hpp"', "from the root")
        self.assert_include_refused("runtime/heap/heap.hpp", '"host/none.hpp"', "no such file")
        self.assert_include_refused("runtime/heap/heap.hpp", "<host/or_tree.hpp>", 'write "host/or_tree.hpp"')
        self.assert_include_refused("examples/walk.cpp", '"orchard/heap.hpp"', "write <orchard/heap.hpp>")
        self.assert_include_refused("examples/walk.cpp", "<orchard/none.hpp>", "no such file")

    def test_the_library_reads_the_monotonic_clock(self):
        waits = f"{HEADER}const absl::Time end = absl::Now() + limit;\n"
        self.assert_violation("host/service.cpp", waits, "host/service.cpp:3", "monotonic_now")
        self.assertEqual(run(GOOD | {"profiling/bench.cpp": waits}), (0, []))

    def test_cuda_macros_stay_in_the_seam(self):
        for macro in ["__CUDA_ARCH__", "__CUDACC__", "__CUDACC_VER_MAJOR__", "__NVCC__", "__CUDA_ARCH_LIST__"]:
            with self.subTest(macro=macro):
                self.assert_violation("device/state/slab.cuh", f"{HEADER}#if defined({macro})\n#endif\n",
                                      "device/state/slab.cuh:3", macro)

    def test_licence(self):
        self.assert_violation("host/or_tree.hpp", "#pragma once\n", "host/or_tree.hpp:1", "SPDX")
        self.assert_violation("cmake/a.cmake", "message()\n", "cmake/a.cmake:1", "SPDX")
        self.assert_violation(".ci/thing", "#!/bin/sh\ntrue\n", ".ci/thing:1", "SPDX")

    def test_length(self):
        longest = HEADER + "\n" * 598
        self.assertEqual(run(GOOD | {"host/or_tree.hpp": longest}), (0, []))
        self.assert_violation("host/or_tree.hpp", longest + "\n", "host/or_tree.hpp:601", "601 lines")

    def test_top_folders_are_fixed(self):
        self.assert_violation("src/main.cpp", HEADER, "src:1", "fixed")

    def test_wrong_arguments(self):
        done = subprocess.run([ROOT / ".ci/check_includes", "/none/such"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/none/such", done.stderr)


if __name__ == "__main__":
    unittest.main()
