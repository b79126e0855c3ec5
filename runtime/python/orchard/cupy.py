# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""CuPy's kernels with `orchard_malloc` and `orchard_free`. Needs CuPy 13 or later with CUDA 12.4 or later.

    from orchard.cupy import RawKernel
    kernel = RawKernel(source, "make_lists")
    kernel((400,), (256,), (out, 1000))

cupy.RawModule itself links nothing. Here NVRTC, through CuPy, compiles the source to relocatable code; nvJitLink or the
driver links it with Orchard's; CuPy loads the result."""

import atexit
import itertools
import shutil
import tempfile
import threading
from pathlib import Path

import cupy
from cupy.cuda import compiler, nvrtc

from . import _linking, _modules
from ._device_code import declared, device_code, include_path

__all__ = ["RawKernel", "RawModule"]

_lock = threading.Lock()
_folder = None
_numbers = itertools.count()


def _store(cubin):
    """Returns the path of a new file with `cubin`. CuPy loads it once for each GPU, when the module is first used there;
    the file is removed at the end of the process."""
    global _folder
    with _lock:
        if _folder is None:
            _folder = Path(tempfile.mkdtemp(prefix="orchard-cupy-"))
            atexit.register(shutil.rmtree, _folder, ignore_errors=True)
        path = _folder / f"{next(_numbers)}.cubin"
    path.write_bytes(cubin)
    return path


def _options(options):
    """Returns the compiler's options: the caller's, and those that relocatable code needs."""
    chosen = list(options)
    if not any(option.startswith(("-std", "--std")) for option in chosen):
        chosen.append("-std=c++17")
    chosen.append(f"-I{Path(cupy.__file__).parent / '_core' / 'include'}")
    if include_path() is not None:
        chosen.append(f"-I{include_path()}")
    return [*chosen, "-rdc=true"]


def _compile(source, options, name_expressions, arch, kind):
    """Returns the relocatable code of `source`, of the kind "cubin" or "ltoir", and a dict from name expressions to names
    in the code. Raises cupy.cuda.compiler.CompileException with the compiler's text."""
    options = [*_options(options), f"-arch={arch}", *(["-dlto"] if kind == "ltoir" else [])]
    program = nvrtc.createProgram(source, "orchard_module.cu", (), ())
    try:
        for expression in name_expressions:
            nvrtc.addNameExpression(program, expression)
        try:
            nvrtc.compileProgram(program, tuple(options))
        except nvrtc.NVRTCError:
            log = nvrtc.getProgramLog(program)
            raise compiler.CompileException(log, source, "orchard_module.cu", tuple(options), "nvrtc") from None
        names = {expression: nvrtc.getLoweredName(program, expression) for expression in name_expressions}
        code = nvrtc.getLTOIR(program) if kind == "ltoir" else nvrtc.getCUBIN(program)
        # Versions of CuPy take the last byte off, a zero, as if the code were a text. Its length is a multiple of 4.
        return code + bytes(-len(code) % 4), names
    finally:
        nvrtc.destroyProgram(program)


class RawModule:
    """As cupy.RawModule, for CUDA C++ that calls Orchard's device functions. The source may include orchard/orchard.h,
    declare the functions itself, or do neither: it is compiled with the declarations before it then."""

    def __init__(self, code, *, options=(), name_expressions=(), heap=None, link="fatbin"):
        """Prepares a module; nothing is compiled yet.

        code: CUDA C++, as a text. options, name_expressions: as of cupy.RawModule, for NVRTC.
        heap: the heap that the kernels use; None for the default heap of the GPU, made at the first use if there is none.
        link: the device code that is linked: "fatbin", or "ltoir" to have malloc optimized together with the kernel,
            which takes some 15 s and needs nvJitLink; "ptx".
        Raises ValueError for another `link`, PreconditionError if Orchard was built without CUDA."""
        self._source = declared(code)
        self._options = tuple(options)
        self._expressions = tuple(name_expressions or ())
        self._heap = heap
        self._link = link
        self._device_code = device_code(link)
        self._built = {}  # by architecture: (cupy.RawModule, the names of the expressions)
        self._bound = set()  # the GPUs on which the module was bound
        self._lock = threading.RLock()

    def _build(self):
        """Returns the cupy.RawModule for the current GPU, and the dict of names."""
        arch = f"sm_{cupy.cuda.Device().compute_capability}"
        with self._lock:
            if arch not in self._built:
                lto = self._link == "ltoir"
                kind = "ltoir" if lto else "cubin"
                code, names = _compile(self._source, self._options, self._expressions, arch, kind)
                cubin = _linking.link([(kind, code), (self._link, self._device_code)], arch, lto)
                self._built[arch] = (cupy.RawModule(path=str(_store(cubin))), names)
            return self._built[arch]

    def bind(self, heap=None):
        """Lets the module use `heap` on the current GPU from now on, or its default heap. No kernel of the module may run.
        Returns the heap. Raises the errors of orchard.Heap.bind."""
        with self._lock:
            loaded = self.module.module
            bound = _modules.bind(heap, int(loaded.ptr), is_library=False, module=loaded)
            self._bound.add(cupy.cuda.Device().id)
            return bound

    @property
    def module(self):
        """The cupy.RawModule with the linked code, for the current GPU's architecture."""
        return self._build()[0]

    def compile(self):
        """Compiles, links, loads and binds the module, if that was not done on this GPU. Raises
        cupy.cuda.compiler.CompileException with the compiler's text, orchard.Error with the linker's. Cost: about
        0.1 s to compile; to link as for `link`."""
        with self._lock:
            if cupy.cuda.Device().id not in self._bound:
                self.bind(self._heap)

    def get_function(self, name):
        """Returns a cupy.RawKernel of a kernel: its name in `extern "C"`, or one of the name expressions. Compiles the
        module if need be: errors and cost as for `compile`. A kernel that is launched on another GPU has no heap there
        until `compile` or `bind` is called with that GPU current."""
        self.compile()
        module, names = self._build()
        return module.get_function(names.get(name, name))

    def get_global(self, name):
        """Returns a cupy.cuda.MemoryPointer to a global variable of the module. Compiles the module if need be."""
        self.compile()
        return self.module.get_global(name)


def RawKernel(code, name, *, options=(), heap=None, link="fatbin"):  # the name of CuPy's class
    """Returns a cupy.RawKernel for the kernel `name`, `extern "C"`, compiled and bound. Arguments, errors and cost: as for
    `RawModule` and `RawModule.compile`."""
    return RawModule(code, options=options, heap=heap, link=link).get_function(name)
