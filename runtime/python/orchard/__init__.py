# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Orchard, a memory manager for NVIDIA GPUs, in Python.

    import orchard
    with orchard.Heap(capacity="8GiB") as heap:   # a heap on the current GPU
        print(heap.stats()["committed_bytes"])

orchard.numba, orchard.cupy and orchard.cuda_core give kernels malloc and free. Each is imported by its user, and needs
the packages that its name says."""

from ._errors import (
    ArgumentError,
    DataLossError,
    DeadlineError,
    Error,
    OutOfMemoryError,
    PreconditionError,
)
from ._device_code import declarations, device_code, device_code_path, include_path
from ._heap import Heap, default_heap, init, shutdown
from ._library import load as _load

__all__ = [
    "ArgumentError", "DataLossError", "DeadlineError", "Error", "Heap", "OutOfMemoryError", "PreconditionError",
    "declarations", "default_heap", "device_code", "device_code_path", "include_path", "init", "shutdown", "version",
]


def version():
    """Returns the version of the library, such as "0.1.0"."""
    return _load().orchard_version().decode()
