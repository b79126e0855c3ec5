// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `count_kept`: the memory that a snapshot keeps.

#include <cstdint>
#include <orchard/graph.cuh>

#include "examples/dynamic_graph/analyses_kernels.cuh"

namespace orchard::examples {

/// The blocks of a graph's rows.
template <class Property>
struct row_blocks : graph_view<Property> {
    row_blocks() = default;
    explicit row_blocks(const graph_view<Property>& of) : graph_view<Property>(of) {}

    /// Returns the word of the block with the edges of `u`; 0 if there is none.
    [[nodiscard]] ORCHARD_FN std::uint64_t of(std::uint32_t u) const {
        const device::graph_vertex* const r = this->table_->find(u);
        return r == nullptr ? 0 : r->run.get();
    }
};

/// Adds to `bytes` those of the rows that a snapshot alone has. A vertex whose edges have changed since it was opened
/// has another block, because a snapshot's block is neither changed nor freed.
template <class Property>
struct count_kept {
    row_blocks<Property> snapshot;
    row_blocks<Property> graph;
    std::uint32_t vertices;
    word64* bytes;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint64_t mine = 0;
        for (std::uint64_t i = at.global_thread(); i < vertices; i += at.threads()) {
            const auto u = static_cast<std::uint32_t>(i);
            const std::uint64_t kept = snapshot.of(u);
            mine += kept != graph.of(u) ? device::graph_run::bytes(kept) : 0;
        }
        if (mine != 0) {
            bytes->fetch_add<simt::order::relaxed>(mine);
        }
    }
};

}  // namespace orchard::examples
