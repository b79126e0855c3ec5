# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Linking relocatable device code by nvJitLink, or by the driver where there is no nvJitLink. Needs no package."""

import ctypes
import os
from pathlib import Path

from . import _modules
from ._errors import Error

# nvJitLinkInputType of nvJitLink.h, CUjitInputType of cuda.h.
_NVJITLINK_KINDS = {"cubin": 1, "ptx": 2, "ltoir": 3, "fatbin": 4}
_DRIVER_KINDS = {"cubin": 0, "ptx": 1, "fatbin": 2}
_CU_JIT_ERROR_LOG_BUFFER, _CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 5, 6
_LOG_BYTES = 16384

_nvjitlink = None
_nvjitlink_sought = False


def _candidates():
    """Returns functions that each try to load nvJitLink, the likeliest to fit the program first."""
    def by_pathfinder():
        from cuda import pathfinder
        return ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib("nvJitLink").abs_path)

    def by_name(name):
        return lambda: ctypes.CDLL(name)

    folders = [Path(os.environ[name]) / "lib64" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    folders.append(Path("/usr/local/cuda/lib64"))
    names = ["libnvJitLink.so.13", "libnvJitLink.so.12"]
    return [by_pathfinder, *(by_name(name) for name in names), *(by_name(f"{f}/libnvJitLink.so") for f in folders)]


def nvjitlink():
    """Returns nvJitLink, or None if it is not found. Cost: the first call looks for it."""
    global _nvjitlink, _nvjitlink_sought
    if not _nvjitlink_sought:
        for load in _candidates():
            try:
                _nvjitlink = load()
                break
            except Exception:  # pathfinder raises errors of its own, which differ between its versions
                continue
        _nvjitlink_sought = True
    return _nvjitlink


def _versioned(library, name):
    """Returns a function of nvJitLink, whose symbols carry the version of the library from 12.3 on."""
    for major in (13, 12):
        for minor in range(9, -1, -1):
            function = getattr(library, f"__{name}_{major}_{minor}", None)
            if function is not None:
                return function
    return getattr(library, name)


def link(parts, arch, lto=False):
    """Returns a cubin, as bytes, linked from `parts`.

    parts: (kind, code) for each, with kind "cubin", "ptx", "ltoir" or "fatbin".
    arch: the architecture of the GPU, such as "sm_90".
    lto: True if a part is LTO-IR, which only nvJitLink links.
    Raises Error with the linker's text. Cost: about 10 ms for machine code, seconds where a part is compiled."""
    library = nvjitlink()
    if library is not None:
        return _link_by_nvjitlink(library, parts, arch, lto)
    if lto:
        raise Error("LTO-IR is linked by nvJitLink, which was not found; install the package nvidia-nvjitlink, or take "
                    "the device code \"fatbin\"")
    return _link_by_driver(parts)


def _link_by_nvjitlink(library, parts, arch, lto):
    handle = ctypes.c_void_p()
    options = [f"-arch={arch}".encode()] + ([b"-lto"] if lto else [])
    texts = (ctypes.c_char_p * len(options))(*options)

    def log():
        size = ctypes.c_size_t()
        _versioned(library, "nvJitLinkGetErrorLogSize")(handle, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value + 1)
        _versioned(library, "nvJitLinkGetErrorLog")(handle, text)
        return text.value.decode("utf-8", "replace").strip()

    def check(status, what):
        if status != 0:
            raise Error(f"nvJitLink: {what}: error {status}: {log() if handle.value else ''}")

    check(_versioned(library, "nvJitLinkCreate")(ctypes.byref(handle), ctypes.c_uint32(len(options)), texts), "create")
    try:
        for kind, code in parts:
            status = _versioned(library, "nvJitLinkAddData")(
                handle, ctypes.c_int(_NVJITLINK_KINDS[kind]), code, ctypes.c_size_t(len(code)), kind.encode())
            check(status, f"adding {kind}")
        check(_versioned(library, "nvJitLinkComplete")(handle), "linking")
        size = ctypes.c_size_t()
        check(_versioned(library, "nvJitLinkGetLinkedCubinSize")(handle, ctypes.byref(size)), "result")
        cubin = ctypes.create_string_buffer(size.value)
        check(_versioned(library, "nvJitLinkGetLinkedCubin")(handle, cubin), "result")
        return cubin.raw
    finally:
        _versioned(library, "nvJitLinkDestroy")(ctypes.byref(handle))


def _link_by_driver(parts):
    """As `link`, for the current GPU."""
    cuda = _modules.driver()
    log = ctypes.create_string_buffer(_LOG_BYTES)
    names = (ctypes.c_int * 2)(_CU_JIT_ERROR_LOG_BUFFER, _CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
    state = ctypes.c_void_p()

    def check(code, what):
        if code != 0:
            raise Error(f"{what}: {_modules.driver_error(code)}: {log.value.decode('utf-8', 'replace').strip()}")

    check(cuda.cuLinkCreate_v2(ctypes.c_uint(2), names, values, ctypes.byref(state)), "cuLinkCreate")
    try:
        for kind, code in parts:
            check(cuda.cuLinkAddData_v2(state, ctypes.c_int(_DRIVER_KINDS[kind]), code, ctypes.c_size_t(len(code)),
                                        kind.encode(), ctypes.c_uint(0), None, None), f"adding {kind}")
        cubin, size = ctypes.c_void_p(), ctypes.c_size_t()
        check(cuda.cuLinkComplete(state, ctypes.byref(cubin), ctypes.byref(size)), "linking")
        return ctypes.string_at(cubin.value, size.value)  # the driver's copy ends with the link
    finally:
        cuda.cuLinkDestroy(state)
