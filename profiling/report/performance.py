#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Generates profiling/results/report.md from the committed results.

Exit codes: 0 done (with --check: the page is up to date); 1 with --check: it is not, the difference is printed;
2 a result cannot be used: one line on standard error names the file and the field.
"""

import argparse
import difflib
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the checkout stays as it is

import markdown
import results

ROOT = Path(__file__).resolve().parents[2]
DESCRIBED = Path(__file__).resolve().parent / "describe"


def described_as_shown():
    """By name of a result, which repetition its times are of, as the descriptions say it: for results that were made
    before they said so themselves. What a column shows never changes."""
    texts = {path.stem: json.loads(path.read_text(encoding="utf-8")).get("shown") for path in DESCRIBED.glob("*.json")}
    return {name: text for name, text in texts.items() if text}


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Generate profiling/results/report.md from profiling/results/*.json.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail with a diff when the page is stale")
    parser.add_argument("--results", type=Path, default=ROOT / "profiling" / "results", metavar="FOLDER")
    parser.add_argument("--output", type=Path, default=ROOT / "profiling" / "results" / "report.md", metavar="FILE")
    options = parser.parse_args(arguments)

    if not options.results.is_dir():
        print(f"performance.py: {options.results}: no such folder", file=sys.stderr)
        return 2
    try:
        wanted = markdown.page(results.load_all(options.results), described_as_shown())
    except results.BadResult as error:
        print(f"performance.py: {error}", file=sys.stderr)
        return 2
    present = options.output.read_text(encoding="utf-8") if options.output.exists() else ""
    if options.check:
        difference = list(difflib.unified_diff(present.splitlines(keepends=True), wanted.splitlines(keepends=True),
                                               f"{options.output.name} (committed)",
                                               f"{options.output.name} (generated)"))
        sys.stdout.writelines(difference)
        if difference:
            print(f"performance.py: {options.output} is stale; run profiling/report/performance.py", file=sys.stderr)
        return 1 if difference else 0
    if present != wanted:
        options.output.write_bytes(wanted.encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
