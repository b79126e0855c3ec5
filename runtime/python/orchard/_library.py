# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""liborchard.so by ctypes: where it is, and the signatures of orchard/orchard.h."""

import ctypes
import os
import threading
from pathlib import Path

from ._errors import PreconditionError, error_of

_NAME = "liborchard.so"
_DEVICE_CODE = ("ptx", "ltoir", "fatbin")

_lock = threading.Lock()
_loaded = None


def library_path():
    """Returns the path of liborchard.so: the variable ORCHARD_LIBRARY, or the file in this package. Raises
    PreconditionError if there is neither."""
    chosen = os.environ.get("ORCHARD_LIBRARY")
    path = Path(chosen) if chosen else Path(__file__).resolve().parent / "lib" / _NAME
    if not path.is_file():
        raise PreconditionError(
            f"{path}: no such file; install the package with pip, or set ORCHARD_LIBRARY to the path of {_NAME}")
    return path


def device_code_path(kind):
    """Returns the path of orchard_device.ptx, .ltoir or .fatbin: beside liborchard.so, or where `cmake --install` puts
    it. Raises ValueError for another kind, PreconditionError if the library was built without CUDA."""
    if kind not in _DEVICE_CODE:
        raise ValueError(f"{kind!r} is no kind of device code; give one of {', '.join(_DEVICE_CODE)}")
    folder = library_path().parent
    name = f"orchard_device.{kind}"
    for path in (folder / name, folder.parent / "share" / "orchard" / name):
        if path.is_file():
            return path
    raise PreconditionError(
        f"there is no {name} beside {folder / _NAME}: this build of Orchard has no CUDA; install the package where nvcc "
        "is, with CUDA 12.4 or later")


def _declare(library):
    """Gives the functions of the library their signatures."""
    text, heap, size, pointer, status = (
        ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int)
    signatures = {
        "orchard_version": (text, []),
        "orchard_last_error": (text, []),
        "orchard_heap_create": (status, [text, ctypes.POINTER(heap)]),
        "orchard_heap_destroy": (None, [heap]),
        "orchard_heap_stats": (text, [heap]),
        "orchard_heap_device": (text, [heap]),
        "orchard_heap_last_failure": (text, [heap]),
        "orchard_heap_dump": (status, [heap, text]),
        "orchard_heap_trim": (status, [heap]),
        "orchard_heap_migrate": (status, [heap, ctypes.c_void_p]),
        "orchard_heap_prefetch": (status, [heap, ctypes.c_void_p, ctypes.c_size_t]),
        "orchard_heap_demote": (status, [heap, ctypes.c_void_p, ctypes.c_size_t]),
        "orchard_heap_reserve": (status, [heap, size]),
        "orchard_heap_set_device_budget": (status, [heap, size]),
        "orchard_heap_mark_live_blocks": (status, [heap, ctypes.POINTER(size)]),
        "orchard_heap_unmark_live_blocks": (status, [heap]),
        "orchard_heap_validate": (status, [heap]),
        "orchard_heap_allocate": (pointer, [heap, size]),
        "orchard_heap_free": (status, [heap, pointer]),
        "orchard_init": (status, [text]),
        "orchard_default_heap": (heap, []),
        "orchard_shutdown": (status, []),
        "orchard_heap_bind": (status, [heap, pointer, size]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def load():
    """Returns the loaded library. Raises PreconditionError if it is not found, or one of its own libraries is not.
    Cost: the first call loads it, some milliseconds."""
    global _loaded
    with _lock:
        if _loaded is None:
            path = library_path()
            try:
                _loaded = _declare(ctypes.CDLL(str(path)))
            except OSError as error:
                hint = "; install Abseil (on Debian the package libabsl20220623)" if "absl" in str(error) else ""
                raise PreconditionError(f"{path} does not load: {error}{hint}") from error
        return _loaded


def last_error():
    """Returns the text of this thread's newest error."""
    return load().orchard_last_error().decode("utf-8", "replace")


def check(status):
    """Raises the error of a status that is not ORCHARD_OK."""
    if status != 0:
        raise error_of(status, last_error())
