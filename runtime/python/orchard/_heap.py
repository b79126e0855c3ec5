# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Heaps: those that a program makes, and the default heap of each GPU."""

import ctypes
import json
import os
import threading
import weakref

from . import _library
from ._errors import ArgumentError, OutOfMemoryError, PreconditionError, error_of


def option_text(options):
    """Returns the text of `orchard_heap_create`: name=value for each option that is not None; True and False become
    true and false. Raises ArgumentError for a value with a blank, comma or semicolon, which part options."""
    parts = []
    for name, value in options.items():
        if value is None:
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if any(character in " ,;\t\n" for character in text):
            raise ArgumentError(f"{name}: {text!r} has a blank, comma or semicolon; write 8GiB, not '8 GiB'")
        parts.append(f"{name}={text}")
    return " ".join(parts)


class Heap:
    """A heap on the current GPU, or on the emulated device.

        with orchard.Heap(capacity="8GiB") as heap:
            ...
            print(heap.stats()["pages_in_use"])

    All methods may be called from any thread, but for `close`: no other call, and no kernel, may use the heap then."""

    def __init__(self, device="cuda", **options):
        """Makes a heap. Options are those of docs/options.md, such as capacity="8GiB", request_timeout="5s",
        prefetch=False; sizes may be numbers of bytes. The variables ORCHARD_<NAME> come first.

        device: "cuda", or "emulated" for a heap without a GPU, whose host functions work.
        Raises ArgumentError for an unknown option or a value that is not allowed, PreconditionError if there is no usable
        GPU, OutOfMemoryError. Cost: some 10 ms."""
        self._handle = None
        library = _library.load()
        handle = ctypes.c_void_p()
        text = option_text({"device": device, **options})
        _library.check(library.orchard_heap_create(text.encode(), ctypes.byref(handle)))
        self._adopt(handle.value, owned=True)

    @classmethod
    def _of_default(cls, handle):
        """Returns the object of a default heap, which the library owns."""
        heap = cls.__new__(cls)
        heap._adopt(handle, owned=False)
        return heap

    def _adopt(self, handle, owned):
        self._handle = handle
        self._roots = {}  # (address, size) of the bound modules' symbols, by the key that forgets them
        self._roots_lock = threading.RLock()  # as `_lock` of _modules.py
        # Also at the end of the interpreter, when the CUDA runtime, which the heap's threads use, is still there.
        self._finalizer = weakref.finalize(self, _library.load().orchard_heap_destroy, handle) if owned else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        if self.closed:
            return "<orchard.Heap closed>"
        return f"<orchard.Heap on {self.device}{'' if self._finalizer else ', default'}>"

    @property
    def closed(self):
        """True after `close`, and for a default heap after `orchard.shutdown`."""
        return self._handle is None

    def _open(self):
        """Returns the library's handle. Raises PreconditionError if the heap is closed."""
        if self._handle is None:
            raise PreconditionError("the heap is closed")
        return self._handle

    def close(self):
        """Ends the heap and releases its memory; does nothing if it is closed. No kernel may use it any more. Requests of
        later kernels, in modules that this package has bound to the heap, return null. A default heap is not ended: use
        `orchard.shutdown`."""
        if self._handle is None or self._finalizer is None:
            return
        self._unbind_modules()
        self._handle = None
        self._finalizer()

    def stats(self):
        """Returns a dict of all statistics, with the names of runtime/statistics/statistics.def: int values, in the units
        named there; and "classes", a list with a dict for each size class in use. Kernels may run. Raises the device's
        errors."""
        return self._json(_library.load().orchard_heap_stats)

    @property
    def device(self):
        """The device, such as "cuda:0" or "emulated"."""
        found = self._json(_library.load().orchard_heap_device)
        return f"cuda:{found['gpu']}" if found["kind"] == "cuda" else found["kind"]

    @property
    def device_reason(self):
        """Why this device was taken, in one sentence."""
        return self._json(_library.load().orchard_heap_device)["reason"]

    @property
    def warnings(self):
        """A list of this heap's known problems on this machine, as texts."""
        return self._json(_library.load().orchard_heap_device)["warnings"]

    def _json(self, function):
        text = function(self._open())
        if text is None:
            raise error_of(0, _library.last_error())
        return json.loads(text)

    def last_failure(self):
        """Returns one line about the newest request that failed: what was asked for by which thread, why it failed, what
        the heap holds, and what to change. None if none failed. Kernels may run."""
        text = _library.load().orchard_heap_last_failure(self._open())
        if text is None:
            raise error_of(0, _library.last_error())
        return text.decode() or None

    def dump(self, path):
        """Writes what each segment of the heap is used for to a file, for `orchard map --dump`. Exact if no kernel runs.
        Raises ArgumentError if the file cannot be written; DeadlineError."""
        _library.check(_library.load().orchard_heap_dump(self._open(), os.fsencode(path)))

    def trim(self):
        """Releases unused memory to the system. Kernels may run. Raises DeadlineError, and the device's errors."""
        _library.check(_library.load().orchard_heap_trim(self._open()))

    def reserve(self, size):
        """Commits memory until `size` bytes are committed in total. Kernels may run. Raises OutOfMemoryError,
        DeadlineError."""
        _library.check(_library.load().orchard_heap_reserve(self._open(), _natural(size, "size")))

    def mark_live_blocks(self):
        """Tells a checker that listens to NVTX, such as `compute-sanitizer --nvtx=yes`, which blocks are live, and returns
        their number; 0 if none listens. It then reports the use of a block that an earlier kernel has freed, until
        `unmark_live_blocks`, which comes before a kernel that allocates. No kernel may use the heap meanwhile. Raises
        DeadlineError."""
        count = ctypes.c_size_t()
        _library.check(_library.load().orchard_heap_mark_live_blocks(self._open(), ctypes.byref(count)))
        return count.value

    def unmark_live_blocks(self):
        """Ends what `mark_live_blocks` began. Does nothing after no such call."""
        _library.check(_library.load().orchard_heap_unmark_live_blocks(self._open()))

    def set_device_budget(self, size):
        """Sets how many bytes an elastic heap may commit on the device from now on: 2 MiB to the option `capacity`.
        Memory without blocks is released first if more is committed; blocks stay. Kernels may run. Raises RangeError;
        Error if the heap is not elastic; DeadlineError."""
        _library.check(_library.load().orchard_heap_set_device_budget(self._open(), _natural(size, "size")))

    def migrate(self, stream=0):
        """Waits for the work queued on `stream` (the address of a cudaStream_t; 0: the default stream), and moves what
        kernels use to the GPU, in an elastic heap with `host_budget` and `move_unit`. Nothing may use the heap meanwhile.
        Raises Error if no memory of the heap moves; DeadlineError."""
        _library.check(_library.load().orchard_heap_migrate(self._open(), stream or None))

    def prefetch(self, pointer, size):
        """Moves the memory of `size` bytes at an address to the GPU. Nothing may use it meanwhile. Raises
        OutOfMemoryError if the device's budget has no room; as `migrate`."""
        _library.check(_library.load().orchard_heap_prefetch(self._open(), pointer, _natural(size, "size")))

    def demote(self, pointer, size):
        """As `prefetch`, to the host."""
        _library.check(_library.load().orchard_heap_demote(self._open(), pointer, _natural(size, "size")))

    def validate(self):
        """Checks all structures of the heap against each other. No kernel may run. Raises Error with the first fault that
        is found; DataLossError if the program wrote beyond a block of a hardened heap."""
        _library.check(_library.load().orchard_heap_validate(self._open()))

    def allocate(self, size):
        """Returns the address of a block of at least `size` bytes, an int: device memory, aligned to 256 B, for kernels;
        0 for 0 bytes. Device code and the host may free it. Kernels may run. Raises OutOfMemoryError with the library's
        text, whatever the cause. Cost: about 50 us."""
        size = _natural(size, "size")
        block = _library.load().orchard_heap_allocate(self._open(), size)
        if block is None and size != 0:
            raise OutOfMemoryError(_library.last_error())
        return block or 0

    def free(self, address):
        """Frees a block that the host or device code allocated; does nothing for 0. Kernels may run. Raises ArgumentError
        for an address outside the heap. Cost: about 20 us."""
        _library.check(_library.load().orchard_heap_free(self._open(), _natural(address, "address")))

    def bind(self, address, size):
        """Lets the device code of one module use this heap, until it is bound to another one. No kernel of the module may
        run. The heap must live as long as kernels of the module run: this function does not watch the module, as those of
        orchard.numba, orchard.cupy and orchard.cuda_core do.

        address, size: of the module's symbol `orchard_root`, as cuModuleGetGlobal and cuLibraryGetGlobal give them.
        Raises ArgumentError for another size, PreconditionError if the module's code is of another version of Orchard, or
        the heap is emulated."""
        _library.check(_library.load().orchard_heap_bind(
            self._open(), _natural(address, "address"), _natural(size, "size")))

    def _bind_module(self, key, address, size):
        """As `bind`; `close` takes the heap away again unless `_forget_module(key)` is called before."""
        self.bind(address, size)
        with self._roots_lock:
            self._roots[key] = (address, size)

    def _forget_module(self, key):
        """Returns True if the module of `key` was bound to this heap. It is not any more."""
        with self._roots_lock:
            return self._roots.pop(key, None) is not None

    def _unbind_modules(self):
        """Takes the heap away from all modules that `_bind_module` gave it. Errors are ignored: the heap ends, whatever
        fails here."""
        with self._roots_lock:
            roots = list(self._roots.values())
            self._roots.clear()
        for address, size in roots:
            _library.load().orchard_heap_bind(None, address, size)


