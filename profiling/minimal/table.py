#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""What the programs of profiling/minimal cost, as tables in Markdown.

usage: profiling/minimal/table.py compile BUILD [ROUNDS]
       profiling/minimal/table.py run BUILD [ROUNDS]
       profiling/minimal/table.py sizes|iterations|threads BUILD [ROUNDS]

compile   compiles and links each program of the build folder anew, by turns, with the commands of its build, which must be
          one by Ninja: processor seconds (user) of the compiler, registers and stack of the two kernels after the link
          (cuobjdump, from PATH or the variable CUOBJDUMP), sizes, processor seconds of the links. Without a GPU.
run       runs them by turns on a GPU: the time before main and up to the end of the first kernel, memory, repetitions.
          CUDA's heap gets 1 GiB, Gallatin 16 GiB. Each run has 60 s.
sizes     on a GPU, as the paper's Fig. 10(a) (Zhang et al., AlignMalloc, TPDS 2025): 16,384 threads ask for 2^n to 2^(n+1)
          bytes each, of another size in each repetition.
iterations   its Fig. 10(b): 16,384 threads ask for 1 to 256 KB each, again and again.
threads   its Fig. 11: 128 to 262,144 threads ask for 1 KB or 8 KB each.
          In these three CUDA's heap and Gallatin get four times what is asked for, at least 1 GiB and 16 GiB, at most
          64 GiB. Each row is printed when it is there: microseconds of the kernel that allocates, in the 1st, 3rd, 10th
          and 30th repetition; (n) are requests that returned null in all repetitions.

