#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Draws a run of `orchard graph`: how many vertices have which degree, how many directions a second each batch changed, and
the memory of the graph over the time of its updates.

    orchard graph --json run.json
    profiling/report/plot_graph.py run.json docs/pictures/graph.svg

Needs matplotlib (package python3-matplotlib).

Exit codes: 0 done; 2 it cannot be done: one line on standard error says why.
"""

import sys

sys.dont_write_bytecode = True  # the checkout stays as it is

import plot_run  # noqa: E402


def degrees_of(document):
    """Returns [(least degree, vertices)] of the ranges 0, 1, 2 to 3, 4 to 7 and so on that have vertices."""
    return [((1 << i) // 2, count) for i, count in enumerate(document["degrees"]) if count != 0]


def rates_of(document):
    """Returns {"added", "removed": ([number of the batch, from 1], [millions of directions a second])}."""
    found = {"added": ([], []), "removed": ([], [])}
    for i, batch in enumerate(document["batches"]):
        if batch["ms"] > 0:
            numbers, rates = found["added" if batch["adds"] else "removed"]
            numbers.append(i + 1)
            rates.append(batch["directions"] / batch["ms"] / 1000)
    return found


def memory_of(document):
    """Returns ([milliseconds of all batches so far], [MiB of the graph], [MiB of compressed rows of the same edges])."""
    at, heap, rows, now = [0], [0], [0], 0
    for batch in document["batches"]:
        now += batch["ms"]
        at.append(now)
        heap.append(batch["bytes"] / plot_run.MIB)
        rows.append((batch["edges"] * 4 + (document["vertices"] + 1) * 8) / plot_run.MIB)
    return at, heap, rows


def draw(document, output):
    degrees, rates, memory = degrees_of(document), rates_of(document), memory_of(document)
    title = f"{document['graph']}: {document['vertices']} vertices, {document['edges']} edges, {document['device']['kind']}"
    figure, (left, middle, right) = plot_run.panels(3)
    left.bar(range(len(degrees)), [count for _, count in degrees], color=plot_run.COLOURS[0])
    left.set_xticks(range(len(degrees)), [str(least) for least, _ in degrees], rotation=60)
    left.set_yscale("log")
    left.set_xlabel("degree, from")
    left.set_ylabel("vertices")
    for (name, (numbers, values)), marker, colour in zip(rates.items(), "^v", plot_run.COLOURS[2:]):
        if numbers:
            middle.plot(numbers, values, marker, markersize=3, color=colour, label=name)
    middle.set_xlabel("batch")
    middle.set_ylabel("M directions/s")
    middle.set_ylim(bottom=0)
    middle.legend()
    right.plot(memory[0], memory[1], color=plot_run.COLOURS[3], label="graph")
    right.plot(memory[0], memory[2], color=plot_run.COLOURS[5], linestyle="--", label="compressed rows")
    right.set_xlabel("ms of updates")
    right.set_ylabel("MiB")
    right.set_ylim(bottom=0)
    right.legend()
    plot_run.save(figure, title, output)


def main(arguments=None):
    return plot_run.main("graph", draw, arguments)


if __name__ == "__main__":
    sys.exit(main())
