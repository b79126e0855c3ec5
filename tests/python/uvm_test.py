#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""orchard.uvm: known cases of the model, the counts of the program `orchard uvm` for the same accesses, arrays, errors.

Skips itself where there is no NumPy, or the module was not built."""

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

try:
    import numpy
    from orchard import uvm
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(support.SKIPPED)

import orchard  # noqa: E402

MIB = 1 << 20
BIG_PAGE = 64 << 10

_library = os.environ.get("ORCHARD_LIBRARY")
PROGRAM = Path(os.environ.get("ORCHARD_PROGRAM") or (Path(_library).parent / "orchard" if _library else "none"))


def random_addresses(seed=1, size=(8, 50, 32), most=32 * MIB):
    return numpy.random.default_rng(seed).integers(0, most, size)


def full_model(**options):
    model = uvm.Model(32 * MIB, **options)
    model.populate()
    return model


class KnownCases(unittest.TestCase):
    """Those of tests/uvm_model/paging_model_test.cpp and event_log_test.cpp."""

    def test_there_is_no_cascade(self):
        model = uvm.Model("2MiB", machine="titan_v")
        model.populate()
        run = model.run([1, 3, 4, 0, 2, 5], unit=BIG_PAGE)
        self.assertEqual((run.counts["accesses"], run.counts["hits"], run.counts["raw_faults"]), (6, 1, 5))
        self.assertEqual(run.counts["resident_pages"], 8 * 16)
        self.assertEqual(run.faults["page"].tolist(), [16, 48, 64, 0, 80])

    def test_what_two_faults_did(self):
        model = uvm.Model("2MiB", machine="titan_v")
        model.populate()
        run = model.run([5, 1, 70], unit=uvm.PAGE)
        self.assertEqual(run.faults["page"].tolist(), [5, 70])
        self.assertEqual(run.faults["batch"].tolist(), [0, 1])
        self.assertEqual(run.batches["faults"].tolist(), [1, 1])
        first = run.migrations[run.migrations["time_ns"] == run.batches["end_ns"][0]]
        self.assertEqual(first[["page", "pages", "kind"]].tolist(), [
            (5, 1, uvm.Migration.DEMAND), (0, 5, uvm.Migration.PREFETCHED), (6, 10, uvm.Migration.PREFETCHED)])

    def test_a_second_run_hits(self):
        model = uvm.Model("2MiB")
        model.populate()
        first = model.run([0, 1, 2], unit=uvm.PAGE)
        second = model.run([0, 1, 2], unit=uvm.PAGE)
        self.assertEqual((first.counts["hits"], second.counts["hits"]), (2, 3))
        self.assertEqual(len(second.faults), 0)
        self.assertGreaterEqual(second.start_ns, first.batches["end_ns"][-1])

    def test_the_oldest_chunk_is_evicted(self):
        model = uvm.Model("8MiB", capacity="4MiB")
        model.populate()
        run = model.run([0, 2, 4], unit=MIB)
        self.assertEqual(run.counts["evictions"], 1)
        self.assertEqual(run.evictions[["page", "pages"]].tolist(), [(0, 16)])
        back = run.migrations[run.migrations["kind"] == uvm.Migration.WRITTEN_BACK]
        self.assertEqual(back[["page", "pages"]].tolist(), [(0, 16)])
        self.assertEqual(back["time_ns"].tolist(), run.evictions["time_ns"].tolist())

    def test_calls(self):
        model = uvm.Model("8MiB")
        one, two = model.allocate("2MiB"), model.allocate(4096)
        self.assertEqual((one, two), ((0, 2 * MIB), (2 * MIB, 4096)))
        model.populate(one)
        model.prefetch(one)
        model.advise("read_mostly", two)
        model.populate(two)
        run = model.run([0], base=two)
        self.assertEqual(run.counts["explicit_pages"], 512)
        kinds = run.migrations["kind"].tolist()
        self.assertEqual(kinds, [uvm.Migration.REQUESTED, uvm.Migration.DEMAND])
        states = model.page_states()
        self.assertTrue((states[:512] == uvm.GPU | uvm.READABLE | uvm.WRITABLE).all())
        self.assertEqual(states[512], uvm.GPU | uvm.CPU | uvm.READABLE)
        self.assertEqual(states[513], 0)
        model.discard(one)
        self.assertTrue((model.page_states()[:512] == uvm.GPU | uvm.DISCARDED).all())
        model.validate()

    def test_constants(self):
        self.assertEqual(uvm.Model("2MiB", machine="titan_v", utlb_faults=32, step_ns=1.5).constants["utlb_faults"], 32)
        slow = uvm.Model("2MiB", batch_ns=5_000_000).run([0])
        self.assertGreater(slow.seconds, 0.005)


class AgainstTheProgram(unittest.TestCase):
    NAMES = {"faults": "raw_faults", "useful_page_share": "useful_pages", "useful_big_page_share": "useful_big_pages",
             "prefetched_used_pages": "tree_used_pages"}
    OTHERS = {"source", "layout", "placement", "capacity", "policy", "capacity_bytes", "bytes"}

    def setUp(self):
        if not PROGRAM.is_file():
            self.skipTest("the program orchard is not beside ORCHARD_LIBRARY, and ORCHARD_PROGRAM does not name it")

    def rows(self, *arguments):
        done = subprocess.run([PROGRAM, "uvm", "--json", *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["rows"]

    def assert_same(self, row, counts):
        for name in set(row) - self.OTHERS:
            self.assertAlmostEqual(row[name], counts[self.NAMES.get(name, name)], places=6, msg=name)
        self.assertAlmostEqual(row["seconds"], counts["seconds"], places=9)

    def test_a_trace_of_arrays(self):
        accesses = uvm.accesses(random_addresses(), random_addresses(2) % 3 == 0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "random.trace"
            accesses.save(path)
            rows = self.rows("--trace", str(path), "--capacity", "unlimited", "--capacity", "8MiB")
            again = uvm.trace(path)
            self.assertEqual(again.table().tolist(), accesses.table().tolist())
        for row, capacity in zip(rows, (None, "8MiB")):
            for form in (accesses, again):
                self.assert_same(row, full_model(capacity=capacity).run(form).counts)

    def test_patterns(self):
        for name in ("random", "same-index", "sequential", "strided", "graph-walk", "growth"):
            row, = self.rows("--pattern", name, "--threads", "128", "--bytes-per-thread", "64KiB", "--accesses", "40",
                             "--layout", "interleaved:4KiB", "--placement", "padded", "--capacity", "4MiB", "--seed", "3")
            accesses = uvm.pattern(name, threads=128, bytes_per_thread="64KiB", accesses=40, layout="interleaved:4KiB",
                                   placement="padded", seed=3)
            model = uvm.Model(accesses.bytes, capacity="4MiB")
            model.populate()
            with self.subTest(name):
                self.assert_same(row, model.run(accesses).counts)

    def test_policies_and_the_layout_of_sync_malloc(self):
        accesses = uvm.pattern("random", threads=128, bytes_per_thread="68KiB", accesses=40, layout="sync_malloc")
        for policy in ("driver", "throttling_fetch", "early_adaptor", "dynamic_act"):
            row, = self.rows("--pattern", "random", "--threads", "128", "--bytes-per-thread", "68KiB", "--accesses", "40",
                             "--layout", "sync_malloc", "--capacity", "4MiB", "--policy", policy)
            model = uvm.Model(accesses.bytes, capacity="4MiB", policy=policy)
            model.populate()
            with self.subTest(policy):
                self.assertEqual((row["layout"], row["placement"], row["policy"]), ("sync_malloc", "first_fit", policy))
                self.assert_same(row, model.run(accesses).counts)


class Documented(unittest.TestCase):
    def test_the_first_lines_of_its_section(self):
        page = (support.ROOT / "docs/python.md").read_text(encoding="utf-8")
        program = re.search(r"## The model of the UVM driver\n\n```python\n(.*?)```", page, re.DOTALL)[1]
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=support.environment())
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, r"^192 24 0\.019\d+\n\[\(")

    def test_it_prints_its_study(self):
        done = subprocess.run([sys.executable, "-B", support.ROOT / "examples/python/uvm_study.py"], capture_output=True,
                              text=True, env=support.environment())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1 + 2 * 4 + 2, done.stdout)
        self.assertIn("busiest VA block", lines[-1])


class Arrays(unittest.TestCase):
    def test_types_and_shapes(self):
        run = full_model(capacity="8MiB").run(random_addresses())
        for events, dtype, count in ((run.faults, uvm.fault_dtype, "raw_faults"),
                                     (run.batches, uvm.batch_dtype, "batches"),
                                     (run.evictions, uvm.eviction_dtype, "evictions"),
                                     (run.migrations, uvm.migration_dtype, None)):
            self.assertEqual((events.dtype, events.ndim), (dtype, 1))
            self.assertFalse(events.flags.owndata)
            if count is not None:
                self.assertEqual(len(events), run.counts[count])
        self.assertEqual([d.itemsize for d in (uvm.fault_dtype, uvm.batch_dtype, uvm.migration_dtype, uvm.eviction_dtype,
                                               uvm.access_dtype)], [24, 32, 24, 24, 24])
        self.assertTrue(all(isinstance(value, (int, float)) for value in run.counts.values()))
        self.assertEqual((run.page_states.dtype, run.page_states.shape), (numpy.uint8, (32 * MIB // uvm.PAGE,)))

    def test_events_outlive_the_model(self):
        migrations = full_model().run(random_addresses()).migrations
        self.assertTrue((migrations["pages"] >= 1).all() and (migrations["kind"] <= uvm.Migration.DROPPED).all())

    def test_events_add_up_to_the_counts(self):
        run = full_model(capacity="8MiB").run(random_addresses(), "write")
        pages = {kind: int(run.migrations["pages"][run.migrations["kind"] == kind].sum()) for kind in uvm.Migration}
        self.assertEqual(pages[uvm.Migration.DEMAND], run.counts["demand_pages"])
        self.assertEqual(pages[uvm.Migration.PREFETCHED], run.counts["prefetched_pages"])
        self.assertEqual(pages[uvm.Migration.WRITTEN_BACK], run.counts["written_back_pages"])
        self.assertEqual(int(run.batches["faults"].sum()), run.counts["raw_faults"])
        self.assertEqual(int(run.batches["flushed"].sum()), run.counts["flushed_faults"])
        self.assertTrue(run.faults["write"].all())

    def test_residency_over_time(self):
        model = full_model(capacity="8MiB")
        model.prefetch((0, 4 * MIB))
        for seed in (1, 2):
            run = model.run(random_addresses(seed))
            times, pages = run.resident_pages()
            self.assertEqual((times.dtype, pages.dtype, pages[-1]), (numpy.int64, numpy.int64, run.counts["resident_pages"]))
            self.assertTrue((numpy.diff(times) >= 0).all() and pages.max() <= 2048)
            chosen = times[1::len(times) // 20]
            residency = run.residency(chosen)
            self.assertEqual((residency.dtype, residency.shape), (bool, (len(chosen), 32 * MIB // uvm.PAGE)))
            numpy.testing.assert_array_equal(residency.sum(axis=1), pages[1::len(times) // 20])
            numpy.testing.assert_array_equal(run.residency([times[-1]])[0], model.page_states() & uvm.GPU != 0)

    def test_forms_of_the_same_accesses(self):
        addresses = random_addresses()
        expected = full_model().run(addresses).counts
        for same in (addresses.astype(numpy.uint64), numpy.asfortranarray(addresses), addresses.astype(numpy.int32),
                     addresses.tolist(), uvm.accesses(addresses)):
            self.assertEqual(full_model().run(same).counts, expected)
        pages = addresses // uvm.PAGE
        self.assertEqual(full_model().run(pages, unit=uvm.PAGE).counts, full_model().run(pages * uvm.PAGE).counts)
        one_warp = addresses[0]
        self.assertEqual(full_model().run(one_warp).counts, full_model().run(one_warp[None]).counts)
        self.assertEqual(full_model().run(one_warp[:, 0]).counts, full_model().run(one_warp[:, :1]).counts)

    def test_arrays_are_not_copied(self):
        addresses = numpy.zeros((1, 4, 1), numpy.int64)
        accesses = uvm.accesses(addresses)
        addresses[:, :, 0] = [1, 2, 3, 4]
        self.assertEqual(accesses.table()["address"].tolist(), [1, 2, 3, 4])
        addresses.flags.writeable = False
        self.assertEqual(full_model().run(addresses).counts["accesses"], 4)

    def test_lanes_and_steps_without_accesses(self):
        table = uvm.accesses([[[-1, 5], [-1, -1], [6, -1]], [[-1, -1], [-1, -1], [-1, -1]], [[7, 8], [-1, -1], [-1, -1]]],
                             numpy.full((3, 3, 2), uvm.Kind.ATOMIC)).table()
        self.assertEqual(table[["warp", "step", "lane", "address"]].tolist(),
                         [(0, 0, 1, 5), (0, 1, 0, 6), (2, 0, 0, 7), (2, 0, 1, 8)])
        self.assertEqual(set(table["kind"]), {uvm.Kind.ATOMIC})
        self.assertEqual(full_model().run([]).counts["accesses"], 0)

    def test_without_record(self):
        addresses = random_addresses()
        run = full_model().run(addresses, record=False)
        self.assertEqual(run.counts, full_model().run(addresses).counts)
        self.assertEqual([len(each) for each in (run.faults, run.batches, run.migrations, run.evictions)], [0, 0, 0, 0])
        with self.assertRaisesRegex(orchard.ArgumentError, "record=True"):
            run.resident_pages()


class Errors(unittest.TestCase):
    def assert_error(self, text, call, kind=orchard.ArgumentError):
        with self.assertRaisesRegex(kind, text):
            call()

    def test_models(self):
        self.assert_error("whole pages", lambda: uvm.Model(1000))
        self.assert_error("bytes: -1", lambda: uvm.Model(-1))
        self.assert_error("bytes: 1.5", lambda: uvm.Model(1.5))
        self.assert_error("bytes: .*4G", lambda: uvm.Model("4G"))
        self.assert_error("2097152", lambda: uvm.Model("2MiB", capacity="1MiB"))
        self.assert_error("titan_v", lambda: uvm.Model("2MiB", machine="a100"))
        self.assert_error("nothing", lambda: uvm.Model("2MiB", nothing=1))
        self.assert_error("utlbs", lambda: uvm.Model("2MiB", utlbs=0))

    def test_ranges(self):
        model = full_model()
        self.assert_error("whole pages", lambda: model.populate((1, 4096)))
        self.assert_error("inside the managed", lambda: model.prefetch((0, 64 * MIB)))
        self.assert_error("where: 5", lambda: model.discard(5))
        self.assert_error("offset: -4096", lambda: model.discard((-4096, 4096)))
        self.assert_error("prefer_gpu, prefer_cpu", lambda: model.advise("faster"))
        self.assert_error("gpu, cpu", lambda: model.populate(at="disk"))
        model.allocate("30MiB")
        self.assert_error("2097152 .* are left", lambda: model.allocate("4MiB"), orchard.OutOfMemoryError)

    def test_accesses(self):
        model = full_model()
        self.assert_error("float64.*int64", lambda: model.run([1.5]))
        self.assert_error("shape.*steps", lambda: model.run(numpy.zeros((1, 1, 1, 1), int)))
        self.assert_error("33 lanes", lambda: model.run(numpy.zeros((2, 33), int)))
        self.assert_error("warp 0, step 1, lane 0: -7", lambda: model.run([0, -7]))
        self.assert_error("32 TiB", lambda: model.run([2**50]))
        self.assert_error("create the model with as many", lambda: model.run([32 * MIB]))
        self.assert_error("kinds: 'load'", lambda: model.run([0], "load"))
        self.assert_error("kinds: the shape", lambda: model.run([0, 1], [True]))
        self.assert_error("kinds: values from 0 to 3", lambda: model.run([0, 1], [0, 3]))
        self.assert_error("the kind 9", lambda: model.run([0, 1], numpy.array([0, 9], numpy.uint8)))
        self.assert_error("kinds: an array of float64", lambda: model.run([0, 1], [0.5, 1]))
        self.assert_error("unit: 0", lambda: model.run([0], unit=0))
        self.assert_error("base: -1", lambda: model.run([0], base=-1))
        self.assert_error("belong to an array", lambda: model.run(uvm.accesses([0]), "write"))
        self.assertEqual(model.run([0]).counts["accesses"], 1)

    def test_patterns_and_traces(self):
        self.assert_error("same-index", lambda: uvm.pattern("sparse"))
        self.assert_error("layout: 'blocked'", lambda: uvm.pattern("random", layout="blocked"))
        self.assert_error("tile of 12", lambda: uvm.pattern("random", layout="interleaved:12"))
        self.assert_error("there is no policy 'none'; there are: driver", lambda: uvm.Model("2MiB", policy="none"))
        self.assert_error("placement: 'loose'", lambda: uvm.pattern("random", placement="loose"))
        self.assert_error("threads", lambda: uvm.pattern("random", threads=0))
        self.assert_error("no-such-file", lambda: uvm.trace("/no-such-file"))
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"no trace at all" * 20)
            file.flush()
            self.assert_error(file.name, lambda: uvm.trace(file.name), orchard.DataLossError)

    def test_times(self):
        run = full_model().run([0])
        self.assert_error("ascending", lambda: run.residency([5, 3]))
        self.assert_error("whole numbers", lambda: run.residency([0.5]))

    def test_one_thread_at_a_time(self):
        model = uvm.Model("1GiB")
        accesses = uvm.pattern("random", threads=1024, bytes_per_thread="1MiB", accesses=3000)
        thread = threading.Thread(target=lambda: model.run(accesses, record=False))
        thread.start()
        refused = 0
        while thread.is_alive() and refused == 0:
            try:
                model.page_states()
            except orchard.PreconditionError:
                refused += 1
        thread.join()
        self.assertEqual(refused, 1)

    def test_an_interrupted_run(self):
        # A shell that runs this in the background ignores SIGINT, and Python then does, too.
        program = ("import os, signal, threading, orchard.uvm as uvm\n"
                   "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                   "model = uvm.Model('1GiB')\n"
                   "many = uvm.pattern('random', threads=1024, bytes_per_thread='1MiB', accesses=10**9)\n"
                   "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
                   "try: model.run(many, record=False)\n"
                   "except KeyboardInterrupt: print('interrupted', model.run([0]).counts['accesses'])")
        done = subprocess.run([sys.executable, "-c", program], env=support.environment(), capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.stdout, done.stderr), ("interrupted 1\n", ""))

    def test_a_module_that_is_not_there(self):
        if not _library:
            self.skipTest("the installed package has its module")
        with tempfile.TemporaryDirectory() as folder:
            program = "try: import orchard.uvm\nexcept ImportError as e: print(e)\nimport orchard"
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                                  env=support.environment(ORCHARD_LIBRARY=f"{folder}/liborchard.so"))
        self.assertRegex(done.stdout, "there is no module _uvm for Python .*; install the package")
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    support.main()
