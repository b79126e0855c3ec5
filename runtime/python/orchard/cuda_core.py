# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""cuda.core's programs with `orchard_malloc` and `orchard_free`. Needs cuda.core 0.3 or later.

    from orchard.cuda_core import compile
    module = compile(source)
    kernel = module.get_kernel("make_lists")

`compile` is Program and Linker in one call; `link` is for a program's own Linker calls, `bind` for its own modules."""

try:
    from cuda.core import Device, Linker, LinkerOptions, ObjectCode, Program, ProgramOptions
except ImportError:  # before 0.5
    from cuda.core.experimental import Device, Linker, LinkerOptions, ObjectCode, Program, ProgramOptions

import dataclasses

from . import _modules
from ._device_code import declared, device_code, include_path

__all__ = ["bind", "compile", "device_object", "link"]

_LOADERS = {"fatbin": "from_fatbin", "ltoir": "from_ltoir", "ptx": "from_ptx"}


def device_object(kind="fatbin"):
    """Returns Orchard's device functions as an ObjectCode, for a Linker. Arguments and errors: as for
    orchard.device_code."""
    return getattr(ObjectCode, _LOADERS[kind])(device_code(kind), name="orchard_device")


def _arch():
    """Returns the architecture of the current GPU, such as "sm_90"."""
    return f"sm_{Device().arch}"


def bind(module, heap=None):
    """Lets the kernels of a linked ObjectCode use `heap` on the current GPU, or the default heap, which is made if there
    is none. No kernel of the module may run. Returns the heap. The heap is given to no other module: each ObjectCode is
    bound by itself, and on each GPU. Raises the errors of orchard.Heap.bind. Cost: the code is loaded, if it was not."""
    return _modules.bind(heap, int(module.handle), is_library=True, module=module)


def link(*objects, heap=None, options=None, kind=None):
    """Returns an ObjectCode, a cubin linked from `objects` and Orchard's device functions, loaded and bound.

    objects: relocatable ObjectCodes, as a Program with `relocatable_device_code=True` compiles them.
    heap: as for `bind`. options: LinkerOptions; the default has the architecture of the current GPU.
    kind: "fatbin", "ltoir" or "ptx"; the default is "ltoir" if the options ask for link-time optimization, else "fatbin".
    Raises cuda.core's errors of linking, and those of `bind`. Cost: about 10 ms; seconds for "ltoir" and "ptx"."""
    options = options or LinkerOptions(arch=_arch())
    if kind is None:
        kind = "ltoir" if options.link_time_optimization else "fatbin"
    linked = Linker(*objects, device_object(kind), options=options).link("cubin")
    bind(linked, heap)
    return linked


def compile(source, *, heap=None, options=None, name_expressions=(), lto=False):
    """Returns an ObjectCode, a cubin compiled from CUDA C++, linked with Orchard's device functions, loaded and bound.

    source: may include orchard/orchard.h, declare the functions itself, or do neither.
    heap: as for `bind`. options: ProgramOptions; those that linking needs are set in a copy of it. The default has
        C++17 and the architecture of the current GPU.
    name_expressions: as of Program.compile: `get_kernel` of the result knows them.
    lto: True optimizes malloc together with the kernels, in some 15 s; it needs nvJitLink.
    Raises cuda.core's errors of compiling and linking, and those of `bind`."""
    options = options or ProgramOptions(std="c++17", arch=_arch())
    arch = options.arch or _arch()
    includes = options.include_path or []
    includes = list(includes) if isinstance(includes, (list, tuple)) else [includes]
    if include_path() is not None:
        includes.append(include_path())
    options = dataclasses.replace(options, arch=arch, relocatable_device_code=True, include_path=includes or None,
                                  link_time_optimization=True if lto else None)
    program = Program(declared(source), "c++", options=options)
    compiled = program.compile("ltoir" if lto else "cubin", name_expressions=tuple(name_expressions))
    linking = LinkerOptions(arch=arch, link_time_optimization=True if lto else None)
    kind = "ltoir" if lto else "fatbin"
    linked = Linker(compiled, device_object(kind), options=linking).link("cubin")
    if name_expressions:
        linked = ObjectCode.from_cubin(linked.code, name="orchard_module", symbol_mapping=compiled.symbol_mapping)
    bind(linked, heap)
    return linked
