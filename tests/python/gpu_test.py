#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The Python package on a GPU: kernels of Numba, CuPy and cuda.core with malloc and free, and the examples. Each part
skips itself where its package, or a GPU, is missing."""

import gc
import importlib
import re
import subprocess
import sys
import tempfile
import unittest

import support

support.skip_without_library()

import orchard  # noqa: E402

NO_GPU = support.why_no_gpu()


def needs(*modules):
    """Returns a decorator that skips tests where a module does not work."""
    if NO_GPU:
        return unittest.skip(NO_GPU)
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # Numba, for one, fails with errors of many kinds beside a NumPy that it does not know
            return unittest.skip(f"{module} does not work here: {type(error).__name__}: {error}")
    return lambda test: test


KERNELS = r"""
extern "C" __global__ void make(unsigned long long* blocks, int bytes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    char* block = static_cast<char*>(orchard_malloc(bytes));
    if (block != nullptr) {
        block[0] = static_cast<char>(i);
        block[bytes - 1] = static_cast<char>(i);
    }
    blocks[i] = reinterpret_cast<unsigned long long>(block);
}
extern "C" __global__ void drop(unsigned long long* blocks, int bytes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    char* block = reinterpret_cast<char*>(blocks[i]);
    bool right = block != nullptr && block[0] == static_cast<char>(i) && block[bytes - 1] == static_cast<char>(i);
    orchard_free(block);
    blocks[i] = right;
}
template <int Bytes> __global__ void count(unsigned long long* blocks) {
    void* block = orchard_malloc(Bytes);
    blocks[blockIdx.x * blockDim.x + threadIdx.x] = orchard_usable_size(block);
    orchard_free(block);
}
"""
GRID, BLOCK = 64, 256
THREADS = GRID * BLOCK


@needs("cupy")
class CuPy(unittest.TestCase):
    def setUp(self):
        import cupy
        import orchard.cupy
        self.cupy, self.raw_module, self.raw_kernel = cupy, orchard.cupy.RawModule, orchard.cupy.RawKernel
        self.blocks = cupy.zeros(THREADS, cupy.uint64)

    def run_both(self, module):
        """Returns how many threads had a block that kept what they wrote."""
        size = self.cupy.int32(100)
        module.get_function("make")((GRID,), (BLOCK,), (self.blocks, size))
        module.get_function("drop")((GRID,), (BLOCK,), (self.blocks, size))
        return int(self.blocks.sum())

    def test_two_kernels_share_a_heap(self):
        with orchard.Heap(capacity="1GiB") as heap:
            self.assertTrue(heap.device.startswith("cuda:"))
            before = heap.stats()["allocations"]
            self.assertEqual(self.run_both(self.raw_module(KERNELS, heap=heap)), THREADS)
            self.assertEqual(heap.stats()["allocations"] - before, THREADS)
            heap.validate()

    def test_link_time_optimization_and_ptx(self):
        with orchard.Heap(capacity="1GiB") as heap:
            for link in ("ltoir", "ptx"):
                with self.subTest(link=link):
                    self.assertEqual(self.run_both(self.raw_module(KERNELS, heap=heap, link=link)), THREADS)

    def test_name_expressions_and_the_header(self):
        with orchard.Heap(capacity="1GiB") as heap:
            module = self.raw_module("#include <orchard/orchard.h>\n" + KERNELS, heap=heap,
                                     name_expressions=("count<1000>",))
            module.get_function("count<1000>")((GRID,), (BLOCK,), (self.blocks,))
            self.assertGreaterEqual(int(self.blocks.min()), 1000)

    def test_a_declaration_of_the_sources_own(self):
        source = 'extern "C" __device__ void* orchard_malloc(unsigned long long);\n' \
            'extern "C" __global__ void one(void** out) { *out = orchard_malloc(8); }'
        with orchard.Heap(capacity="1GiB") as heap:
            self.raw_kernel(source, "one", heap=heap)((1,), (1,), (self.blocks,))
            self.assertNotEqual(int(self.blocks[0]), 0)

    def test_default_heap_rebinding_and_closing(self):
        module = self.raw_module(KERNELS)
        self.assertEqual(self.run_both(module), THREADS)
        default = orchard.default_heap()
        with orchard.Heap(capacity="1GiB") as heap:
            module.bind(heap)
            before = heap.stats()["allocations"], default.stats()["allocations"]
            self.assertEqual(self.run_both(module), THREADS)
            after = heap.stats()["allocations"], default.stats()["allocations"]
            self.assertEqual((after[0] - before[0], after[1] - before[1]), (THREADS, 0))
        self.assertEqual(self.run_both(module), 0)  # the heap is closed: null, no fault
        module.bind()
        self.assertEqual(self.run_both(module), THREADS)
        orchard.shutdown()
        self.assertTrue(default.closed)
        self.assertEqual(self.run_both(module), 0)

    def test_blocks_of_the_host(self):
        with orchard.Heap(capacity="1GiB") as heap:
            block = heap.allocate(8 * THREADS)
            memory = self.cupy.cuda.UnownedMemory(block, 8 * THREADS, heap)
            values = self.cupy.ndarray((THREADS,), self.cupy.int64, self.cupy.cuda.MemoryPointer(memory, 0))
            values[:] = self.cupy.arange(THREADS)
            self.assertEqual(int(values.sum()), THREADS * (THREADS - 1) // 2)
            heap.free(block)

    def test_a_request_that_fails(self):
        source = 'extern "C" __global__ void huge(void** out) { *out = orchard_malloc(1ull << 40); }'
        with orchard.Heap(capacity="64MiB") as heap:
            self.blocks.fill(1)
            self.raw_kernel(source, "huge", heap=heap)((1,), (1,), (self.blocks,))
            self.assertEqual(int(self.blocks[0]), 0)
            self.assertEqual(heap.stats()["failed_allocations"], 1)

    def test_errors(self):
        from cupy.cuda.compiler import CompileException
        with orchard.Heap(capacity="64MiB") as heap:
            with self.assertRaisesRegex(CompileException, "expected"):
                self.raw_module("this is wrong", heap=heap).compile()
            with self.assertRaisesRegex(orchard.Error, "not_there"):
                self.raw_module('extern "C" __device__ void not_there();\n'
                                'extern "C" __global__ void k() { orchard_free(0); not_there(); }', heap=heap).compile()
            plain = self.cupy.RawModule(code='extern "C" __global__ void k() {}')
            plain.get_function("k")
            with self.assertRaisesRegex(orchard.ArgumentError, "orchard_root"):
                from orchard import _modules
                _modules.bind(heap, int(plain.module.ptr), is_library=False)


@needs("cuda.core")
class CudaCore(unittest.TestCase):
    def setUp(self):
        import orchard.cuda_core
        self.module = orchard.cuda_core
        try:
            import cuda.core as core
            core.Device
        except (ImportError, AttributeError):
            import cuda.core.experimental as core
        self.core = core
        self.device = core.Device()
        self.device.set_current()
        self.stream = self.device.create_stream()

    def launch(self, kernel, *arguments):
        self.core.launch(self.stream, self.core.LaunchConfig(grid=GRID, block=BLOCK), kernel, *arguments)
        self.stream.sync()

    def test_compile(self):
        for lto in (False, True):
            with self.subTest(lto=lto), orchard.Heap(capacity="1GiB") as heap:
                compiled = self.module.compile(KERNELS, heap=heap, name_expressions=("count<24>",), lto=lto)
                blocks = heap.allocate(8 * THREADS)
                before = heap.stats()
                self.launch(compiled.get_kernel("count<24>"), blocks)
                after = heap.stats()
                self.assertEqual(after["allocations"] - before["allocations"], THREADS)
                self.assertEqual(after["frees"] - before["frees"], THREADS)
                heap.free(blocks)

    def test_link_and_modules_that_end(self):
        options = self.core.ProgramOptions(arch=f"sm_{self.device.arch}", relocatable_device_code=True)
        program = self.core.Program(orchard.declarations + KERNELS, "c++", options=options)
        compiled = program.compile("cubin")
        with orchard.Heap(capacity="1GiB") as heap:
            linked = self.module.link(compiled, heap=heap)
            blocks = heap.allocate(8 * THREADS)
            import ctypes
            self.launch(linked.get_kernel("make"), blocks, ctypes.c_int(64))
            self.launch(linked.get_kernel("drop"), blocks, ctypes.c_int(64))
            heap.free(blocks)
            heap.validate()
            del linked
            gc.collect()


@needs("numba.cuda", "numba.cuda.np.arrayobj")
class Numba(unittest.TestCase):
    def setUp(self):
        import numpy
        from numba import cuda
        import orchard.numba
        self.numpy, self.cuda, self.orchard_numba = numpy, cuda, orchard.numba

    def kernel(self, lto=None):
        from numba import cuda
        from orchard.numba import array, free, malloc
        numpy = self.numpy

        def fill(out, size):
            i = cuda.grid(1)
            block = malloc(8 * size)
            if block != 0:
                values = array(block, size, numpy.int64)
                for k in range(size):
                    values[k] = i + k
                total = 0
                for k in range(size):
                    total += values[k]
                out[i] = total
                free(block)
        return cuda.jit(fill) if lto is None else cuda.jit(fill, lto=lto)

    def run_kernel(self, kernel, size=10):
        """Returns how many threads had a block that kept what they wrote."""
        out = self.cuda.to_device(self.numpy.full(THREADS, -1, self.numpy.int64))
        kernel[GRID, BLOCK](out, size)
        i = self.numpy.arange(THREADS)
        return int((out.copy_to_host() == i * size + size * (size - 1) // 2).sum())

    def test_default_heap(self):
        self.assertEqual(self.run_kernel(self.kernel()), THREADS)
        self.assertGreaterEqual(orchard.default_heap().stats()["allocations"], THREADS)

    def test_use_bind_and_closing(self):
        kernel = self.kernel()
        with orchard.Heap(capacity="1GiB") as one, orchard.Heap(capacity="1GiB") as other:
            with self.assertRaises(orchard.ArgumentError):
                self.orchard_numba.bind(kernel, one)  # not compiled yet
            self.orchard_numba.use(one)
            self.addCleanup(self.orchard_numba.use, None)
            self.assertEqual(self.run_kernel(kernel), THREADS)
            self.assertEqual(one.stats()["allocations"], THREADS)
            self.orchard_numba.bind(kernel, other)
            self.assertEqual(self.run_kernel(kernel), THREADS)
            self.assertEqual((one.stats()["allocations"], other.stats()["allocations"]), (THREADS, THREADS))
        self.assertEqual(self.run_kernel(kernel), 0)

    def test_bind_before_the_first_launch(self):
        from numba import types
        kernel = self.kernel()
        kernel.compile((types.int64[::1], types.int64))
        with orchard.Heap(capacity="1GiB") as heap:
            self.orchard_numba.bind(kernel, heap)
            self.assertEqual(self.run_kernel(kernel), THREADS)
            self.assertEqual(heap.stats()["allocations"], THREADS)

    def test_bind_of_a_kernel_that_allocates_nothing(self):
        @self.cuda.jit
        def nothing(out):
            out[0] = 1
        out = self.cuda.to_device(self.numpy.zeros(1))
        nothing[1, 1](out)
        with orchard.Heap(capacity="64MiB") as heap, self.assertRaisesRegex(orchard.ArgumentError, "orchard_root"):
            self.orchard_numba.bind(nothing, heap)

    def test_runtime_allocator(self):
        numpy, cuda = self.numpy, self.cuda
        try:
            self.orchard_numba.replace_runtime_allocator()
        except orchard.Error as error:
            self.skipTest(str(error))
        self.addCleanup(self.orchard_numba.restore_runtime_allocator)

        @cuda.jit
        def arrays(out, size):
            values = numpy.empty(size, numpy.int64)
            for k in range(size):
                values[k] = k + cuda.grid(1)
            total = 0
            for k in range(size):
                total += values[k]
            out[cuda.grid(1)] = total
        with orchard.Heap(capacity="1GiB") as heap:
            self.orchard_numba.use(heap)
            self.addCleanup(self.orchard_numba.use, None)
            self.assertEqual(self.run_kernel(arrays), THREADS)
            stats = heap.stats()
            self.assertEqual((stats["allocations"], stats["frees"]), (THREADS, THREADS))


@unittest.skipIf(NO_GPU, NO_GPU)
class Examples(unittest.TestCase):
    MODULES = {"numba_lists": "numba.cuda.np.arrayobj", "numba_arrays": "numba.cuda.memory_management.nrt",
               "cupy_lists": "cupy", "cuda_core_lists": "cuda.core", "uvm_study": "orchard.uvm"}

    def test_examples_run(self):
        paths = sorted((support.ROOT / "examples/python").glob("*.py"))
        self.assertGreaterEqual(len(paths), 4)
        for path in paths:
            with self.subTest(example=path.name):
                module = self.MODULES.get(path.stem)
                if module is not None:
                    try:
                        importlib.import_module(module)
                    except Exception as error:
                        self.skipTest(f"{module} does not work here: {error}")
                done = subprocess.run([sys.executable, str(path)], env=support.environment(), capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                print(f"{path.name}: {done.stdout.strip()}")

    def test_the_first_lines_of_the_document_run(self):
        try:
            importlib.import_module(self.MODULES["numba_lists"])
        except Exception as error:
            self.skipTest(f"Numba does not work here: {error}")
        page = (support.ROOT / "docs/python.md").read_text(encoding="utf-8")
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1])
            file.flush()
            done = subprocess.run([sys.executable, file.name], env=support.environment(), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    support.main()
