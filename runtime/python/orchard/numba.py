# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""malloc and free for kernels of Numba. Needs numba-cuda 0.20 or later; newer NumPy may need a newer one.

    from numba import cuda
    from orchard.numba import array, free, malloc

    @cuda.jit
    def make_lists(sums):
        i = cuda.grid(1)
        address = malloc(4 * (i % 32 + 1))
        if address != 0:
            values = array(address, i % 32 + 1, numpy.int32)
            ...
            free(address)

Numba links the device code with each kernel that calls one of these functions. At the kernel's first launch its module is
bound to a heap: that of `use`, or the default heap, which is made then if there is none."""

import contextlib
import threading

from numba import cuda

try:
    from numba.cuda import types
except ImportError:
    from numba import types
try:
    from numba.cuda.extending import intrinsic
except ImportError:
    from numba.core.extending import intrinsic
try:
    from numba.cuda.np.arrayobj import np_cfarray
except ImportError:
    from numba.np.arrayobj import np_cfarray

from . import _modules
from ._device_code import device_code
from ._errors import ArgumentError, Error

__all__ = ["aligned_alloc", "array", "bind", "calloc", "free", "malloc", "realloc", "replace_runtime_allocator",
           "restore_runtime_allocator", "usable_size", "use"]

_lock = threading.RLock()
_heap = None  # of `use`


def _handle_of(module):
    """Returns the driver's handle of what Numba calls a module, as an int, and whether it is a CUlibrary."""
    handle = getattr(module, "handle", module)
    is_library = hasattr(module, "get_kernel") or type(handle).__name__ == "CUlibrary"
    handle = getattr(handle, "value", handle)
    return int(handle), is_library


def _on_load(module):
    """Binds a module before its first launch. Numba calls it once for each function that the kernel calls."""
    handle, is_library = _handle_of(module)
    if not _modules.is_bound(handle):
        _modules.bind(_heap, handle, is_library)


def _on_unload(module):
    _modules.forget(_handle_of(module)[0])


# One object, so that a kernel that calls several functions is linked with the code once.
_code = cuda.Fatbin(device_code("fatbin"), name="orchard_device", setup_callback=_on_load, teardown_callback=_on_unload)


def _declare(name, result, *arguments):
    """Returns a function of Orchard, with C's calling convention, for kernels."""
    return cuda.declare_device(name, result(*arguments), link=[_code], abi="c")


_size = types.uint64
#: malloc(bytes): the address of a block of `bytes` bytes, aligned to 16 B at least, as uint64; 0 if there is no memory.
malloc = _declare("orchard_malloc", _size, _size)
#: free(address): frees a block of the heap; 0 is allowed.
free = _declare("orchard_free", types.void, _size)
#: calloc(count, size): as `malloc`, of `count * size` bytes, all zero.
calloc = _declare("orchard_calloc", _size, _size, _size)
#: realloc(address, bytes): the block resized, at the same or another address; 0 if there is no memory, and the block
#: stays valid.
realloc = _declare("orchard_realloc", _size, _size, _size)
#: aligned_alloc(alignment, bytes): as `malloc`, aligned to a power of two up to 2 MiB.
aligned_alloc = _declare("orchard_aligned_alloc", _size, _size, _size)
#: usable_size(address): how many bytes of the block may be used; 0 if it is no block of the heap.
usable_size = _declare("orchard_usable_size", _size, _size)
#: note_access(address): counts an access there for `Heap.migrate`; for a sample of the accesses, say one of 64.
note_access = _declare("orchard_note_access", types.void, _size)


@intrinsic
def array(typingctx, address, shape, dtype):
    """Returns, in a kernel, an array of `shape` (a number or a tuple of numbers) and `dtype` over the block at `address`.
    The array does not own the block. Cost: none.

    Not by `numba.carray`: its code is inlined into the kernel's, and Numba then removes assignments to elements of an
    array that is made again for each access, although the block keeps them."""
    dimensions = 1 if isinstance(shape, types.Integer) else len(shape)

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))
        made = signature.return_type(types.voidptr, signature.args[1])
        return np_cfarray(context, builder, made, (pointer, arguments[1]))

    return types.Array(dtype.dtype, dimensions, "C")(types.uint64, shape, dtype), generate


