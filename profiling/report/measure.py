#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Runs benchmarks of a built `orchard` one after another, and makes a result of each.

    profiling/report/measure.py build/cuda/orchard --commit "$(git rev-parse --short HEAD)" --output-dir measured

Without names it runs all that profiling/report/describe knows. Each leaves `raw/NAME.json`, what the program wrote, and
`NAME.json`, ready for profiling/results, in the folder; a line on standard output says how it went. A benchmark that
fails, or takes longer than --timeout, is named at the end and does not keep the others from being run.

Exit codes: 0 all done; 1 a benchmark failed; 2 an argument cannot be used (one line on standard error).
"""

import argparse
import datetime
import json
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # the checkout stays as it is

import make_result
import misshapen
import summarise_oversubscribe
import summarise_pages

DESCRIBED = Path(__file__).resolve().parent / "describe"
# Results whose rows another command writes.
NOT_BENCHMARKS = ("walk", "apps_tiles")
# Commands of their own; all others are `orchard bench NAME`. The device's budget is a quarter of the data for patterns,
# and half of it for the applications.
COMMANDS = {
    "oversubscribe": ("oversubscribe", "--capacity", "8GiB", "--data", "4", "--patterns",
                      "working-set,random,graph-walk"),
    "apps": ("apps", "all", "--backing", "elastic", "--bytes", "8GiB", "--capacity", "4GiB", "--host-budget",
             "10GiB", "--layout", "linear,interleaved:64K", "--limit", "0.25", "--passes", "4", "--move"),
    "apps_model": ("apps", "all", "--backing", "managed", "--bytes", "8GiB", "--capacity", "4GiB", "--host-budget",
                   "10GiB", "--layout", "linear,interleaved:64K", "--limit", "0.25", "--passes", "1"),
    "oversubscribe_sweep": ("oversubscribe", "--capacity", "1GiB", "--data", "0.5,1,2,4,8", "--layouts",
                            "linear,interleaved:64K", "--passes", "5", "--limit", "0.1"),
    "mailbox_managed": ("bench", "mailbox", "--mailbox-memory", "managed"),
}


class Failed(Exception):
    """A benchmark gave no result; the message says why."""


def known_names():
    return sorted(p.stem for p in DESCRIBED.glob("*.json") if p.stem not in NOT_BENCHMARKS)


def machine_of(info):
    """What `orchard info --json` says of the machine, as fields of a result; and driver and CUDA."""
    machine = {"cpu": info["host"]["cpu"], "cores": info["host"]["cores"],
               "memory": f"{round(info['host']['memory_bytes'] / 2**30)} GiB"}
    if not info["gpus"]:
        return machine, None, None
    gpu = info["gpus"][info["cuda"]["current_gpu"]]
    machine = {"gpu": gpu["name"], "architecture": "sm_" + gpu["compute_capability"].replace(".", ""),
               "sms": gpu["multiprocessors"], **machine}
    return machine, *(version_text(info["cuda"][key]) for key in ("driver_version", "runtime_version"))


def version_text(number):
    """13000 is 13.0."""
    return f"{number // 1000}.{number % 1000 // 10}"


def run(command, timeout):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"took longer than {timeout} s") from None
    except OSError as error:
        raise Failed(str(error)) from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "said nothing").splitlines()
        raise Failed(f"ended with {done.returncode}: {lines[-1]}")
    return done.stdout


def measure(name, options, machine, driver, cuda):
    """Runs a benchmark, and writes its result."""
    raw = options.output_dir / "raw" / f"{name}.json"
    command = [str(options.program), *COMMANDS.get(name, ("bench", name)), *options.argument, "--json", str(raw)]
    run(command, options.timeout)
    rows = misshapen.rows_of(json.loads(raw.read_text(encoding="utf-8")))
    if name == "pages":
        rows = summarise_pages.summarised(rows, [summarise_pages.register(r) for r in options.registers])
    if name.startswith("oversubscribe"):
        rows = summarise_oversubscribe.summarised(rows)
    summed = options.output_dir / "raw" / f"{name}.rows.json"
    summed.write_text(json.dumps(rows), encoding="utf-8")
    typed = ["orchard", *command[1:-1], f"{name}.json"]
    arguments = [str(summed), "--name", name, "--describe", str(DESCRIBED / f"{name}.json"), "--version",
                 options.version, "--commit", options.commit, "--date", options.date, "--command", " ".join(typed),
                 "--output", str(options.output_dir / f"{name}.json")]
    for key, value in machine.items():
        arguments += ["--machine", f"{key}={value}"]
    for key, value in (("driver", options.driver or driver), ("cuda", cuda)):
        arguments += [f"--{key}", value] if value else []
    if make_result.main(arguments) != 0:
        raise Failed("its rows do not fit their description")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Run benchmarks of a built `orchard`, and make results of them.")
    parser.add_argument("program", type=Path, help="the program, such as build/cuda/orchard")
    parser.add_argument("names", nargs="*", help=f"results to make; default: {', '.join(known_names())}")
    parser.add_argument("--commit", required=True, help="what the program was built from")
    parser.add_argument("--output-dir", type=Path, default=Path("measured"), metavar="FOLDER")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="default: today")
    parser.add_argument("--driver", help="version of the GPU's driver, as nvidia-smi says; default: the CUDA it supports")
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="of each (default: 600)")
    parser.add_argument("--registers", action="append", default=[], metavar="KERNEL=NUMBER",
                        help="registers of a kernel, for the result of pages; repeat")
    parser.add_argument("--argument", action="append", default=[], metavar="TEXT",
                        help="for the command, as --argument=--repeats=11; repeat")
    options = parser.parse_args(arguments)
    try:
        unknown = sorted(set(options.names) - set(known_names()))
        if unknown:
            raise ValueError(f"there is no result {unknown[0]!r}; choose from {', '.join(known_names())}")
        info = json.loads(run([str(options.program), "info", "--json"], 60))
        options.version = info["version"]
        (options.output_dir / "raw").mkdir(parents=True, exist_ok=True)
    except (Failed, OSError, ValueError) as error:
        print(f"measure.py: {error}", file=sys.stderr)
        return 2
    failed = []
    for name in options.names or known_names():
        began = time.monotonic()
        try:
            measure(name, options, *machine_of(info))
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        except (Failed, misshapen.Unusable, OSError, ValueError) as error:
            failed.append(f"{name}: {error}")
            print(f"{name}: FAILED after {time.monotonic() - began:.0f} s: {error}", flush=True)
    if failed:
        print(f"measure.py: {len(failed)} failed: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
