#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Says how many registers and how much stack kernels take that call the heap, and what they spill, as ptxas reports it.

A kernel's registers are those of its deepest chain of calls, so that a function that is hardly ever called costs every
kernel. Of the functions that are not inlined ptxas reports stack and spills only; where nvdisasm is at hand, --functions
adds the highest register that each one names, which shows what a kernel owes its registers to.

Compiles profiling/registers/probe.cu, or reads the log of `nvcc -Xptxas -v` on another source. Kernels whose name begins
with "malloc", "free" or "arrays" are held to --malloc, --free or --arrays, all others to --mixed, and each kernel to --stack:
the driver reserves that much memory for every thread that the GPU can hold.

With --without-events, compiles the probe a second time, without the code of kernels that reports events, and compares
the kernels whose name begins with "malloc" or "free": the same instructions outside of functions that are not inlined, as
PTX, and the same registers and stack. (As machine code, the register numbers differ, which ptxas chooses for a kernel and
all of its functions together.)

Exit codes: 0 within the limits, or no limits given; 1 a limit is exceeded, something is spilled, or events change a kernel:
one line on standard error says all; 2 nvcc or the log cannot be used.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import markdown

ROOT = Path(__file__).resolve().parents[2]
PROBE = ROOT / "profiling" / "registers" / "probe.cu"

_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_FUNCTION = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
# Of nvdisasm's listing: where a kernel begins, where one of its functions does, a register.
_SECTION = re.compile(r"\.text\.(\S+):")
_LABEL = re.compile(r"\$[^$\s]+\$(\S+):\s*$")
_REGISTER = re.compile(r"\bR(\d+)\b")

# Of PTX: where a kernel begins; names that the compiler numbers through a file, so that code elsewhere changes the number.
_ENTRY_OF_PTX = re.compile(r"\.visible \.entry (\w+)\(")
_NUMBERED = re.compile(r"%[a-z]+\d+|\$L__\w+|__local_depot\d+|callseq \d+")

# What the probe's kernels call: one function, or several.
CALLS = ("malloc", "free", "arrays", "mixed")


class Unusable(Exception):
    """The log cannot be read; the message says why."""


class Function:
    """What ptxas says of a kernel, or of a function that a kernel calls. Bytes."""

    def __init__(self, name):
        self.name, self.stack, self.stores, self.loads, self.registers = name, 0, 0, 0, None


class Kernel(Function):
    def __init__(self, name, architecture):
        super().__init__(name)
        self.architecture, self.functions = architecture, []


def plain_name(mangled):
    """A mangled C++ name without arguments and template arguments; others as they are."""
    match = re.match(r"_ZN?K?", mangled)
    if not match:
        return mangled
    parts, at = [], match.end()
    while digits := re.match(r"\d+", mangled[at:]):
        at += digits.end()
        parts.append(mangled[at:at + int(digits[0])])
        at += int(digits[0])
    return "::".join(parts) or mangled


def parse(text):
    """The kernels of a log, in its order, each with the functions that ptxas names after it."""
    kernels, current = [], None
    for line in text.splitlines():
        if match := _ENTRY.search(line):
            kernels.append(Kernel(plain_name(match[1]), match[2]))
            current = None
        elif (match := _FUNCTION.search(line)) and kernels:
            name = plain_name(match[1])
            kernel = kernels[-1]
            current = kernel if kernel.name == name else Function(name)
            if current is not kernel:
                kernel.functions.append(current)
        elif (match := _FRAME.search(line)) and current:
            current.stack, current.stores, current.loads = (int(n) for n in match.groups())
        elif (match := _USED.search(line)) and kernels:
            kernels[-1].registers = int(match[1])
    if not kernels:
        raise Unusable("it names no kernel; was it made with -Xptxas -v?")
    for kernel in kernels:
        if kernel.registers is None:
            raise Unusable(f"it does not say how many registers {kernel.name} uses")
    return kernels


