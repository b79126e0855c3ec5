#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""A study with the model of the UVM driver: a matrix in managed memory is summed by rows and by columns, while the GPU's
memory holds all of it, or less.

Prints a table, and what one run did over time. Needs numpy, and no GPU."""

import numpy

from orchard import uvm

ROWS, COLUMNS = 2048, 4096  # of 8 bytes: 64 MiB
LANES, WARPS = 32, 64


def elements(by):
    """Returns which element each lane reads in each step, int64 of shape (warps, steps, lanes). By "rows" a warp sums 32
    rows, one after another, and its lanes are neighbours in a row; by "columns" each lane sums columns of its own, and a
    warp goes down 32 columns at a time."""
    index = numpy.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    if by == "rows":
        return index.reshape(WARPS, -1, LANES)
    return index.reshape(ROWS, WARPS, -1, LANES).transpose(1, 2, 0, 3).reshape(WARPS, -1, LANES)


def run(by, share):
    """Returns the run of the kernel with GPU memory for `share` of the matrix."""
    size = ROWS * COLUMNS * 8
    model = uvm.Model(size, capacity=int(size * share) // uvm.BLOCK * uvm.BLOCK, machine="h200")
    model.populate()  # the CPU has written the matrix
    return model.run(elements(by), unit=8)


def main():
    print(f"{'by':8} {'memory':>6} {'ms':>8} {'faults':>8} {'batches':>8} {'MB in':>8} {'MB out':>8} {'evictions':>9}")
    runs = {}
    for by in ("rows", "columns"):
        for share in (1, 0.75, 0.5, 0.25):
            r = runs[by, share] = run(by, share)
            print(f"{by:8} {share:6.0%} {r.seconds * 1e3:8.2f} {r.counts['raw_faults']:8} {r.counts['batches']:8} "
                  f"{r.counts['bytes_in'] / 1e6:8.1f} {r.counts['bytes_out'] / 1e6:8.1f} {r.counts['evictions']:9}")

    chosen = runs["columns", 0.5]
    times, pages = chosen.resident_pages()
    full = times[numpy.argmax(pages == pages.max())]
    print(f"\ncolumns, 50%: {pages.max()} pages on the GPU after {full / 1e6:.2f} ms; "
          f"{len(chosen.evictions)} chunks evicted from then on; ", end="")
    moved = chosen.migrations[chosen.migrations["kind"] != uvm.Migration.WRITTEN_BACK]
    blocks = numpy.bincount((moved["page"] // 512).astype(int), weights=moved["pages"])
    print(f"the busiest VA block, {blocks.argmax()}, came {blocks.max() / 512:.1f} times")


if __name__ == "__main__":
    main()
