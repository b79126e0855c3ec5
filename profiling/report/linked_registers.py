#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Says how many registers and how much stack a kernel takes that calls the device library, as the device linker reports it.

Compiles the library's device code (runtime/device_library) with full optimization, as cmake/device_library.cmake does, and
links the kernels tests/package/probe_*.cu with it, which call malloc and free and need hardly any registers themselves. Each
is held to the limits below. registers.py does the same for kernels that contain all of the heap's code.

usage: profiling/report/linked_registers.py [NVCC]

Exit codes: 0 within the limits; 1 a limit is exceeded; 2 nvcc cannot be used. Takes some 20 s of processor time.
"""

import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import markdown
from registers import ROOT, Unusable, find_tool, run_tool

LIBRARY = ROOT / "runtime" / "device_library"
# What a program is linked with: the source, and the options that CMake gives it.
PARTS = {"device_library": ["-maxrregcount=56"], "slow_paths": ["-maxrregcount=32"],
         "replaced_functions": ["-maxrregcount=32", "-DORCHARD_SLOW_PATHS_INLINE=1"]}
# (probe, what it is linked with, most registers, most bytes of stack). Callers of the replaced malloc expect that registers
# from R32 on keep their values (replaced_functions.cu). The stack is reserved for every thread that the GPU can hold.
PROBES = (("heap_ref", ("device_library", "slow_paths"), 48, 1136),
          ("orchard_malloc", ("device_library", "slow_paths"), 56, 1184),
          ("replaced", ("replaced_functions", "replace_malloc"), 32, 1216))
_USED = re.compile(r"used (\d+) registers, (?:used \d+ barriers, )?(\d+) stack")


def used_by_probe(text):
    """(registers, stack) of the one kernel in the device linker's report."""
    found = _USED.findall(text)
    if len(found) != 1:
        raise Unusable(f"the device linker reports {len(found)} kernels, not one:\n{text}")
    return tuple(map(int, found[0]))


def measure(nvcc, folder):
    """[(probe, registers, stack)]"""
    flags = ["-arch=sm_90", "-O3", "-DNDEBUG", "-rdc=true", f"-I{ROOT}", f"-I{ROOT / 'runtime' / 'include'}"]

    def compile_part(name):
        options = ["-std=c++20", "-DORCHARD_HAS_CUDA=1", *PARTS[name]]
        run_tool([nvcc, *flags, *options, "-dc", "-o", f"{folder}/{name}.o", str(LIBRARY / f"{name}.cu")])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_part, PARTS))
    run_tool([nvcc, "-gencode", "arch=compute_80,code=compute_80", "-dc", "-o", f"{folder}/replace_malloc.o",
              str(LIBRARY / "replace_malloc.ptx")])
    rows = []
    for probe, parts, *_ in PROBES:
        own = f"{folder}/{probe}.o"
        run_tool([nvcc, *flags, "-std=c++17", "-dc", "-o", own, str(ROOT / "tests" / "package" / f"probe_{probe}.cu")])
        report = run_tool([nvcc, "-arch=sm_90", "-dlink", "-Xnvlink", "-v", "-o", f"{folder}/linked.o", own,
                           *(f"{folder}/{part}.o" for part in parts)])
        rows.append((probe, *used_by_probe(report)))
    return rows


def main(arguments):
    try:
        nvcc = find_tool(arguments[0] if arguments else None, "nvcc")
        if nvcc is None:
            raise Unusable("no nvcc was found; name it")
        with tempfile.TemporaryDirectory() as folder:
            rows = measure(nvcc, folder)
    except (Unusable, OSError) as error:
        print(f"linked_registers.py: {error}", file=sys.stderr)
        return 2
    table = [[probe, str(registers), str(most), str(stack), str(most_stack)]
             for (probe, registers, stack), (_, _, most, most_stack) in zip(rows, PROBES)]
    print(markdown.as_table(["malloc and free of", "registers", "at most", "stack (B)", "at most"], [False] + [True] * 4, table),
          end="")
    beyond = [f"{probe}: {registers} registers and {stack} B of stack, at most {most} and {most_stack}"
              for (probe, registers, stack), (_, _, most, most_stack) in zip(rows, PROBES)
              if registers > most or stack > most_stack]
    if beyond:
        print("linked_registers.py: " + "; ".join(beyond), file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