def use(heap):
    """Lets the kernels that are launched first from now on use `heap`; None stands for the default heap of their GPU.
    Kernels that were launched before keep their heap: `bind` changes it. `heap` must be open whenever they run."""
    global _heap
    with _lock:
        _heap = heap


@contextlib.contextmanager
def _using(heap):
    with _lock:
        before = _heap
        use(heap)
        try:
            yield
        finally:
            use(before)


def bind(kernel, heap=None):
    """Lets all compiled versions of a kernel use `heap` on the current GPU from now on; None stands for the default heap,
    which is made if there is none. The kernel may not run meanwhile.

    kernel: what `cuda.jit` returned. It must have been launched, or compiled with `kernel.compile(signature)`.
    Raises ArgumentError if it was not, or if it calls no function of Orchard; and the errors of orchard.Heap.bind."""
    versions = list(kernel.overloads.values())
    if not versions:
        raise ArgumentError(f"{kernel.__name__} is not compiled yet; launch it first, or call its method compile, or give "
                            "the heap to orchard.numba.use")
    for version in versions:
        module = version._codelibrary.get_cufunc().module
        with _using(heap):
            if not getattr(module, "initialized", True):
                module.setup()  # what the first launch does, which would undo this binding
            target = getattr(module, "object_code", module)
            handle, is_library = _handle_of(target)
            _modules.bind(heap, handle, is_library)


# Numba's runtime for kernels (NRT) allocates arrays that kernels create. It is a source that calls CUDA's malloc and free,
# and Numba has no setting for them: the source is compiled with other names.
_RUNTIME_PREFIX = """extern "C" __device__ void* orchard_malloc(size_t);
extern "C" __device__ void orchard_free(void*);
#define malloc(bytes) orchard_malloc(bytes)
#define free(block) orchard_free(block)
#line 1
"""
_replaced = None  # what restore_runtime_allocator puts back


def _runtime_parts():
    """Returns Numba's modules and classes that know the runtime's source. Raises Error if this Numba is built otherwise."""
    try:
        from numba.cuda import codegen, dispatcher
        from numba.cuda.memory_management import nrt
        from numba.cuda.core import config
        source = nrt.NRT_LIBRARY.data
        original = dispatcher._Kernel.maybe_link_nrt
        assert dispatcher.NRT_LIBRARY is nrt.NRT_LIBRARY
    except (ImportError, AttributeError, AssertionError) as error:
        raise Error(f"the runtime of this version of numba-cuda is not known: {error}; numba-cuda 0.30 is") from error
    text = source.decode() if isinstance(source, bytes) else source
    if "malloc(" not in text or "free(" not in text:
        raise Error("the runtime of this version of numba-cuda allocates in another way than by malloc and free")
    return codegen, dispatcher, nrt, config, text, original


def replace_runtime_allocator():
    """Lets arrays that kernels create (numpy.empty and others) be allocated by Orchard, in all kernels that are compiled
    from now on, and turns on Numba's runtime (NUMBA_CUDA_ENABLE_NRT). Does nothing the second time.

    It changes functions of numba-cuda that are not public. Such kernels cannot be stored with `cache=True`.
    Raises Error if this version of numba-cuda is built otherwise."""
    global _replaced
    with _lock:
        if _replaced is not None:
            return
        codegen, dispatcher, nrt, config, text, original = _runtime_parts()
        library = cuda.CUSource(_RUNTIME_PREFIX + text, name="nrt.cu", nrt=True)

        def maybe_link_nrt(self, link, *arguments):
            original(self, link, *arguments)
            if library in link and _code not in link:
                link.append(_code)

        _replaced = (nrt.NRT_LIBRARY, original, getattr(config, "CUDA_ENABLE_NRT", False))
        for module in (codegen, dispatcher, nrt):
            module.NRT_LIBRARY = library
        dispatcher._Kernel.maybe_link_nrt = maybe_link_nrt
        config.CUDA_ENABLE_NRT = True


def restore_runtime_allocator():
    """Undoes `replace_runtime_allocator` for kernels that are compiled from now on."""
    global _replaced
    with _lock:
        if _replaced is None:
            return
        codegen, dispatcher, nrt, config, _, _ = _runtime_parts()
        library, original, enabled = _replaced
        for module in (codegen, dispatcher, nrt):
            module.NRT_LIBRARY = library
        dispatcher._Kernel.maybe_link_nrt = original
        config.CUDA_ENABLE_NRT = enabled
        _replaced = None
