#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""cuda.core: a templated kernel in which each thread makes an array, fills it, sums it up and frees it.

Prints one line if all results are right. Needs a GPU, cuda.core, numpy."""

import ctypes

import numpy

try:
    from cuda.core import Device, LaunchConfig, launch
except ImportError:  # before 0.5
    from cuda.core.experimental import Device, LaunchConfig, launch

import orchard
import orchard.cuda_core

SOURCE = r"""
template <class T>
__global__ void sum_arrays(T* sums, int threads) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= threads) {
        return;
    }
    int length = 1 + i % 100;
    T* values = static_cast<T*>(orchard_malloc(length * sizeof(T)));
    T sum = -1;
    if (values != nullptr) {
        for (int k = 0; k < length; ++k) {
            values[k] = k;
        }
        sum = 0;
        for (int k = 0; k < length; ++k) {
            sum += values[k];
        }
        orchard_free(values);
    }
    sums[i] = sum;
}
"""


def main():
    threads = 10_000
    device = Device()
    device.set_current()
    stream = device.create_stream()
    with orchard.Heap() as heap:
        module = orchard.cuda_core.compile(SOURCE, heap=heap, name_expressions=("sum_arrays<double>",))
        kernel = module.get_kernel("sum_arrays<double>")
        sums = heap.allocate(8 * threads)  # the host's blocks are device memory, too
        launch(stream, LaunchConfig(grid=(threads + 127) // 128, block=128), kernel, sums, ctypes.c_int(threads))
        stream.sync()
        found = copy_to_host(sums, threads)
        heap.free(sums)
        length = 1 + numpy.arange(threads) % 100
        assert (found == length * (length - 1) / 2).all(), found
        print(f"{threads} arrays, {heap.stats()['allocations']} blocks so far")


def copy_to_host(address, count):
    """Returns `count` doubles from a device address."""
    try:
        from cuda.bindings import driver
    except ImportError:
        from cuda import cuda as driver
    values = numpy.zeros(count)
    error, = driver.cuMemcpyDtoH(values.ctypes.data, address, values.nbytes)
    assert int(error) == 0, error
    return values


if __name__ == "__main__":
    main()
