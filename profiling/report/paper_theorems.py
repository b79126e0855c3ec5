#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the Orchard authors.
"""The driver's prefetcher on whole big pages (docs/uvm.md, rules P2 to P4), and AlignMalloc's theorems held against it.

    profiling/report/paper_theorems.py

prints what docs/uvm_paper.md says of Figures 4 and 7 and of Theorems 1 to 3 as JSON. Sets of leaves (64 KiB each) are
bits of an integer: bit i is leaf i. A node is a range of leaves, [first, first + size), of a binary tree. A state of a
VA block is the set of leaves on the GPU. It can be reached when faults alone bring it about from an empty block.
Nothing here needs more than Python; all of it takes a few seconds.

Source of the theorems: Zhang et al., AlignMalloc, TPDS 2025, section V-B.
"""

import itertools
import json
import sys

PERCENT = 51  # the driver's threshold: more than 51 of 100


def leaves_of(*indices):
    """The set of these leaves."""
    return sum(1 << i for i in set(indices))


def indices_of(leaves):
    return [i for i in range(leaves.bit_length()) if leaves >> i & 1]


def mask(first, size):
    """The leaves of a node."""
    return ((1 << size) - 1) << first


def passes(tree, first, size):
    """P3: whether more than 51 % of a node's leaves are in `tree`."""
    return (tree & mask(first, size)).bit_count() * 100 > size * PERCENT


def largest(tree, leaf, leaves):
    """The largest node above `leaf` that passes, as its leaves; 0 where none does."""
    size = leaves
    while size > 1:
        first = leaf // size * size
        if passes(tree, first, size):
            return mask(first, size)
        size //= 2
    return 0


def prefetched(resident, faults, leaves):
    """What one service brings beside `faults`. P4: the tree is not updated with what comes."""
    tree = resident | faults
    brought = 0
    for leaf in indices_of(faults):
        brought |= largest(tree, leaf, leaves)
    return brought & ~tree


def after(resident, faults, leaves):
    """The state after one service."""
    return resident | faults | prefetched(resident, faults, leaves)


def batches(missing, together):
    """The sets that can fault at once: every subset of `missing`, or, not `together`, every single leaf of it."""
    if not together:
        return [1 << i for i in indices_of(missing)]
    subsets, some = [], missing
    while some:
        subsets.append(some)
        some = (some - 1) & missing
    return subsets


def reachable(leaves, together, owned=None):
    """All states that faults on `owned` leaves (None: all) lead to from an empty block, ascending."""
    owned = mask(0, leaves) if owned is None else owned
    found, open_ = {0}, [0]
    while open_:
        state = open_.pop()
        for faults in batches(owned & ~state, together):
            reached = after(state, faults, leaves)
            if reached not in found:
                found.add(reached)
                open_.append(reached)
    return sorted(found)


def nodes(leaves):
    """(first, size) of all nodes but the leaves, as in the paper's theorems; small ones first."""
    size = 2
    while size <= leaves:
        yield from ((first, size) for first in range(0, leaves, size))
        size *= 2


def sibling(first, size):
    return first ^ size


def services(leaves, together):
    """(state, faults, prefetched) of every service that prefetches, in every state that can be reached."""
    for state in reachable(leaves, together):
        for faults in batches(mask(0, leaves) & ~state, together):
            brought = prefetched(state, faults, leaves)
            if brought:
                yield state, faults, brought


def example(state, faults, brought, first, size):
    return {"resident": indices_of(state), "fault": indices_of(faults), "prefetched": indices_of(brought),
            "node": [first, first + size - 1]}


def theorem_1(leaves, together):
    """At most half of a node's leaves are there, or all. Of states: one fails where any of its nodes does."""
    states = reachable(leaves, together)
    failing, worst = 0, 0.5
    for state in states:
        shares = [(state & mask(*node)).bit_count() / node[1] for node in nodes(leaves)]
        between = [share for share in shares if 0.5 < share < 1]
        failing += bool(between)
        worst = max([worst, *between])
    return {"cases": len(states), "failing": failing, "worst_share": worst}


def theorem_2(leaves, together):
    """What is prefetched into a node has its cause in the node or its sibling: one of them faulted or changed.

    Cases are pairs of a service and a node, not the root, that gets leaves by its prefetch. That they come changes the
    node's children: so read, the theorem says nothing, and this change is not counted.
    """
    cases, failing, first_failing = 0, 0, None
    for state, faults, brought in services(leaves, together):
        for first, size in nodes(leaves):
            own = mask(first, size)
            if not brought & own or size == leaves:
                continue
            cases += 1
            beside = mask(sibling(first, size), size)
            if not faults & own and not (faults | brought) & beside:
                failing += 1
                first_failing = first_failing or example(state, faults, brought, first, size)
    return {"cases": cases, "failing": failing, "example": first_failing}