ROUNDS: 3 by default; each figure is the median. Exit code: 1 if a program failed.
"""

import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))
sys.dont_write_bytecode = True

import markdown

PROGRAMS = {"cuda": "CUDA's `malloc`", "gallatin": "Gallatin", "heap_ref": "`heap_ref`, C++20",
            "heap_ref_17": "`heap_ref`, C++17", "heap_ref_17_rdc": "`heap_ref`, C++17, `-rdc=true`",
            "orchard_malloc": "`orchard_malloc`, `-rdc=true`", "replaced": "CUDA's source, Orchard linked"}
ARGUMENTS = {"cuda": ["--limit", str(1 << 30)]}


def cpu_seconds(command, folder):
    """Returns the user and system seconds of a shell command. Ends the program if the command fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "CCACHE_DISABLE": "1"})
    if done.returncode:
        sys.exit(f"{command}\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def kernels(executable):
    """Returns registers and stack of the kernels that allocate and release."""
    tool = os.environ.get("CUOBJDUMP") or shutil.which("cuobjdump") or sys.exit("no cuobjdump: set CUOBJDUMP")
    text = subprocess.run([tool, "--dump-resource-usage", executable], check=True, capture_output=True, text=True).stdout
    found = {kernel: (int(registers), int(stack)) for kernel, registers, stack in
             re.findall(r"Function _Z\d+((?:allocate|release)_blocks)\S*:\s+REG:(\d+) STACK:(\d+)", text)}
    return found["allocate_blocks"], found["release_blocks"]


def compile_table(build, programs, rounds):
    steps = {}
    for name in programs:
        listed = subprocess.run(["ninja", "-t", "commands", name], cwd=build, check=True, capture_output=True, text=True)
        lines = listed.stdout.splitlines()
        steps[name] = ([line for line in lines if " -c " in line], [line for line in lines if " -c " not in line])
    times = {name: ([], []) for name in programs}
    for _ in range(rounds):
        for name, (compiles, links) in steps.items():
            times[name][0].append(sum(cpu_seconds(line, build)[0] for line in compiles))
            times[name][1].append(sum(sum(cpu_seconds(line, build)) for line in links))
    rows = []
    for name in programs:
        stripped = build / f"{name}.stripped"
        subprocess.run(["strip", "-o", stripped, build / name], check=True)
        (object_file,) = re.findall(r"-o (\S+\.o)", steps[name][0][0])
        (r0, s0), (r1, s1) = kernels(build / name)
        sizes = [f"{path.stat().st_size / 1000:,.0f}" for path in (build / object_file, stripped)]
        rows.append([PROGRAMS[name], f"{statistics.median(times[name][0]):.2f}", f"{r0} / {r1}", f"{s0} / {s1}", *sizes,
                     f"{statistics.median(times[name][1]):.2f}"])
    return markdown.as_table(["program", "compile (s)", "registers: allocate / release", "stack (B)", "object (KB)",
                              "program (KB)", "link (s)"], [False, True], rows)


def run_table(build, programs, rounds):
    lines = {name: [] for name in programs}
    failed = False
    for _ in range(rounds):
        for name in programs:
            environment = {**os.environ, "START_US": str(time.time_ns() // 1000)}
            try:
                done = subprocess.run([build / name, *ARGUMENTS.get(name, [])], capture_output=True, text=True, timeout=60,
                                      env=environment)
                text, code = done.stdout + done.stderr, done.returncode
            except subprocess.TimeoutExpired:
                text, code = "no end within 60 s", -1
            fields = dict(word.split("=", 1) for word in text.split() if "=" in word)
            if code != 0 or "start_up_ms" not in fields:
                print(f"{name}: exit code {code}: {text.strip()}", file=sys.stderr)
                failed = True
            else:
                lines[name].append(fields)
    rows = []
    for name, runs in lines.items():
        if not runs:
            continue

        def middle(field, runs=runs):
            return statistics.median(float(run[field]) for run in runs)

        pairs = [f"{middle(f'allocate_{n}_ms') * 1000:,.0f} / {middle(f'release_{n}_ms') * 1000:,.0f}"
                 for n in (1, 3, 10, 30)]
        rows.append([PROGRAMS[name], f"{middle('before_main_ms') + middle('start_up_ms'):.0f}", *pairs,
                     f"{middle('peak_mib'):,.0f}"])
    print(markdown.as_table(["program", "start to first blocks (ms)", "1st allocate / release (us)", "3rd", "10th", "30th",
                             "GPU memory (MiB)"], [False, True], rows), end="")
    return 1 if failed else 0


def paper_rows(what):
    """Returns for each row of a figure its name, threads, least bytes and bytes that none reaches (0: all are alike)."""
    if what == "sizes":
        return [(f"{low} to {2 * low} B", 16384, low, 2 * low) for low in (1 << n for n in range(8, 22))]
    if what == "iterations":
        return [("1 to 256 KB", 16384, 1 << 10, 256 << 10)]
    return [(f"{threads:,} of {size} B", threads, size, 0) for size in (1 << 10, 8 << 10)
            for threads in (1 << n for n in range(7, 19))]


def paper_cell(program, threads, low, below, rounds):
    """Returns the cell of one program: times of the 1st, 3rd, 10th and 30th repetition, or how it failed."""
    most = min(max(4 * threads * max(low, below), 1 << 30), 64 << 30)
    arguments = ["--n", str(threads), "--bytes", str(low), "--limit", str(most), "--pool", str(max(most, 16 << 30))]
    arguments += ["--below", str(below)] if below else []
    runs = []
    for _ in range(rounds):
        try:
            done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30)
        except subprocess.TimeoutExpired:
            return "no end within 30 s"
        fields = dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)
        if "allocate_1_ms" not in fields:
            return "failed: " + " ".join(done.stderr.split())[:60].replace("|", "/")
        runs.append(fields)
    times = [statistics.median(float(run[f"allocate_{n}_ms"]) for run in runs) * 1000 for n in (1, 3, 10, 30)]
    nulls = max(int(run["nulls"]) for run in runs)
    wrong = max(int(run["wrong"]) for run in runs)
    text = " / ".join(f"{time:,.0f}" for time in times)
    return text + (f" ({nulls:,})" if nulls else "") + (f", {wrong:,} wrong" if wrong else "")


def paper_table(what, build, rounds):
    suffix = "" if what == "threads" else "_random"
    programs = [(PROGRAMS[name], build / (name + suffix)) for name in ("cuda", "gallatin", "heap_ref")
                if (build / (name + suffix)).exists()]
    if not programs:
        print(f"table.py: '{build}' has none of the programs; build profiling/minimal there", file=sys.stderr)
        return 2
    head = ["threads" if what == "threads" else "bytes a thread", *(name for name, _ in programs)]
    print(markdown.as_table(head, [False, True], []), end="", flush=True)
    for name, threads, low, below in paper_rows(what):
        cells = [paper_cell(program, threads, low, below, rounds) for _, program in programs]
        print(markdown.as_table(head, [False, True], [[name, *cells]]).splitlines()[-1], flush=True)
    return 0


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("compile", "run", "sizes", "iterations", "threads"):
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(sys.argv[2]).resolve()
    rounds = int(sys.argv[3]) if len(sys.argv) == 4 else 3
    if sys.argv[1] not in ("compile", "run"):
        return paper_table(sys.argv[1], build, rounds)
    programs = [name for name in PROGRAMS if (build / name).exists()]
    if not programs:
        print(f"table.py: '{build}' has no program; build profiling/minimal there", file=sys.stderr)
        return 2
    if sys.argv[1] == "run":
        return run_table(build, programs, rounds)
    print(compile_table(build, programs, rounds), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
