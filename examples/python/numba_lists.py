#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Numba: each thread makes a list of its own length, doubles it as it fills up, and frees it.

Prints one line if all results are right. Needs a GPU, numba-cuda, numpy."""

import numpy
from numba import cuda

import orchard
from orchard.numba import array, free, malloc, realloc, use

NONE = numpy.uint64(0)


@cuda.jit
def collect_divisors(sums, failures):
    """Thread i lists the divisors of i + 1; `sums[i]` becomes the sum of the list."""
    i = cuda.grid(1)
    if i >= sums.size:
        return
    number = i + 1
    room = 2
    length = 0
    block = malloc(4 * room)
    for candidate in range(1, number + 1):
        if number % candidate == 0 and block != NONE:
            if length == room:
                room *= 2
                larger = realloc(block, 4 * room)
                if larger == NONE:
                    free(block)
                block = larger
            if block != NONE:
                array(block, room, numpy.int32)[length] = candidate
                length += 1
    if block == NONE:
        cuda.atomic.add(failures, 0, 1)
        return
    divisors = array(block, length, numpy.int32)
    total = 0
    for k in range(length):
        total += divisors[k]
    sums[i] = total
    free(block)


def main():
    threads = 4096
    with orchard.Heap() as heap:  # grows as the kernel asks; nothing is sized before
        use(heap)
        sums = cuda.to_device(numpy.zeros(threads, numpy.int64))
        failures = cuda.to_device(numpy.zeros(1, numpy.int32))
        collect_divisors[(threads + 127) // 128, 128](sums, failures)
        found = sums.copy_to_host()
        if failures.copy_to_host()[0] != 0:
            raise SystemExit("a request was answered with null")
        for number in (1, 6, 28, 4096):
            expected = sum(d for d in range(1, number + 1) if number % d == 0)
            assert found[number - 1] == expected, (number, found[number - 1], expected)
        stats = heap.stats()
        print(f"{threads} lists, {stats['allocations']} blocks so far, {stats['pages_in_use']} pages in use")


if __name__ == "__main__":
    main()