def disassembled_registers(listing):
    """{(kernel, function): highest register named + 1} of nvdisasm's listing; a kernel is a function of its own."""
    highest, kernel, function = {}, None, None
    for line in listing.splitlines():
        if match := _SECTION.match(line):
            kernel = function = plain_name(match[1])
        elif (match := _LABEL.match(line)) and kernel:
            function = plain_name(match[1])
        elif kernel:
            named = [int(n) + 1 for n in _REGISTER.findall(line)]
            highest[kernel, function] = max([highest.get((kernel, function), 0), *named])
    return highest


def bodies(ptx):
    """{kernel: its lines} of PTX, with the compiler's numbers counted anew in each kernel."""
    found, body, numbers = {}, None, {}
    for line in ptx.splitlines():
        if match := _ENTRY_OF_PTX.match(line):
            body, numbers = found.setdefault(match[1], []), {}
        elif line.startswith("}"):
            body = None
        elif body is not None:
            body.append(_NUMBERED.sub(lambda match: numbers.setdefault(match[0], f"#{len(numbers)}"), line.strip()))
    return found


def changes(kernels, without, ptx, ptx_without):
    """How kernels that allocate or free differ from those of a build without events, as short sentences."""
    code, other_code = bodies(ptx), bodies(ptx_without)
    other = {kernel.name: kernel for kernel in without}
    compared = [kernel for kernel in kernels if calls_of(kernel.name) in ("malloc", "free")]
    if not compared:
        raise Unusable("the probe has no kernel that allocates or frees alone")
    for kernel in compared:
        bare = other.get(kernel.name)
        if bare is None or not code.get(kernel.name) or kernel.name not in other_code:
            raise Unusable(f"{kernel.name} is missing in PTX, or in the build without events")
        if (kernel.registers, kernel.stack) != (bare.registers, bare.stack):
            yield (f"{kernel.name} takes {kernel.registers} registers and {kernel.stack} bytes of stack, "
                   f"{bare.registers} and {bare.stack} without events")
        if code[kernel.name] != other_code[kernel.name]:
            first = next((n for n, (a, b) in enumerate(zip(code[kernel.name], other_code[kernel.name])) if a != b),
                         min(len(code[kernel.name]), len(other_code[kernel.name])))
            yield f"{kernel.name} has other instructions without events, from line {first + 1} of its PTX on"


def tables(kernels, every_function=False):
    """Markdown: the kernels, and their functions: all, or those with a stack frame or spills."""
    numbers = [False, False, True]
    text = markdown.as_table(["kernel", "for", "registers", "stack (B)", "spill stores (B)", "spill loads (B)"], numbers,
                             [[k.name, k.architecture, *map(str, (k.registers, k.stack, k.stores, k.loads))]
                              for k in kernels])
    rows = [[k.name, f.name, str(f.registers or "-"), *map(str, (f.stack, f.stores, f.loads))]
            for k in kernels for f in sorted(k.functions, key=lambda f: -(f.registers or 0))
            if every_function or f.stack or f.stores or f.loads]
    if rows:
        text += "\n" + markdown.as_table(["kernel", "function", "highest register + 1", "stack (B)", "spill stores (B)",
                                          "spill loads (B)"], numbers, rows)
    return text.removesuffix("\n")


def calls_of(name):
    """Which of CALLS a kernel is, by the first word of its name."""
    first = name.rsplit("::", 1)[-1].split("_")[0]
    return first if first in CALLS else "mixed"


def problems(kernels, most, stack=None):
    """What exceeds `most` registers (for each of CALLS) or `stack` bytes, as short sentences. None: no limit."""
    for kernel in kernels:
        if stack is not None and kernel.stack > stack:
            yield f"{kernel.name} takes {kernel.stack} bytes of stack, at most {stack}"
        limit = most[calls_of(kernel.name)]
        if limit is None:
            continue
        if kernel.registers > limit:
            yield f"{kernel.name} takes {kernel.registers} registers, at most {limit}"
        for function in (kernel, *kernel.functions):
            if function.stores or function.loads:
                where = kernel.name if function is kernel else f"{kernel.name} ({function.name})"
                yield f"{where} spills {function.stores} bytes"


