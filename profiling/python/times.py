#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Times of kernels in Python that allocate: with Orchard, and with the heap of CUDA that CuPy and Numba have otherwise.

usage: profiling/python/times.py [WAY]

Without WAY, runs all ways, each in a process of its own, and prints a table in Markdown: the first, the 3rd, the 10th and
the settled repetition (the median of the last half of 40), in us, by CUDA events. Exit code: 1 if a way failed, or a
result was wrong. Needs a GPU; a way whose packages are missing is said to be missing.

    cupy      65,536 threads: each makes a list of 16 nodes by malloc, adds up their values, and frees them; cupy-ltoir
              with device code that is optimized together with the kernel
    numba-lists   the same lists, by malloc and free of orchard.numba
    numba     65,536 threads: each makes an array of 8 to 71 int64 by numpy.empty, fills it and adds it up; Numba's
              runtime frees it

CUDA's heap gets 1 GiB before the first kernel (cudaLimitMallocHeapSize); with its default of 8 MiB, both give nulls.
"""

import statistics
import subprocess
import sys

THREADS, REPETITIONS = 65_536, 40
CUDA_HEAP = 1 << 30
LIST = r"""
struct node { node* next; long long value; };
extern "C" __global__ void lists(long long* sums) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    node* head = nullptr;
    for (int k = 0; k < 16; ++k) {
        node* made = static_cast<node*>(MALLOC(sizeof(node)));
        if (made == nullptr) { break; }
        made->next = head;
        made->value = i + k;
        head = made;
    }
    long long sum = 0;
    while (head != nullptr) {
        sum += head->value;
        node* next = head->next;
        FREE(head);
        head = next;
    }
    sums[i] = sum;
}
"""


def report(times_us):
    """Prints the four times of a way."""
    settled = statistics.median(times_us[len(times_us) // 2:])
    print(" ".join(f"{t:.0f}" for t in (times_us[0], times_us[2], times_us[9], settled)))


def repeat(new_event, elapsed_ms, launch):
    """Launches REPETITIONS times, and prints the four times of the way."""
    times = []
    for _ in range(REPETITIONS):
        begin, end = new_event(), new_event()
        begin.record()
        launch()
        end.record()
        end.synchronize()
        times.append(elapsed_ms(begin, end) * 1000)
    report(times)


def limit_cuda_heap():
    from cuda.bindings import runtime

    (error,) = runtime.cudaDeviceSetLimit(runtime.cudaLimit.cudaLimitMallocHeapSize, CUDA_HEAP)
    assert error == runtime.cudaError_t.cudaSuccess, error


def cupy_lists(with_orchard, link="fatbin"):
    import cupy

    source = LIST.replace("MALLOC", "orchard_malloc" if with_orchard else "malloc")
    source = source.replace("FREE", "orchard_free" if with_orchard else "free")
    heap = None
    if with_orchard:
        import orchard
        import orchard.cupy

        heap = orchard.Heap()
        kernel = orchard.cupy.RawModule(source, heap=heap, link=link).get_function("lists")
    else:
        limit_cuda_heap()
        kernel = cupy.RawModule(code=source).get_function("lists")
    sums = cupy.zeros(THREADS, cupy.int64)
    repeat(cupy.cuda.Event, cupy.cuda.get_elapsed_time, lambda: kernel((THREADS // 256,), (256,), (sums,)))
    i = cupy.arange(THREADS, dtype=cupy.int64)
    assert bool((sums == 16 * i + 120).all()), "a sum is wrong"


def numba_arrays(with_orchard):
    import numpy
    from numba import config, cuda

    config.CUDA_ENABLE_NRT = True
    if with_orchard:
        import orchard.numba

        orchard.numba.replace_runtime_allocator()
        heap = orchard.Heap()
        orchard.numba.use(heap)
    else:
        cuda.current_context()
        limit_cuda_heap()

    @cuda.jit
    def arrays(sums):
        i = cuda.grid(1)
        size = 8 + i % 64
        values = numpy.empty(size, numpy.int64)
        for k in range(size):
            values[k] = i + k
        total = 0
        for k in range(size):
            total += values[k]
        sums[i] = total

    sums = cuda.to_device(numpy.zeros(THREADS, numpy.int64))
    repeat(cuda.event, cuda.event_elapsed_time, lambda: arrays[THREADS // 256, 256](sums))
    i = numpy.arange(THREADS, dtype=numpy.int64)
    size = 8 + i % 64
    assert (sums.copy_to_host() == size * i + size * (size - 1) // 2).all(), "a sum is wrong"


def numba_lists():
    import numpy
    from numba import cuda

    import orchard
    from orchard.numba import array, free, malloc, use

    @cuda.jit
    def lists(sums):
        i = cuda.grid(1)
        head = numpy.uint64(0)
        for k in range(16):
            made = malloc(16)
            if made == numpy.uint64(0):
                break
            node = array(made, 2, numpy.uint64)
            node[0] = head
            node[1] = i + k
            head = made
        total = 0
        while head != numpy.uint64(0):
            node = array(head, 2, numpy.uint64)
            total += numpy.int64(node[1])
            following = node[0]
            free(head)
            head = following
        sums[i] = total

    heap = orchard.Heap()
    use(heap)
    sums = cuda.to_device(numpy.zeros(THREADS, numpy.int64))
    repeat(cuda.event, cuda.event_elapsed_time, lambda: lists[THREADS // 256, 256](sums))
    i = numpy.arange(THREADS, dtype=numpy.int64)
    assert (sums.copy_to_host() == 16 * i + 120).all(), "a sum is wrong"


WAYS = {"cupy": lambda: cupy_lists(True), "cupy-ltoir": lambda: cupy_lists(True, "ltoir"),
        "cupy-cuda": lambda: cupy_lists(False), "numba-lists": numba_lists, "numba": lambda: numba_arrays(True), "numba-cuda": lambda: numba_arrays(False)}


def main():
    if len(sys.argv) == 2 and sys.argv[1] in WAYS:
        WAYS[sys.argv[1]]()
        return 0
    if len(sys.argv) != 1:
        print(f"times.py: '{' '.join(sys.argv[1:])}': give one of {', '.join(WAYS)}, or nothing", file=sys.stderr)
        return 2
    failed = 0
    print("| way | first | 3rd | 10th | settled |\n|---|---:|---:|---:|---:|")
    for way in WAYS:
        done = subprocess.run([sys.executable, __file__, way], capture_output=True, text=True, timeout=120)
        failed += done.returncode != 0
        last = done.stderr.strip().splitlines()[-1:] or [""]
        print(f"| {way} | " + (" | ".join(done.stdout.split()) if done.returncode == 0 else f"failed: {last[0]}") + " |")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
