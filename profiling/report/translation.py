#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Counts the instructions from an index to an element's address, for each kind of array, and for AlignMalloc's equation 2.

Compiles profiling/registers/translation.cu, whose kernels have the same loop but for the way to the address, and counts
the instructions of each loop in nvdisasm's listing. Where the compiler made several loops of one, as for an array that may
have tail rows, the shortest counts: that of rows of one tile. The plain pointer's loop has one instruction to the address,
which the other counts are relative to.

Exit codes: 0, or no array takes more than equation 2; 1 an array does; 2 nvcc or nvdisasm cannot be used.
"""

import argparse
import re
import sys
import tempfile

import markdown
from registers import ROOT, Unusable, find_tool, run_tool

PROBE = ROOT / "profiling" / "registers" / "translation.cu"
PLAIN, EQUATION = "pointer", "eq_2"
# Of a plain pointer's loop: base + 4 * index, one multiplication and addition of 64 bits.
PLAIN_ADDRESS = 1

_SECTION = re.compile(r"\.text\.(\w+):")
_LABEL = re.compile(r"(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]+\*/\s+(.*?);")
_BRANCH = re.compile(r"BRA\S* .*`\((\.L_x_\d+)\)")


def shortest_loops(listing):
    """{kernel: instructions of its shortest loop, the branch included}. An endless loop of one branch is none."""
    found, labels, kernel, count = {}, {}, None, 0
    for line in listing.splitlines():
        if match := _SECTION.match(line):
            kernel, labels, count = match[1], {}, 0
        elif match := _LABEL.match(line):
            labels[match[1]] = count
        elif (match := _INSTRUCTION.match(line)) and kernel:
            count += 1
            branch = _BRANCH.search(match[1])
            if branch and branch[1] in labels and (length := count - labels[branch[1]]) > 1:
                found[kernel] = min(length, found.get(kernel, length))
    return found


def address_instructions(loops):
    """{kernel: instructions from index to address}."""
    if PLAIN not in loops or EQUATION not in loops:
        raise Unusable(f"the listing has no loop of {PLAIN} or {EQUATION}")
    return {kernel: length - loops[PLAIN] + PLAIN_ADDRESS for kernel, length in loops.items()}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nvcc", metavar="PATH", help="default: the one in PATH, or in /usr/local/cuda/bin")
    parser.add_argument("--nvdisasm", metavar="PATH", help="as --nvcc")
    parser.add_argument("--arch", default="sm_90", help="what is compiled for (default: sm_90)")
    options = parser.parse_args(arguments)
    try:
        tools = {name: find_tool(getattr(options, name), name) for name in ("nvcc", "nvdisasm")}
        if missing := [name for name, path in tools.items() if not path]:
            raise Unusable(f"no {missing[0]} was found; name it by --{missing[0]}")
        with tempfile.TemporaryDirectory() as folder:
            cubin = f"{folder}/translation.cubin"
            run_tool([tools["nvcc"], "-std=c++20", "-O3", "-DNDEBUG", f"-arch={options.arch}", "-cubin",
                      "-DORCHARD_HAS_CUDA=1", f"-I{ROOT}", "-o", cubin, str(PROBE)])
            counts = address_instructions(shortest_loops(run_tool([tools["nvdisasm"], "-c", cubin])))
    except (OSError, Unusable) as error:
        print(f"translation.py: {error}", file=sys.stderr)
        return 2
    print(markdown.as_table(["way", "instructions"], [False, True], [[k, str(n)] for k, n in counts.items()]), end="")
    over = [kernel for kernel, n in counts.items() if n > counts[EQUATION]]
    if over:
        print(f"translation.py: more than {EQUATION}: {', '.join(over)}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
