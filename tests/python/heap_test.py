#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The Python package over liborchard.so, on the emulated device: heaps, the default heap, errors, device code."""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import support

support.skip_without_library()

import orchard  # noqa: E402
from orchard._device_code import declared  # noqa: E402

MIB = 1 << 20


def emulated(**options):
    return orchard.Heap(device="emulated", **{"capacity": "64MiB", **options})


class Heaps(unittest.TestCase):
    def test_blocks_of_the_host(self):
        with emulated() as heap:
            blocks = [heap.allocate(size) for size in (1, 100, 4096, 3 * MIB)]
            self.assertEqual(len(set(blocks)), 4)
            for block in blocks:
                self.assertEqual(block % 256, 0)
                heap.free(block)
            self.assertEqual(heap.allocate(0), 0)
            heap.free(0)
            heap.validate()

    def test_statistics_are_numbers_that_grow(self):
        with emulated() as heap:
            before = heap.stats()
            heap.free(heap.allocate(100))
            after = heap.stats()
            self.assertIsInstance(after.pop("classes"), list)
            before.pop("classes")
            self.assertTrue(all(isinstance(value, int) for value in after.values()), after)
            self.assertGreater(after["allocations"], before["allocations"])
            self.assertEqual(set(before), set(after))

    def test_reserve_and_trim(self):
        with emulated() as heap:
            heap.reserve(8 * MIB)
            self.assertGreaterEqual(heap.stats()["committed_bytes"], 8 * MIB)
            heap.trim()

    def test_no_block_is_marked_where_no_tool_listens(self):
        with emulated() as heap:
            self.assertEqual(heap.mark_live_blocks(), 0)
            heap.unmark_live_blocks()

    def test_the_budget_of_an_elastic_heap_changes(self):
        with emulated(backing="elastic", capacity="16MiB") as heap:
            heap.set_device_budget(8 * MIB)
            with self.assertRaises(orchard.OutOfMemoryError):
                heap.reserve(16 * MIB)
            with self.assertRaisesRegex(orchard.Error, "cannot be 32 MiB"):
                heap.set_device_budget(32 * MIB)

    def test_memory_moves_if_the_options_say_so(self):
        with emulated() as heap, self.assertRaisesRegex(orchard.Error, "move_unit"):
            heap.migrate()
        with emulated(backing="elastic", capacity="8MiB", host_budget="8MiB", move_unit="2MiB") as heap:
            block = heap.allocate(3 * MIB)
            heap.demote(block, 3 * MIB)
            self.assertEqual(heap.stats()["moved_to_host_bytes"], 4 * MIB)
            heap.prefetch(block, 1)
            self.assertEqual(heap.stats()["moved_to_device_bytes"], 2 * MIB)
            heap.migrate()
            heap.free(block)

    def test_map_and_failures(self):
        with emulated() as heap, tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(heap.last_failure())
            path = Path(folder) / "map.json"
            heap.dump(path)
            self.assertEqual(json.loads(path.read_text())["format"], "orchard heap map")
            with self.assertRaisesRegex(orchard.ArgumentError, "none/map.json"):
                heap.dump(f"{folder}/none/map.json")

    def test_device(self):
        with emulated() as heap:
            self.assertEqual(heap.device, "emulated")
            self.assertIsInstance(heap.device_reason, str)
            self.assertIsInstance(heap.warnings, list)
            self.assertIn("emulated", repr(heap))

    def test_options_are_words_numbers_and_switches(self):
        with emulated(capacity=64 * MIB, prefetch=False, cached_segments=4, request_timeout="5s", hardening=None):
            pass

    def test_closed(self):
        heap = emulated()
        heap.close()
        heap.close()
        self.assertTrue(heap.closed)
        self.assertIn("closed", repr(heap))
        for call in (heap.stats, heap.trim, heap.validate, lambda: heap.allocate(1), lambda: heap.device):
            with self.assertRaisesRegex(orchard.PreconditionError, "closed"):
                call()

    def test_several_heaps_and_threads(self):
        with emulated() as one, emulated() as other:
            block = one.allocate(64)
            with self.assertRaises(orchard.ArgumentError):
                other.free(block)
            failures = []

            def work():
                try:
                    for _ in range(50):
                        one.free(one.allocate(1000))
                except orchard.Error as error:
                    failures.append(error)
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])

    def test_a_heap_that_is_not_closed_does_not_hinder_the_end(self):
        program = "import orchard; heap = orchard.Heap(device='emulated', capacity='64MiB'); heap.allocate(5)"
        done = subprocess.run([sys.executable, "-c", program], env=support.environment(), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Errors(unittest.TestCase):
    def assert_error(self, kind, builtin, text, call):
        with self.assertRaisesRegex(kind, text) as caught:
            call()
        self.assertIsInstance(caught.exception, orchard.Error)
        if builtin is not None:
            self.assertIsInstance(caught.exception, builtin)

    def test_options(self):
        self.assert_error(orchard.ArgumentError, ValueError, "no such option", lambda: emulated(nothing=1))
        self.assert_error(orchard.ArgumentError, ValueError, "power of two", lambda: emulated(mailbox_slots=5))
        self.assert_error(orchard.ArgumentError, ValueError, "8GiB", lambda: emulated(capacity="8 GiB"))

    def test_blocks(self):
        with emulated() as heap:
            self.assert_error(orchard.ArgumentError, ValueError, "cannot free", lambda: heap.free(4096))
            self.assert_error(orchard.OutOfMemoryError, MemoryError, "at most", lambda: heap.allocate(1 << 40))
            self.assert_error(orchard.ArgumentError, ValueError, "-1", lambda: heap.free(-1))
            with self.assertRaises(AttributeError):
                heap.allocate("8")

    def test_a_module_needs_a_heap_of_a_gpu(self):
        with emulated() as heap:
            self.assert_error(orchard.Error, None, "orchard_root|no CUDA", lambda: heap.bind(4096, 16))

    def test_library_that_is_not_there(self):
        program = "import orchard\ntry: orchard.version()\nexcept orchard.PreconditionError as e: print(e)"
        environment = support.environment(ORCHARD_LIBRARY="/nowhere/liborchard.so")
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        self.assertRegex(done.stdout, "ORCHARD_LIBRARY")


class DefaultHeap(unittest.TestCase):
    def tearDown(self):
        orchard.shutdown()

    def test_one_until_shutdown(self):
        with self.assertRaisesRegex(orchard.PreconditionError, "no default heap"):
            orchard.default_heap()
        heap = orchard.init(device="emulated", capacity="64MiB")
        self.assertIs(orchard.init(), heap)
        self.assertIs(orchard.default_heap(), heap)
        heap.close()  # the library's
        self.assertFalse(heap.closed)
        heap.free(heap.allocate(10))
        with self.assertRaises(orchard.PreconditionError):
            orchard.init(capacity="32MiB")
        orchard.shutdown()
        self.assertTrue(heap.closed)
        orchard.init(device="emulated", capacity="64MiB")


class DeviceCode(unittest.TestCase):
    def test_version(self):
        self.assertRegex(orchard.version(), r"^\d+\.\d+\.\d+$")

    def test_kinds(self):
        with self.assertRaises(ValueError):
            orchard.device_code("elf")
        try:
            text = orchard.device_code("ptx")
        except orchard.PreconditionError as error:
            self.skipTest(str(error))
        self.assertIn(b"orchard_malloc", text)
        self.assertTrue(orchard.device_code("fatbin") and orchard.device_code("ltoir"))

    def test_declarations_are_those_of_the_header(self):
        header = (support.ROOT / "runtime/include/orchard/orchard.h").read_text(encoding="utf-8")
        functions = re.findall(r"^__device__ (.*);$", header, re.MULTILINE)
        self.assertEqual(orchard.declarations, "".join(f'extern "C" __device__ {f};\n' for f in functions))

    def test_sources_that_declare_the_functions_stay_as_they_are(self):
        for text in ("#include <orchard/orchard.h>\n", 'extern "C" __device__ void* orchard_malloc(unsigned long long);\n'):
            self.assertEqual(declared(text), text)
        kernel = '__device__ int f() { return 0; }\n__global__ void k() { orchard_free(orchard_malloc(4)); }\n'
        self.assertEqual(declared(kernel), orchard.declarations + "#line 1\n" + kernel)

    def test_include_path(self):
        self.assertTrue(os.path.isfile(os.path.join(orchard.include_path(), "orchard/orchard.h")))


if __name__ == "__main__":
    support.main()
