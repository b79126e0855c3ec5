# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The device code that kernels are linked with, and what their sources need to call it."""

import functools
import re
from pathlib import Path

from ._library import device_code_path

_FUNCTIONS = (
    "void* orchard_malloc(size_t bytes)",
    "void orchard_free(void* block)",
    "void* orchard_calloc(size_t count, size_t size)",
    "void* orchard_realloc(void* block, size_t bytes)",
    "void* orchard_aligned_alloc(size_t alignment, size_t bytes)",
    "size_t orchard_usable_size(const void* block)",
    "void orchard_note_access(const void* p)",
)

# A header that declares the functions, or a declaration of one of them.
_DECLARED = re.compile(r'#\s*include\s*[<"]orchard/|__device__[^;{}]*\borchard_\w+\s*\(')

#: The declarations of the device functions in CUDA C++, for sources that do not include orchard/orchard.h.
declarations = "".join(f'extern "C" __device__ {function};\n' for function in _FUNCTIONS)


@functools.lru_cache(maxsize=None)
def device_code(kind="fatbin"):
    """Returns the device functions as bytes, for a linker: nvJitLink, cuLink, nvlink.

    kind: "fatbin", machine code, which links in about 10 ms; "ltoir", which is optimized together with the kernel, in
    some 15 s; "ptx", which is compiled at each link, also in seconds.
    Raises ValueError for another kind, PreconditionError if the library was built without CUDA."""
    return device_code_path(kind).read_bytes()


def include_path():
    """Returns the folder in which the header orchard/orchard.h is, for the compiler's option -I; None if this package
    has no headers."""
    here = Path(__file__).resolve().parent
    for folder in (here / "include", here.parents[1] / "include"):
        if (folder / "orchard" / "orchard.h").is_file():
            return str(folder)
    return None


def declared(source):
    """Returns CUDA C++ that declares the device functions: `source` itself if it declares one of them, or includes a
    header of Orchard; otherwise with `declarations` before it. Lines keep their numbers."""
    if _DECLARED.search(source):
        return source
    return declarations + "#line 1\n" + source