def _natural(number, name):
    """Returns a number from 0 to 2**64 - 1 as an int. Raises ArgumentError for another one, TypeError for no number."""
    value = number.__index__()
    if not 0 <= value < 2**64:
        raise ArgumentError(f"{name}: {value} is not from 0 to 2**64 - 1")
    return value


_defaults = {}  # the objects of the default heaps, by handle
_defaults_lock = threading.Lock()


def init(**options):
    """Makes the default heap of the current GPU, and returns it. Does nothing else if it exists and no option is given.
    Options: as for `Heap`. Raises the errors of `Heap`; PreconditionError for options if the heap exists."""
    _library.check(_library.load().orchard_init(option_text(options).encode()))
    return default_heap()


def default_heap():
    """Returns the default heap of the current GPU. Raises PreconditionError, with the reason, if it was not made."""
    handle = _library.load().orchard_default_heap()
    if handle is None:
        raise error_of(9, _library.last_error())
    with _defaults_lock:
        if handle not in _defaults:
            _defaults[handle] = Heap._of_default(handle)
        return _defaults[handle]


def shutdown():
    """Ends all default heaps. No kernel may use them any more; requests of later kernels return null. Raises the device's
    errors."""
    with _defaults_lock:
        for heap in _defaults.values():
            heap._unbind_modules()
            heap._handle = None
        _defaults.clear()
    _library.check(_library.load().orchard_shutdown())
