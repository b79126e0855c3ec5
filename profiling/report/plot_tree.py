#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""Draws a run of `orchard tree`: the time of each build, and how deep the octree's bodies lie.

    orchard tree --json run.json
    profiling/report/plot_tree.py run.json docs/pictures/tree.svg

Needs matplotlib (package python3-matplotlib).

Exit codes: 0 done; 2 it cannot be done: one line on standard error says why.
"""

import sys

sys.dont_write_bytecode = True  # the checkout stays as it is

import plot_run  # noqa: E402


def builds_of(document):
    """Returns {tree: [milliseconds of each build]}."""
    trees = {"search tree, in the heap": "search_tree_in_heap", "search tree, in an array": "search_tree_in_array",
             "octree, in the heap": "octree"}
    if "search_tree_in_allocator" in document and document["search_tree_in_allocator"] is not None:
        trees[f"search tree, in {document['allocator']}"] = "search_tree_in_allocator"
    return {name: [us / 1000 for us in document[member]["times"]["build_us"]] for name, member in trees.items()}


def draw(document, output):
    builds, depths = builds_of(document), document["octree"]["at_depth"]
    depths = depths[:max((i + 1 for i, count in enumerate(depths) if count != 0), default=0)]
    title = (f"search tree of {document['edges']} edges between {document['nodes']} vertices; octree of "
             f"{document['bodies']} bodies in {document['octree']['cells']} cells; {document['device']['kind']}")
    figure, (left, right) = plot_run.panels(2)
    for (name, milliseconds), colour in zip(builds.items(), plot_run.COLOURS):
        left.plot(range(1, len(milliseconds) + 1), milliseconds, marker=".", linewidth=1, color=colour, label=name)
    left.set_xlabel("build")
    left.set_ylabel("ms")
    left.set_yscale("log")
    left.legend()
    right.bar(range(len(depths)), depths, color=plot_run.COLOURS[2])
    right.set_xlabel("depth of the body's cell")
    right.set_ylabel("bodies")
    plot_run.save(figure, title, output)


def main(arguments=None):
    return plot_run.main("tree", draw, arguments)


if __name__ == "__main__":
    sys.exit(main())
