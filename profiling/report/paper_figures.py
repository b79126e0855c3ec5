#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Makes what docs/uvm_paper.md shows beside the figures of AlignMalloc: data, tables and pictures.

    profiling/report/paper_figures.py --orchard build/release/orchard    # runs the grids, then as without it
    profiling/report/paper_figures.py                                    # tables and pictures from the stored data

The grids are runs of `orchard uvm`, one a cell; their counts go to profiling/results/paper/*.json, a line a run, with
all that its command needs. The tables stand in the page between `<!-- table NAME -->` and `<!-- end -->` and are
replaced there; the pictures are docs/pictures/paper_fig*.svg. Running the grids takes a few minutes of one core.
The same program and the same version of matplotlib (package python3-matplotlib) write the same bytes again.

Exit codes: 0 done; 1 matplotlib is not installed, the rest is done; 2 it cannot be done: one line on standard error.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the checkout stays as it is

import misshapen
import paper_pictures
import paper_tables
import paper_theorems

ROOT = Path(__file__).resolve().parents[2]
KIB, MIB, BLOCK = 1 << 10, 1 << 20, 2 << 20
INSTALL = "sudo apt-get install python3-matplotlib"

# What stands for what: layout and placement.
WAYS = {
    "linear": ("linear", "packed"),                          # SyncMalloc's, and other allocators'
    "tiles": ("interleaved:64KiB", "padded"),                # AlignMalloc's
    "ordered": ("interleaved:64KiB:prefetch_first", "padded"),  # with its lane order
    "unpadded": ("interleaved:64KiB", "packed"),             # without its padding
    "small tiles": ("interleaved:4KiB", "packed"),           # Orchard's own, not in the paper
}
DEFAULTS = {"pattern": "random", "way": "linear", "machine": "titan_v", "threads": 1024, "bytes_per_thread": 256 * KIB,
            "accesses": 100, "element": 4, "scale": 1, "capacity": "unlimited"}
COUNTS = ("capacity_bytes", "seconds", "faults", "batches", "block_services", "bytes_in", "bytes_out",
          "useful_page_share", "useful_big_page_share", "prefetched_pages", "prefetched_used_pages", "touched_blocks",
          "peak_active_blocks", "evictions")

ALIKE = ("random", "same-index")  # lanes independent; lanes in step
WALK_SCALES = [1, 2, 4, 8, 16, 32, 64, 128]
PADDINGS = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
RANGES = [512 << i for i in range(13)]
LARGE_RANGES = [64 * KIB << i for i in range(9)]
PADDED_RANGES = [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 80 * KIB, 96 * KIB, 128 * KIB]
DEPTHS = [20, 60, 100, 180, 260, 340, 420]
APPLICATIONS = {"gemm": 512, "stencil": 128, "k-means": 256, "bfs": 128, "spmv": 64, "b-plus-tree": 1024,
                "alexnet": 128, "gcn": 256}  # scales
STREAMS = ("sequential", "strided", "growth", "random")
SHARES = ("unlimited", "75%", "37.5%")


class Unusable(Exception):
    """What is needed cannot be had; the message says why."""


def cell(**given):
    return {**DEFAULTS, **given}


def grids():
    """{name: cells}. Of applications only those with unlimited memory: the others' capacities follow from them."""
    return {
        "walk": [cell(pattern=pattern, way=way, machine=machine, threads=1000, bytes_per_thread=8 * KIB * scale,
                      element=64) for machine in ("titan_v", "h200") for pattern in ("graph-walk", "same-index")
                 for way in ("linear", "tiles", "small tiles") for scale in WALK_SCALES],
        "sparsity": [cell(threads=1000, bytes_per_thread=512 * padding, accesses=50, element=padding)
                     for padding in PADDINGS],
        "batches": [cell(pattern="strided", machine=f"titan_v, utlb_faults={faults}", threads=32,
                         bytes_per_thread=512 * KIB, accesses=2) for faults in (14, 56)],
        "range": [cell(pattern=pattern, way=way, bytes_per_thread=size) for pattern in ALIKE
                  for way in ("linear", "tiles", "small tiles") for size in RANGES],
        "large": [cell(pattern=pattern, way=way, threads=128, bytes_per_thread=size) for pattern in ALIKE
                  for way in ("linear", "tiles", "ordered") for size in LARGE_RANGES] +
                 [cell(pattern="same-index", way=way, threads=128, bytes_per_thread=size,
                       machine="titan_v, utlb_faults=14") for way in ("tiles", "ordered") for size in LARGE_RANGES],
        "padding": [cell(way=way, threads=128, bytes_per_thread=size) for way in ("unpadded", "tiles")
                    for size in PADDED_RANGES],
        "oversubscribed": [cell(pattern=pattern, way=way, threads=256, bytes_per_thread=120 * MIB, accesses=depth,
                                capacity="24GiB") for pattern in ALIKE for way in ("linear", "tiles", "small tiles")
                           for depth in DEPTHS],
        "streams": [cell(pattern=pattern, way=way, bytes_per_thread=4 * MIB, accesses=1024, element=4096,
                         capacity=share) for pattern in STREAMS for way in ("linear", "tiles") for share in SHARES],
        "applications": [cell(pattern=name, way=way, threads=32, scale=scale) for name, scale in APPLICATIONS.items()
                         for way in ("linear", "tiles")],
    }


def words_of(of, program="orchard"):
    """The command of a cell."""
    layout, placement = WAYS[of["way"]]
    capacity = f"{of['capacity_bytes']}" if of.get("capacity_bytes") and "%" in of["capacity"] else of["capacity"]
    return [program, "uvm", "--pattern", of["pattern"], "--layout", layout, "--placement", placement,
            "--machine", of["machine"], "--threads", str(of["threads"]), "--bytes-per-thread",
            str(of["bytes_per_thread"]), "--accesses", str(of["accesses"]), "--element", str(of["element"]),
            "--scale", str(of["scale"]), "--capacity", capacity]


def run(program, of):
    """A row: the cell and its counts. Raises Unusable."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out.json"
        words = [*words_of(of, program), "--quiet", "--json", str(path)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError as error:
            raise Unusable(f"{program}: {error.strerror}") from None
        if done.returncode != 0:
            raise Unusable(f"{' '.join(words_of(of))}: {done.stderr.strip() or done.returncode}")
        found = json.loads(path.read_text(encoding="utf-8"))["rows"][0]
    return {**of, **{key: found[key] for key in COUNTS}}


def run_applications(program, cells):
    """With capacities that are shares of the VA blocks which the linear layout touches: the same for all layouts."""
    rows, blocks = [], {}
    for of in cells:
        rows.append(run(program, of))
        blocks.setdefault(of["pattern"], rows[-1]["touched_blocks"])
        for share in SHARES[1:]:
            chunks = max(2, int(blocks[of["pattern"]] * float(share[:-1]) / 100))
            rows.append(run(program, {**of, "capacity": share, "capacity_bytes": chunks * BLOCK}))
    return rows


def measure(program, folder):
    """Runs all grids and stores them. Raises Unusable."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, cells in grids().items():
        rows = (run_applications(program, cells) if name == "applications" else [run(program, of) for of in cells])
        write_rows(folder / f"{name}.json", rows)
        print(folder / f"{name}.json")
    theorems = json.dumps(paper_theorems.report(), indent=1, sort_keys=True)
    (folder / "theorems.json").write_text(theorems + "\n", encoding="utf-8")


def write_rows(path, rows):
    columns = [*DEFAULTS, *COUNTS]
    lines = ",\n  ".join(json.dumps([row[key] for key in columns]) for row in rows)
    path.write_text(f'{{"columns": {json.dumps(columns)},\n "rows": [\n  {lines}\n]}}\n', encoding="utf-8")


def stored(folder=ROOT / "profiling/results/paper"):
    """{grid: rows} and "theorems", as they are stored. Raises Unusable."""
    data = {}
    try:
        for name in grids():
            document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
            data[name] = [dict(zip(document["columns"], row)) for row in document["rows"]]
        data["theorems"] = json.loads((folder / "theorems.json").read_text(encoding="utf-8"))
        measured = {name: json.loads((ROOT / f"profiling/results/{name}.json").read_text(encoding="utf-8"))["rows"]
                    for name in ("access", "ranges", "sizes", "iterations", "scaling")}
        data["access"] = [row for row in measured.pop("access") if row["pattern"] == "dependent reads"]
        data.update({f"h200_{name}": rows for name, rows in measured.items()})
    except OSError as error:
        raise Unusable(f"{error.filename}: {error.strerror}; --orchard makes it") from None
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{folder}: {error!r}; --orchard makes it anew") from None
    return data


def put_tables(page, tables):
    """The page with its tables replaced. Raises Unusable where one has no place."""
    for name, text in tables.items():
        head, found, rest = page.partition(f"<!-- table {name} -->\n")
        _, ended, tail = rest.partition("<!-- end -->")
        if not found or not ended:
            raise Unusable(f"the page has no place for the table {name}")
        page = f"{head}{found}{text}{ended}{tail}"
    return page


def main(arguments=None, load_pyplot=None):
    parser = argparse.ArgumentParser(description="Make the data, tables and pictures of docs/uvm_paper.md.")
    parser.add_argument("--orchard", metavar="BINARY", help="run the grids with this program first")
    parser.add_argument("--data", type=Path, default=ROOT / "profiling/results/paper", metavar="FOLDER")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/uvm_paper.md", metavar="FILE")
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs/pictures", metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        if options.orchard:
            measure(options.orchard, options.data)
        data = stored(options.data)
        page = options.page.read_text(encoding="utf-8")
        options.page.write_bytes(put_tables(page, paper_tables.tables(data)).encode("utf-8"))
    except (Unusable, paper_tables.Missing) as error:
        print(f"paper_figures.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"paper_figures.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except misshapen.ERRORS as error:
        print(f"paper_figures.py: {options.data}: {misshapen.why(error)}; --orchard makes it anew", file=sys.stderr)
        return 2
    try:
        pyplot = (load_pyplot or paper_pictures.pyplot)()
    except ImportError as error:
        print(f"paper_figures.py: {error}; matplotlib draws: {INSTALL}", file=sys.stderr)
        return 1
    for path in paper_pictures.draw_all(pyplot, data, options.pictures):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
