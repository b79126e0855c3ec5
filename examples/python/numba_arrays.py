#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Numba: arrays that a kernel creates with numpy.empty come from Orchard, in a kernel that does not know of it.

Prints one line if all results are right. Needs a GPU, numba-cuda 0.30 or later, numpy."""

import numpy
from numba import cuda

import orchard
import orchard.numba


@cuda.jit
def sum_of_squares(results, size):
    i = cuda.grid(1)
    if i < results.size:
        values = numpy.empty(size, numpy.int64)
        for k in range(size):
            values[k] = (i + k) * (i + k)
        total = 0
        for k in range(size):
            total += values[k]
        results[i] = total


def main():
    orchard.numba.replace_runtime_allocator()
    threads, size = 2048, 20
    with orchard.Heap() as heap:
        orchard.numba.use(heap)
        before = heap.stats()["allocations"]
        results = cuda.to_device(numpy.zeros(threads, numpy.int64))
        sum_of_squares[threads // 128, 128](results, size)
        found = results.copy_to_host()
        expected = [sum((i + k) ** 2 for k in range(size)) for i in range(threads)]
        assert list(found) == expected
        made = heap.stats()["allocations"] - before
        assert made >= threads, made
        print(f"{threads} arrays by numpy.empty, {made} blocks of Orchard's")


if __name__ == "__main__":
    main()
