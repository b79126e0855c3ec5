#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Reads what `orchard top --prometheus` prints of a running program with the parser of Prometheus's Python client, and
compares it with `orchard top --json`.

ORCHARD_PROGRAM names the program. Exit code 77, with a line that says why: skipped."""

import json
import os
import subprocess
import sys
import time
import unittest

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None

PREFIX = "orchard_heap_"
LABELS = {"gpu", "uuid", "pid", "heap"}
ADDED = {"info", "page_age_ns"}  # families that are no fields of the JSON
CAPACITY = 64 << 20
LONGEST_START_S = 60
# Variables ORCHARD_* would be options.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ORCHARD_")}


def top(*words):
    """Returns what `orchard top` prints, or None if it finds no heap."""
    done = subprocess.run([os.environ["ORCHARD_PROGRAM"], "top", *words], capture_output=True, text=True, check=False,
                          env=ENVIRONMENT)
    return done.stdout if done.returncode == 0 else None


def wait_for_allocations(pid):
    """Waits until the heap of a process shows that its kernels have allocated."""
    end = time.monotonic() + LONGEST_START_S
    while time.monotonic() < end:
        text = top("--pid", pid, "--json")
        if text is not None and json.loads(text)["heaps"][0]["allocations"] > 0:
            return
        time.sleep(0.05)
    raise AssertionError(f"no allocations of process {pid} after {LONGEST_START_S} s")


class Prometheus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # More operations than it will come to.
        cls.program = subprocess.Popen([os.environ["ORCHARD_PROGRAM"], "bench", "soak", "--device", "emulated",
                                        "--emulated-workers", "2", "--capacity", str(CAPACITY), "--operations",
                                        "1000000000000", "--live-page"], stdout=subprocess.DEVNULL,
                                       env=ENVIRONMENT)
        cls.addClassCleanup(cls.end)
        cls.pid = str(cls.program.pid)
        wait_for_allocations(cls.pid)
        cls.heap = json.loads(top("--pid", cls.pid, "--json"))["heaps"][0]
        text = top("--pid", cls.pid, "--prometheus")
        cls.families = list(text_string_to_metric_families(text))
        cls.by_name = {f.name.removeprefix(PREFIX): f for f in cls.families}

    @classmethod
    def end(cls):
        cls.program.kill()
        cls.program.wait()
        top("--list")  # removes the page that the process has left

    def test_each_family_is_there_once_with_help(self):
        self.assertEqual(len(self.by_name), len(self.families))
        for family in self.families:
            self.assertTrue(family.name.startswith(PREFIX), family.name)
            self.assertTrue(family.documentation, family.name)
            self.assertTrue(family.samples, family.name)

    def test_names_are_those_of_the_json(self):
        # Fields with an axis have an object, and no sample while all its values are 0.
        fields = {name for name, value in self.heap.items() if not isinstance(value, str)}
        fields -= {"pid", "heap", "statistics_version", "age_ns"}
        empty = {name for name in fields if self.heap[name] == {}}
        found = set(self.by_name) - ADDED
        self.assertLessEqual(found, fields)
        self.assertLessEqual(fields - empty, found)

    def test_types(self):
        """A statistic whose help says "so far" is a counter."""
        histograms = {name for name, value in self.heap.items() if isinstance(value, dict) and "buckets" in value}
        self.assertEqual(histograms, {"queue_depth", "answer_ns", "commit_ns"})
        for name, family in self.by_name.items():
            right = "histogram" if name in histograms else "counter" if "so far" in family.documentation else "gauge"
            self.assertEqual(family.type, right, name)
            endings = {"histogram": {"_bucket", "_sum", "_count"}, "counter": {"_total"}, "gauge": {""}}[family.type]
            self.assertEqual({s.name.removeprefix(family.name) for s in family.samples}, endings, name)

    def test_each_sample_names_its_heap(self):
        seen = set()
        for family in self.families:
            name = family.name.removeprefix(PREFIX)
            further = {"class"} if name.startswith("class_") else {"reason"} if name.startswith("failure") else set()
            for sample in family.samples:
                key = (sample.name, *sorted(sample.labels.items()))
                self.assertNotIn(key, seen)
                seen.add(key)
                self.assertEqual(sample.labels["gpu"], "emulated")
                self.assertEqual(sample.labels["uuid"], "")
                self.assertEqual(sample.labels["pid"], self.pid)
                self.assertEqual(sample.labels["heap"], str(self.heap["heap"]))
                if name != "info":
                    bucket = {"le"} if sample.name.endswith("_bucket") else set()
                    self.assertEqual(set(sample.labels), LABELS | further | bucket, sample.name)
                if further == {"class"}:
                    self.assertGreater(int(sample.labels["class"]), 0)

    def test_info_has_the_texts(self):
        (sample,) = self.by_name["info"].samples
        self.assertEqual(sample.value, 1)
        self.assertEqual(sample.labels["statistics_version"], str(self.heap["statistics_version"]))
        for text in ("program", "device", "backing"):
            self.assertEqual(sample.labels[text], self.heap[text])

    def test_values(self):
        value = {name: family.samples[0].value for name, family in self.by_name.items()}
        self.assertEqual(value["capacity_bytes"], CAPACITY)
        self.assertEqual(value["started_ns"], self.heap["started_ns"])
        # The numbers are a little newer than those of the JSON.
        for name in ("allocations", "grants", "peak_committed_bytes"):
            self.assertGreaterEqual(value[name], self.heap[name])
        self.assertGreater(value["allocations"], 0)
        self.assertGreater(value["committed_bytes"], 0)
        self.assertGreater(sum(s.value for s in self.by_name["class_allocations"].samples), 0)

    def test_buckets_of_histograms_add_up(self):
        for name in ("queue_depth", "answer_ns", "commit_ns"):
            family = self.by_name[name]
            buckets = [(float(s.labels["le"]), s.value) for s in family.samples if s.name.endswith("_bucket")]
            self.assertEqual(buckets, sorted(buckets), "ends and sums both grow")
            self.assertEqual(buckets[-1][0], float("inf"))
            (count,) = (s.value for s in family.samples if s.name.endswith("_count"))
            self.assertEqual(buckets[-1][1], count)


if __name__ == "__main__":
    for is_there, what in (
        (text_string_to_metric_families is not None, "prometheus_client (python3-prometheus-client) is not installed"),
        ("ORCHARD_PROGRAM" in os.environ, "ORCHARD_PROGRAM does not name the program"),
    ):
        if not is_there:
            print(f"skipped: {what}")
            sys.exit(77)
    unittest.main()