def full(tree, first, size):
    """Whether a node is full once it has been looked at: it was, or it passes itself."""
    own = mask(first, size)
    return tree & own == own or passes(tree, first, size)


def theorem_3(leaves, together, at_parent):
    """What is prefetched into a node because of its sibling finds the sibling full and the node not empty.

    Cases are pairs as above, in which the sibling has faulted and the node has not. `at_parent`: only those in which
    the node that passes is the parent itself, as the paper's proof takes it; else any node above.
    """
    counts = {"cases": 0, "sibling_not_full": 0, "node_empty": 0, "example_not_full": None, "example_empty": None}
    for state, faults, brought in services(leaves, together):
        tree = state | faults
        for first, size in nodes(leaves):
            own, beside = mask(first, size), mask(sibling(first, size), size)
            if size == leaves or not brought & own or faults & own or not faults & beside:
                continue
            parent = min(first, sibling(first, size)), 2 * size
            if at_parent and not (passes(tree, *parent) and
                                  all(largest(tree, leaf, leaves) == mask(*parent)
                                      for leaf in indices_of(faults & beside))):
                continue
            counts["cases"] += 1
            for wrong, count, shown in ((not full(tree, sibling(first, size), size), "sibling_not_full", "not_full"),
                                        (not state & own, "node_empty", "empty")):
                if wrong:
                    counts[count] += 1
                    key = f"example_{shown}"
                    counts[key] = counts[key] or example(state, faults, brought, first, size)
    return counts


def arrangements(first, size):
    """All ways to place warptrees into a node by the paper's equation (3), as lists of (first, size)."""
    yield []
    if size == 1:
        return
    half = size // 2
    yield [(first, half)]
    yield [(first + half, half)]
    for left, right in itertools.product(arrangements(first, half), arrangements(first + half, half)):
        if left or right:
            yield left + right


def crossings(trees, leaves):
    """(services looked at, those that bring a leaf of a warptree without a fault, or of no warptree)."""
    owned = sum(mask(*tree) for tree in trees)
    looked, crossed = 0, 0
    for state in reachable(leaves, True, owned):
        for faults in batches(owned & ~state, True):
            looked += 1
            own = sum(mask(*tree) for tree in trees if faults & mask(*tree))
            crossed += bool(prefetched(state, faults, leaves) & ~own)
    return looked, crossed


def isolation(leaves):
    """Figure 7: the same over every arrangement, and over two warptrees side by side without padding."""
    padded = [crossings(trees, leaves) for trees in arrangements(0, leaves) if trees]
    packed = crossings([(0, leaves // 2), (leaves // 2, leaves // 2)], leaves)
    return {"arrangements": len(padded), "services": sum(looked for looked, _ in padded),
            "crossings": sum(crossed for _, crossed in padded),
            "packed_services": packed[0], "packed_crossings": packed[1]}


def play(faults, leaves, resident=0):
    """One service a leaf: [{"fault": leaf, "prefetched": [...], "resident": [...]}]; a hit has no "prefetched"."""
    steps = []
    for leaf in faults:
        if resident >> leaf & 1:
            steps.append({"hit": leaf, "resident": indices_of(resident)})
            continue
        brought = prefetched(resident, 1 << leaf, leaves)
        resident |= 1 << leaf | brought
        steps.append({"fault": leaf, "prefetched": indices_of(brought), "resident": indices_of(resident)})
    return steps


def report(most_leaves=16):
    """All of it. Trees of up to 8 leaves see every batch of faults, larger ones single faults."""
    trees = [n for n in (4, 8, 16) if n <= most_leaves]
    together = {n: n <= 8 for n in trees}
    return {
        "figure_4": play((0, 1, 2, 4), 32),
        "figure_7": isolation(8),
        "theorem_1": {str(n): theorem_1(n, together[n]) for n in trees},
        "theorem_1_example": play((0, 1, 4, 2), 8),
        "cascade": play((1, 3, 4, 0, 5), 8),
        "theorem_2": {str(n): theorem_2(n, together[n]) for n in trees},
        "theorem_3_any_node_above": {str(n): theorem_3(n, together[n], False) for n in trees},
        "theorem_3_parent": {str(n): theorem_3(n, together[n], True) for n in trees},
    }


if __name__ == "__main__":
    json.dump(report(), sys.stdout, indent=1)
    print()
