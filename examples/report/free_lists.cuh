// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernel that frees what threads have kept in lists of their own.

#include <cstdint>

#include "device/simt/launch.cuh"

namespace orchard::examples {

/// Thread i frees all nodes of the list that begins at `heads[i]`. `Memory`: `void free(void*) const`.
/// @tparam Next  the member of a node that is the next node; null: the last
template <class Memory, class Node, Node* Node::*Next>
struct free_lists {
    Memory memory;
    Node* const* heads;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        for (Node* n = i < count ? heads[i] : nullptr; n != nullptr;) {
            Node* const gone = n;
            n = n->*Next;
            memory.free(gone);
        }
    }
};

}  // namespace orchard::examples
