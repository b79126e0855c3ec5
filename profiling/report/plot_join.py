#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Draws a run of `orchard join`: the times of the kernels that probe and that free, for each kind of memory and join.

    orchard join --json run.json
    profiling/report/plot_join.py run.json docs/pictures/join.svg

Needs matplotlib (package python3-matplotlib).

Exit codes: 0 done; 2 it cannot be done: one line on standard error says why.
"""

import sys

sys.dont_write_bytecode = True  # the checkout stays as it is

import plot_run  # noqa: E402


def times_of(document, step):
    """Returns {memory: [milliseconds of each join]} of "probe" or "free". An array ("direct") has nothing to free."""
    return {run["memory"]: [us / 1000 for us in run[step + "_us"]] for run in document["runs"]
            if step != "free" or run["memory"] != "direct"}


def draw(document, output):
    steps = [(step, times_of(document, step)) for step in ("probe", "free")]
    names = [run["memory"] for run in document["runs"]]
    title = (f"two tables of {document['tuples']} tuples, {document['matches']} matches in {document['pages']} pages of "
             f"{document['page_bytes']} B, {document['device']['kind']}")
    figure, axes = plot_run.panels(2)
    for (step, times), axis in zip(steps, axes):
        for name, milliseconds in times.items():
            axis.plot(range(1, len(milliseconds) + 1), milliseconds, marker=".", linewidth=1, label=name,
                      color=plot_run.COLOURS[names.index(name) % len(plot_run.COLOURS)])
        axis.set_xlabel("join")
        axis.set_ylabel(f"{step}, ms")
        axis.set_ylim(bottom=0)
    axes[0].legend(loc="upper right", bbox_to_anchor=(-0.15, 1))
    plot_run.save(figure, title, output)


def main(arguments=None):
    return plot_run.main("join", draw, arguments)


if __name__ == "__main__":
    sys.exit(main())