def find_tool(wanted, name):
    """The path of a tool of the CUDA toolkit, or None."""
    for candidate in [wanted] if wanted else [name, f"/usr/local/cuda/bin/{name}"]:
        if found := shutil.which(candidate):
            return found
    return None


def run_tool(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unusable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout + done.stderr


def compile_probe(nvcc, architecture, nvdisasm, *defines):
    """The kernels of the probe and its PTX; with nvdisasm also the registers of their functions."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = f"{folder}/probe.cubin"
        kernels = parse(run_tool(
            [nvcc, "-std=c++20", "-O3", "-DNDEBUG", f"-arch={architecture}", "-cubin", "--keep", "--keep-dir", folder,
             "-DORCHARD_HAS_CUDA=1", *defines, f"-I{ROOT}", f"-I{ROOT / 'runtime' / 'include'}", "-Xptxas", "-v", "-o",
             cubin, str(PROBE)]))
        ptx = Path(folder, "probe.ptx").read_text(encoding="utf-8")
        highest = disassembled_registers(run_tool([nvdisasm, "-c", cubin])) if nvdisasm else {}
    for kernel in kernels:
        for function in kernel.functions:
            function.registers = highest.get((kernel.name, function.name))
    return kernels, ptx


def compile_both(nvcc, architecture, nvdisasm):
    """The kernels of the probe, and what events change in them."""
    with ThreadPoolExecutor(2) as pool:
        with_events = pool.submit(compile_probe, nvcc, architecture, nvdisasm)
        without = pool.submit(compile_probe, nvcc, architecture, None, "-DORCHARD_WITHOUT_EVENTS")
        (kernels, ptx), (bare, bare_ptx) = with_events.result(), without.result()
    return kernels, list(changes(kernels, bare, ptx, bare_ptx))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--malloc", type=int, metavar="N", help="most registers of a kernel that allocates")
    parser.add_argument("--free", type=int, metavar="N", help="most registers of a kernel that only frees")
    parser.add_argument("--arrays", type=int, metavar="N", help="most registers of a kernel that allocates or frees arrays")
    parser.add_argument("--mixed", type=int, metavar="N", help="most registers of a kernel that calls several functions")
    parser.add_argument("--stack", type=int, metavar="N", help="most bytes of a kernel's stack")
    parser.add_argument("--without-events", action="store_true", help="compare with the probe without code for events")
    parser.add_argument("--log", type=Path, metavar="FILE", help="read this log instead of compiling the probe")
    parser.add_argument("--functions", action="store_true", help="list all functions, not only those with a stack frame")
    parser.add_argument("--nvcc", metavar="PATH", help="default: the one in PATH, or in /usr/local/cuda/bin")
    parser.add_argument("--nvdisasm", metavar="PATH", help="as --nvcc; without it --functions knows no registers")
    parser.add_argument("--arch", default="sm_90", help="what the probe is compiled for (default: sm_90)")
    options = parser.parse_args(arguments)
    if options.log and options.without_events:
        parser.error("--without-events compiles the probe; leave out --log")
    changed = []
    try:
        if options.log:
            kernels = parse(options.log.read_text(encoding="utf-8"))
        elif nvcc := find_tool(options.nvcc, "nvcc"):
            nvdisasm = find_tool(options.nvdisasm, "nvdisasm") if options.functions else None
            if options.without_events:
                kernels, changed = compile_both(nvcc, options.arch, nvdisasm)
            else:
                kernels, _ = compile_probe(nvcc, options.arch, nvdisasm)
        else:
            raise Unusable("no nvcc was found; name it by --nvcc, or a log by --log")
    except (OSError, UnicodeDecodeError, Unusable) as error:
        print(f"registers.py: {f'{options.log}: ' if options.log else ''}{error}", file=sys.stderr)
        return 2
    print(tables(kernels, options.functions))
    found = [*problems(kernels, {calls: getattr(options, calls) for calls in CALLS}, options.stack), *changed]
    if found:
        print(f"registers.py: {'; '.join(found)}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
