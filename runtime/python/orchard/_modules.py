# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""CUDA modules that hold Orchard's device code: their symbol `orchard_root`, and the heap that they use."""

import ctypes
import threading
import weakref

from . import _heap
from ._errors import ArgumentError, Error, PreconditionError

_SYMBOL = b"orchard_root"
_CUDA_ERROR_NOT_FOUND = 500

# Reentrant: while a thread holds it, the garbage collector may end a module, which calls `forget`.
_lock = threading.RLock()
_driver = None
_owners = {}  # (heap, object that keeps the module loaded or None) of each bound module, by (handle, address)


def driver():
    """Returns libcuda.so.1. Raises PreconditionError if there is no driver."""
    global _driver
    with _lock:
        if _driver is None:
            try:
                _driver = ctypes.CDLL("libcuda.so.1")
            except OSError as error:
                raise PreconditionError(f"there is no NVIDIA driver here: {error}") from error
        return _driver


def driver_error(code):
    """Returns the driver's name and text for a CUresult."""
    texts = []
    for function in (driver().cuGetErrorName, driver().cuGetErrorString):
        text = ctypes.c_char_p()
        function(ctypes.c_int(code), ctypes.byref(text))
        texts.append((text.value or b"?").decode())
    return f"CUDA error {code}: {': '.join(texts)}"


def find_root(handle, is_library):
    """Returns the address and the size of a module's `orchard_root`, in the current context.

    handle: a CUlibrary if `is_library`, else a CUmodule, as an int.
    Raises ArgumentError if the module has no such symbol: none of its kernels calls a function of Orchard. Cost: the
    module is loaded if it was not, some milliseconds."""
    function = driver().cuLibraryGetGlobal if is_library else driver().cuModuleGetGlobal_v2
    address, size = ctypes.c_void_p(), ctypes.c_size_t()
    code = function(ctypes.byref(address), ctypes.byref(size), ctypes.c_void_p(handle), _SYMBOL)
    if code == _CUDA_ERROR_NOT_FOUND:
        raise ArgumentError("the module has no symbol orchard_root: it is not linked with Orchard's device code, or none "
                            "of its kernels calls it")
    if code != 0:
        raise Error(f"looking for orchard_root in a module: {driver_error(code)}")
    return address.value, size.value


def is_bound(handle):
    """Returns True if a module was bound, and `forget` was not called for it since."""
    with _lock:
        return any(key[0] == handle for key in list(_owners))


def bind(heap, handle, is_library, module=None):
    """Lets a module use `heap`; None stands for the default heap of the current GPU, which is made if there is none.
    Returns the heap. No kernel of the module may run. Raises the errors of `find_root`, `Heap.bind` and `init`. Cost:
    three copies.

    module: an object that keeps the module loaded. The binding is forgotten when it ends; if Python cannot tell when that
        is, it is kept until the end of the process. None if the caller calls `forget`."""
    chosen = _heap.init() if heap is None else heap
    address, size = find_root(handle, is_library)
    key = (handle, address)
    chosen._bind_module(key, address, size)
    kept = None
    if module is not None and not is_bound(handle):
        try:
            weakref.finalize(module, forget, handle)
        except TypeError:
            kept = module
    with _lock:
        before, before_kept = _owners.get(key, (None, None))
        _owners[key] = (chosen, kept or before_kept)
    if before is not None and before is not chosen:
        before._forget_module(key)
    return chosen


def forget(handle):
    """Notes that a module is being unloaded: its symbol is not written any more."""
    with _lock:
        keys = [key for key in list(_owners) if key[0] == handle]
        heaps = [(_owners.pop(key)[0], key) for key in keys]
    for heap, key in heaps:
        heap._forget_module(key)
