#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Tests of what profiling/report makes of the rows of `orchard bench pages`, `utilisation`, `soak` and `access`:
summaries, plots (their data; no matplotlib needed), and the descriptions that the results are made with."""

import contextlib
import copy
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "profiling" / "report"))

import make_result  # noqa: E402
import markdown  # noqa: E402
import plot_results  # noqa: E402
import results  # noqa: E402
import summarise_pages  # noqa: E402


def repeated(*what, unit="us"):
    """The columns of what was repeated less than ten times: there is no tenth."""
    return {f"{name}{which}_{unit}": value for name in what
            for which, value in (("first", 9.0), ("third", 3.0), ("tenth", None), ("settled", 1.0))}


def fixed(size, threads, malloc, floor, free=2.0, floor_free=1.0, empty=1.0):
    return {"what": "fixed", "bytes": size, "threads": threads, "malloc_us": malloc, "floor_malloc_us": floor,
            "free_us": free, "floor_free_us": floor_free, "empty_us": empty, "cold_us": 9.0,
            **repeated("malloc_", "floor_malloc_", "free_", "floor_free_", "empty_")}


def several(what, size, size_to, threads, malloc):
    return {"what": what, "bytes": size, "bytes_to": size_to, "threads": threads, "malloc_us": malloc, "free_us": 1.0,
            **repeated("malloc_", "free_")}


PAGES = [
    fixed(16, 100_000, 4.0, 2.0), fixed(64, 100_000, 2.0, 2.0), fixed(16, 1_000_000, 9.0, 10.0),
    fixed(64, 1_000_000, 40.0, 10.0),
    several("mixed", 16, 512, 1_000_000, 40.0), several("mixed", 16, 8192, 100_000, 19.0),
    several("full warps", 64, 64, 100_000, 5.0), several("one lane", 64, 64, 100_000, 15.0),
    several("each its class", 64, 64, 100_000, 320.0),
    {**several("churn", 64, 64, 270_336, 1.0), "pairs_per_us": 21_500.0},
    {**several("churn", 16, 256, 270_336, 1.0), "pairs_per_us": 12_500.0},
    {**several("churn", 256, 4096, 270_336, 1.0), "pairs_per_us": 7_500.0},
    {**several("nearly full", 64, 64, 5000, 10.0), "free_percent": 50},
    {**several("nearly full", 64, 64, 5000, 25.0), "free_percent": 1},
    {**several("nearly full", 64, 64, 5000, 60.0), "free_percent": 0.5},
]

UTILISATION = [
    {"what": "one size", "bytes": 32, "percent": 98.0, "reachable_percent": 99.0},
    {"what": "one size", "bytes": 16, "percent": 97.5, "reachable_percent": 99.0},
    {"what": "class sizes", "sizes": 2, "average_percent": 97.8, "reachable_average_percent": 99.0,
     "worst_percent": 97.5, "worst_at_bytes": 16, "reachable_worst_percent": 99.0},
    {"what": "all sizes", "sizes": 2, "average_percent": 91.0, "reachable_average_percent": 91.7,
     "worst_percent": 79.4, "worst_at_bytes": 4112, "reachable_worst_percent": 79.5},
]

SOAK = [{"what": "soak", "threads": 270_336, "slots_each": 16, "allocations": 10_000_001_000, "frees": 10_000_001_000,
         "nulls": 0, "mismatches": 0, "handed_over": 1000, "mean_bytes": 1500.5, "seconds": 9.0, "kernel_seconds": 8.0,
         "launches": 50, "longest_launch_ms": 250.0, "pairs_per_us": 1250.0, "first_tenth_pairs_per_us": 1000.0,
         "last_tenth_pairs_per_us": 990.0, "last_to_first": 0.99, "left_in_use": 0, "failed_allocations": 0,
         "invalid_frees": 0, "abandoned": 0, "peak_segments_granted": 4000}]


SIZES = [{"layout": layout, "bytes_from": size, "bytes_to": 2 * size, "threads": 16_384, "cold_us": cold,
          "recycled_us": 10.0, "free_us": 4.0, "held_over_asked": held, "host_requests": 512, "recycled_host_requests": 0,
          "nulls": 0, "wrong_stamps": 0, **repeated("cold_", "recycled_", "free_")}
         for layout, size, cold, held in [("linear", 8192, 32.0, 0), ("linear", 4096, 31.0, 0),
                                          ("interleaved:4", 8192, 32.0, 1.3), ("interleaved:4", 4096, 31.0, 1.3),
                                          *(("interleaved:64K", 4096 << n, 30.0, 1.2) for n in range(10))]]

SCALING = [{"layout": "linear", "bytes": 1024, "threads": threads, "allocate_us": threads / 128, "free_us": 2.0,
            "requests_per_us": 128.0, "nulls": 0, "wrong_stamps": 0, **repeated("allocate_", "free_")}
           for threads in (256, 128)]

ITERATIONS = [{"layout": "linear", "mode": mode, "threads": 16_384, "others": 0, "iterations": 1000,
               "allocate_us": 20.0, "free_us": 5.0, "iteration_us": 25.0, "first_us": 25.0, "last_us": last,
               "last_over_first": last / 25, "nulls": 0, "wrong_stamps": 0,
               **repeated("allocate_", "free_", "iteration_")}
              for mode, last in (("all freed", 25.0), ("all freed, 2 to 4 KB", 25.0))]

FRAGMENTATION = [{"mode": "lanes alone", "chunk_lanes": 32, "blocks": 4096, "iterations": 1000,
                  "capacity_bytes": 1 << 34,
                  "live_share": 0.8, "held_over_live": 1.01, "free_bytes": 3 << 30, "largest_bytes": 1 << 30,
                  "largest_share": 0.33, "nulls": 0}]


def access_rows():
    """What `orchard bench access` writes: a row for each way, all as good as the targets ask for."""
    rows = []
    for layout in ("linear", "4 B tile", "16 B tile"):
        by_hand = "raw pointer" if layout == "linear" else "by hand"
        for pattern in ("sequential read", "sequential write", "strided read", "random read"):
            for by in ("lane_array", "lane_ptr", by_hand):
                rows.append({"pattern": pattern, "layout": layout, "element_bytes": 4, "by": by, "threads": 270_336,
                             "us": 300.0, "gb_per_s": 3700.0, "share_of_hand": 0.97, "wrong": 0, **repeated("")})
        for by in ("lane_array", "raw pointer"):
            rows.append({"pattern": "dependent reads", "layout": layout, "element_bytes": 4, "by": by, "threads": 1,
                         "ns_per_100": 2500.0, "over_raw_ns": 0.0, "wrong": 0, **repeated("per_100_", unit="ns")})
    # Unequal lanes have no arithmetic by hand, and no targets.
    for layout in ("linear", "64 KiB tile"):
        rows.append({"pattern": "sequential read, unequal lanes", "layout": layout, "element_bytes": 4,
                     "by": "lane_array", "threads": 16_896, "us": 900.0, "gb_per_s": 1200.0, "share_of_linear": 0.5,
                     "wrong": 0})
    for row in rows:
        row["array_bytes"] = 131_072 if "unequal" in row["pattern"] else 4096
    # Larger elements have no targets of GB/s: they move more.
    rows.append({"pattern": "sequential read", "layout": "16 B tile", "element_bytes": 16, "by": "lane_array",
                 "threads": 270_336, "us": 900.0, "gb_per_s": 1200.0, "share_of_hand": 1.0, "wrong": 0,
                 "array_bytes": 4096})
    return rows


def first_rows():
    """What `orchard bench first` writes on a GPU, all as good as the targets ask for."""
    times = {**repeated("allocate_", "free_"), "allocate_3_to_10_us": 80.0, "free_3_to_10_us": 8.0,
             "first_wall_us": 500.0, "first_less_settled_ms": 0.5, "nulls": 0, "wrong_stamps": 0}
    rows = [{"what": "loading", "kernel": "frees", "loading_ms": 0.5}]
    for bytes_to in (8192, 512):
        for backing, more in (("elastic", {"of_fixed": 1.05}), ("fixed", {})):
            rows.append({"what": "repetitions", "backing": backing, "threads": 100_000, "bytes": 16,
                         "bytes_to": bytes_to, "heaps": 10, "repetitions": 100, "settled_of": 20, **times,
                         "committed_mib": 256.0, "segments_in_use": 12.0, **more})
    lists = {"backing": "elastic", "threads": 65_536, "heaps": 3}
    rows.append({"what": "divergent lists", **lists, "repetitions": 60, "settled_of": 20, **times})
    rows.append({"what": "divergent lists: memory", **lists, "round": 60,
                 "live_mib": 1600.0, "held_mib": 1700.0, "committed_mib": 2000.0, "held_of_live": 1.0625,
                 "committed_of_live": 1.25, "allocate_us": 900.0, "free_us": 300.0})
    rows.append({"what": "a kernel is loaded beside one that allocates", "stream": "another", "loading": "lazy",
                 "backing": "elastic", "threads": 256, "bytes": 64, "bytes_to": 64, "second_launch_ms": 0.1,
                 "answered_ms": 0.3, "answered_before_second_launch": False, "kernel_ms": 0.5, "nulls": 0})
    return rows


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def put(self, document, name="raw.json"):
        path = self.folder / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def run_main(self, main, *arguments, **more):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(a) for a in arguments], **more)
        return code, out.getvalue(), err.getvalue()


class Summaries(Case):
    def values(self, rows, registers=()):
        return {row["of"]: row["value"] for row in summarise_pages.summarised(rows, registers)
                if row["what"] == "summary"}

    def test_ratios_are_beside_the_floor_with_and_without_an_empty_kernel(self):
        self.assertEqual(summarise_pages.ratios(fixed(16, 1, malloc=5.0, floor=3.0, free=4.0, floor_free=2.0)),
                         {"malloc_to_floor": 5 / 3, "free_to_floor": 2.0, "malloc_to_floor_net": 2.0})
        self.assertEqual(summarise_pages.ratios(PAGES[4]), {})

    def test_there_is_no_net_ratio_where_the_floor_costs_nothing(self):
        self.assertNotIn("malloc_to_floor_net", summarise_pages.ratios(fixed(16, 1, 5.0, 1.0, empty=1.0)))

    def test_means_and_worst(self):
        values = self.values(PAGES)
        self.assertAlmostEqual(values["malloc to floor, geometric mean"], (2 * 1 * 0.9 * 4) ** 0.25)
        self.assertEqual(values["malloc to floor, worst"], 4)
        self.assertAlmostEqual(values["malloc to floor with 1 M threads, geometric mean"], (0.9 * 4) ** 0.5)
        self.assertEqual(values["malloc to floor with 1 M threads, worst"], 4)
        self.assertAlmostEqual(values["malloc to floor, less an empty kernel, geometric mean"],
                               (3 / 1 * 1 / 1 * 8 / 9 * 39 / 9) ** 0.25)
        self.assertAlmostEqual(values["free to floor, geometric mean"], 2.0)

    def test_groups_are_counted_by_classes(self):
        # One lane: one group a warp, three times as slow. Each its class: 32 groups a warp, twice as slow.
        self.assertAlmostEqual(self.values(PAGES)["partial warps to full warps, time a group, worst"], 3.0)
        rows = copy.deepcopy(PAGES)
        rows[8]["malloc_us"] = 800.0
        self.assertAlmostEqual(self.values(rows)["partial warps to full warps, time a group, worst"], 5.0)

    def test_nearly_full_is_beside_half_full(self):
        values = self.values(PAGES)
        self.assertEqual(values["nearly full: 1 % free to 50 % free"], 2.5)
        self.assertEqual(values["nearly full: 0.5 % free to 50 % free"], 6.0)

    def test_what_was_not_measured_is_left_out(self):
        values = self.values([PAGES[4]], [("malloc", 48)])
        self.assertEqual(values, {"registers of malloc": 48})

    def test_summarising_twice_changes_nothing(self):
        once = summarise_pages.summarised(PAGES)
        self.assertEqual(summarise_pages.summarised(once), once)

    def test_rows_may_stand_in_a_document(self):
        made = [self.run_main(summarise_pages.main, self.put(raw)) for raw in (PAGES, {"commit": "0123abc", "rows": PAGES})]
        self.assertEqual(made[0], made[1])
        self.assertEqual(made[0][0], 0)

    def test_bad_input_is_refused(self):
        for raw, word in (("{", "Expecting"), ("[]", "rows"), ('[{"what": "fixed"}]', "lacks a time")):
            code, out, err = self.run_main(summarise_pages.main, self.put(raw), "-o", self.folder / "out.json")
            self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
            self.assertIn(word, err)
            self.assertFalse((self.folder / "out.json").exists())
        code, _, err = self.run_main(summarise_pages.main, self.put(PAGES), "--registers", "malloc")
        self.assertEqual(code, 2)
        self.assertIn("KERNEL=NUMBER", err)


class Descriptions(Case):
    """The committed descriptions fit the rows that the programs write."""

    def result(self, name, rows):
        made = self.folder / f"{name}.json"
        arguments = (self.put(rows), "--name", name, "--describe", ROOT / f"profiling/report/describe/{name}.json",
                     "--commit", "0123abc", "--date", "2026-11-21", "--command", "x", "--machine", "gpu=Some GPU")
        self.assertEqual(self.run_main(make_result.main, *arguments, "-o", made), (0, "", ""))
        return results.load(made)

    def outcomes(self, result):
        return {t["what"]: markdown.judge(result, t)[2].split(" ")[0] for t in result["targets"]}

    def test_pages(self):
        rows = summarise_pages.summarised(PAGES, [("malloc", 48), ("free", 29)])
        outcomes = self.outcomes(self.result("pages", rows))
        self.assertEqual(len(outcomes), 15)
        self.assertEqual(outcomes["churn at 64 B"], "met")
        self.assertEqual(outcomes["registers of a kernel that allocates"], "met")
        for missed in ("malloc of fixed sizes to the floor, each", "5,000 threads with 0.5 % free, to 50 % free",
                       "registers of a kernel that frees"):
            self.assertNotEqual(outcomes[missed], "met", missed)

    def test_first(self):
        result = self.result("first", first_rows())
        self.assertEqual(set(self.outcomes(result).values()), {"met"})
        page = markdown.page([result])
        # A table for each kind of row, with the columns that it has.
        self.assertIn("*loading*\n\n| Kernel | Loading (ms) |\n|---|---:|\n| frees | 0.50 |\n", page)
        self.assertIn("| Backing | Threads | Bytes | to | Stream | Loading |", page)
        worse = first_rows()
        worse[1]["of_fixed"] = 3.4
        worse[3]["first_less_settled_ms"] = 13.0
        worse[-1]["nulls"] = 256
        self.assertEqual(list(self.outcomes(self.result("first", worse)).values()).count("met"), 5)

    def test_each_says_which_repetition_is_shown(self):
        for path in sorted((ROOT / "profiling/report/describe").glob("*.json")):
            self.assertTrue(json.loads(path.read_text()).get("shown"), path.name)

    def test_times_that_are_medians_are_said_to_be_so(self):
        for path in sorted((ROOT / "profiling/report/describe").glob("*.json")):
            columns = {c["key"]: c["title"] for c in json.loads(path.read_text())["columns"]}
            for key, title in columns.items():
                for end, word in (("first", "first"), ("third", "3rd"), ("tenth", "10th"), ("settled", "settled")):
                    if (path.stem, key) == ("iterations", "first_us"):
                        continue  # older than the repetitions: a mean of a hundred
                    if key.endswith((f"{end}_us", f"{end}_ms", f"{end}_ns")):
                        self.assertIn(word, title, f"{path.name}: {key}")
                        base = key.replace(f"{end}_", "")
                        if base in columns and path.stem != "first":
                            self.assertRegex(columns[base], "median|mean|first", f"{path.name}: {base}")

    def test_utilisation_hides_single_sizes(self):
        result = self.result("utilisation", UTILISATION)
        self.assertEqual(list(self.outcomes(result).values()), ["met", "met", "**missed"])
        page = markdown.page([result])
        self.assertIn("| all sizes | 2 | 91.00 |", page)
        self.assertNotIn("one size", page)

    def test_soak(self):
        self.assertEqual(set(self.outcomes(self.result("soak", SOAK)).values()), {"met"})
        worse = copy.deepcopy(SOAK)
        worse[0].update(mismatches=1, last_to_first=0.5)
        self.assertEqual(list(self.outcomes(self.result("soak", worse)).values()).count("met"), 3)

    def test_access(self):
        self.assertEqual(set(self.outcomes(self.result("access", access_rows())).values()), {"met"})
        worse = access_rows()
        for row in worse:
            if row["pattern"] == "random read" and row["layout"] == "linear" and row["by"] == "lane_ptr":
                row["share_of_hand"] = 0.9
        worse[-2]["wrong"] = 1
        outcomes = self.outcomes(self.result("access", worse))
        self.assertEqual([what for what, outcome in outcomes.items() if outcome != "met"],
                         ["lane_ptr to by hand: random read", "nothing read or written wrongly"])


    def test_large_requests(self):
        self.assertEqual(set(self.outcomes(self.result("sizes", SIZES)).values()), {"met"})
        worse = copy.deepcopy(SIZES)
        worse[1].update(cold_us=46.0)
        worse[2].update(wrong_stamps=1)
        worse[4].update(held_over_asked=1.6)
        outcomes = self.outcomes(self.result("sizes", worse)).values()
        self.assertEqual(list(outcomes).count("met"), len(outcomes) - 3)
        self.assertEqual(set(self.outcomes(self.result("iterations", ITERATIONS)).values()), {"met"})
        self.assertEqual(set(self.outcomes(self.result("scaling", SCALING)).values()), {"met"})
        self.assertEqual(self.outcomes(self.result("fragmentation", FRAGMENTATION)), {})


class Pyplot:
    """Stands in for matplotlib: takes any call, and writes a file."""

    def subplots(self, *counts, **_):
        return self, ((self, self) if counts else self)

    def savefig(self, path, **_):
        path.write_text("figure")

    def __getattr__(self, name):
        return lambda *_, **__: self


class Plots(Case):
    def test_points_are_in_the_order_of_sizes(self):
        self.assertEqual(plot_results.utilisation_points(UTILISATION),
                         {"bytes": [16, 32], "percent": [97.5, 98.0], "reachable_percent": [99.0, 99.0]})

    def test_ratios_are_grouped_by_threads(self):
        self.assertEqual(plot_results.floor_ratios(list(reversed(PAGES))),
                         {100_000: [(16, 2.0), (64, 1.0)], 1_000_000: [(16, 0.9), (64, 4.0)]})

    def test_bars_are_named_by_their_sizes(self):
        self.assertEqual(plot_results.churn_bars(PAGES),
                         [("64 B", 21.5), ("16 B to 256 B", 12.5), ("256 B to 4 KiB", 7.5)])

    def test_lines_are_sorted_and_named_by_their_layout(self):
        lines = plot_results.lines_of_sizes(SIZES)
        self.assertEqual(len(lines), 6)
        self.assertEqual(lines["linear, from the host"], [(4096, 31.0), (8192, 32.0)])
        self.assertEqual(plot_results.lines_of_scaling(SCALING), {"1 KiB, linear": [(128, 1.0), (256, 2.0)]})

    def test_texts(self):
        self.assertEqual([plot_results.bytes_text(n) for n in (16, 1024, 1040, 8192)], ["16 B", "1 KiB", "1040 B", "8 KiB"])
        self.assertEqual([plot_results.threads_text(n) for n in (1_000_000, 10_000, 270_336)],
                         ["1 M threads", "10 K threads", "270,336 threads"])

    def test_files_are_written_for_what_there_is(self):
        plots = self.folder / "plots"
        for rows, names in ((PAGES, {"pages.svg"}), ({"rows": UTILISATION}, {"pages.svg", "utilisation.svg"}),
                            (SIZES + SCALING, {"pages.svg", "utilisation.svg", "sizes.svg", "scaling.svg"})):
            code, out, err = self.run_main(plot_results.main, self.put(rows), "--output-dir", plots,
                                           load_pyplot=Pyplot)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual({path.name for path in plots.iterdir()}, names)

    def test_without_matplotlib_it_says_what_to_install(self):
        def missing():
            raise ImportError("No module named 'matplotlib'")

        code, out, err = self.run_main(plot_results.main, self.put(PAGES), "--output-dir", self.folder / "plots",
                                       load_pyplot=missing)
        self.assertEqual((code, out, err.count("\n")), (1, "", 1))
        self.assertIn("python3-matplotlib", err)
        self.assertFalse((self.folder / "plots").exists())

    def test_what_is_named_to_install_is_in_the_list_of_packages(self):
        lines = (ROOT / "cmake/packages.txt").read_text().splitlines()
        self.assertIn(["plots", plot_results.INSTALL.split()[-1]], [line.split()[:2] for line in lines])

    def test_inputs_that_hold_nothing_to_draw(self):
        for raw, word in (("{", "not JSON"), ("3", "no rows"), ([{"what": "soak"}], "hold no rows")):
            code, out, err = self.run_main(plot_results.main, self.put(raw), load_pyplot=Pyplot)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
            self.assertIn(word, err)


if __name__ == "__main__":
    unittest.main()
