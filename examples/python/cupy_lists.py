#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""CuPy: two raw kernels; the first makes a list for each thread, the second reads and frees them.

Prints one line if all results are right. Needs a GPU, CuPy."""

import cupy

import orchard
from orchard.cupy import RawModule

SOURCE = r"""
struct list {
    int length;
    int values[1];
};

extern "C" __global__ void make_lists(list** lists, int threads) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= threads) {
        return;
    }
    int length = 4 + i % 61;
    list* mine = static_cast<list*>(orchard_malloc(sizeof(int) * (1 + length)));
    if (mine != nullptr) {
        mine->length = length;
        for (int k = 0; k < length; ++k) {
            mine->values[k] = i + k;
        }
    }
    lists[i] = mine;
}

extern "C" __global__ void sum_lists(list** lists, long long* sums, int threads) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= threads || lists[i] == nullptr) {
        return;
    }
    long long sum = 0;
    for (int k = 0; k < lists[i]->length; ++k) {
        sum += lists[i]->values[k];
    }
    sums[i] = sum;
    orchard_free(lists[i]);
}
"""


def main():
    threads = 100_000
    with orchard.Heap() as heap:
        module = RawModule(SOURCE, heap=heap)
        lists = cupy.zeros(threads, cupy.uint64)
        sums = cupy.zeros(threads, cupy.int64)
        grid, block = ((threads + 255) // 256,), (256,)
        module.get_function("make_lists")(grid, block, (lists, cupy.int32(threads)))
        pages = heap.stats()["pages_in_use"]
        module.get_function("sum_lists")(grid, block, (lists, sums, cupy.int32(threads)))
        i = cupy.arange(threads, dtype=cupy.int64)
        length = 4 + i % 61
        assert bool((lists != 0).all()), "a request was answered with null"
        assert bool((sums == i * length + length * (length - 1) // 2).all())
        print(f"{threads} lists, {pages} pages in use between the kernels, {heap.stats()['pages_in_use']} after them")


if __name__ == "__main__":
    main()
