// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `graph_row`, the edges of one vertex, and `graph_view`, a graph that kernels read.

#include <cstdint>

#include "device/containers/graph_table.cuh"
#include "device/simt/touch.cuh"

namespace orchard {

/// The edges of a vertex, in ascending order of their targets, one behind the other in memory. Valid while nothing
/// changes the vertex's edges. Trivially copyable.
///
///     for (std::uint32_t i = 0; i < row.size(); ++i) { visit(row[i]); }                         // one thread
///     row.for_each(lane, 32, [&](std::uint32_t v) { ... });                                     // a warp
///     row.for_each(threadIdx.x, blockDim.x, [&](std::uint32_t v) { ... });                      // a block
template <class Property = no_property>
class graph_row {
    using layout = device::graph_layout<Property>;

public:
    graph_row() = default;
    ORCHARD_FN graph_row(std::uint64_t run, std::uint32_t degree) : run_{run}, degree_{degree} {}

    /// Returns the number of edges.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t size() const { return degree_; }
    /// Returns the target of edge `i` < `size()`. Cost: a load.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t operator[](std::uint32_t i) const {
        return layout::targets(run_)[i].get();
    }
    /// Returns the property of edge `i` < `size()`.
    [[nodiscard]] ORCHARD_INLINE const Property& property(std::uint32_t i) const {
        return simt::touched(layout::properties(run_)[i]);
    }
    /// Returns the targets, `size()` of them, aligned to 16 B; for loads of several at a time. Not for simulations.
    [[nodiscard]] ORCHARD_INLINE const std::uint32_t* targets() const {
        return reinterpret_cast<const std::uint32_t*>(layout::targets(run_));
    }

    /// Calls `visit(target)` for every `threads`-th edge from edge `thread` on, so that `threads` threads share the
    /// edges: a warp or a block, whose threads need not be converged.
    template <class Visit>
    ORCHARD_FN void for_each(std::uint32_t thread, std::uint32_t threads, Visit visit) const {
        for (std::uint32_t i = thread; i < degree_; i += threads) {
            visit((*this)[i]);
        }
    }

    /// Returns the number of edges whose target is less than `v`: where `v` is, or would be. Cost: log2(size()) + 1
    /// loads.
    [[nodiscard]] ORCHARD_FN std::uint32_t lower_bound(std::uint32_t v) const {
        std::uint32_t first = 0;
        std::uint32_t count = degree_;
        while (count != 0) {
            const std::uint32_t half = count / 2;
            const bool less = (*this)[first + half] < v;
            first = less ? first + half + 1 : first;
            count = less ? count - half - 1 : half;
        }
        return first;
    }
    /// Returns whether there is an edge to `v`. Cost: as `lower_bound`.
    [[nodiscard]] ORCHARD_FN bool contains(std::uint32_t v) const {
        const std::uint32_t i = lower_bound(v);
        return i < degree_ && (*this)[i] == v;
    }

private:
    std::uint64_t run_ = 0;
    std::uint32_t degree_ = 0;
};

/// A graph that kernels read: the graph itself, or a snapshot of it. Trivially copyable; pass it by value.
///
/// Nothing may change the graph meanwhile; a snapshot never changes. A vertex that was never named has no edges.
template <class Property = no_property>
class graph_view {
public:
    graph_view() = default;
    ORCHARD_FN explicit graph_view(device::graph_table* table) : table_{table} {}

    /// Returns one more than the greatest vertex that was named, as a source or a target, or that was reserved.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t vertices() const {
        return table_->vertices.template load<simt::order::relaxed>();
    }
    /// Returns the edges from `u`. Cost: four loads, two of which the L1 cache mostly answers.
    [[nodiscard]] ORCHARD_INLINE graph_row<Property> neighbours(std::uint32_t u) const {
        const device::graph_vertex* const r = table_->find(u);
        return r == nullptr ? graph_row<Property>() : graph_row<Property>(r->run.get(), r->degree.get());
    }
    /// Returns the number of edges from `u`.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t degree(std::uint32_t u) const {
        const device::graph_vertex* const r = table_->find(u);
        return r == nullptr ? 0 : r->degree.get();
    }
    /// Returns whether there is an edge from `u` to `v`. Cost: `neighbours`, and log2(degree) + 1 loads.
    [[nodiscard]] ORCHARD_INLINE bool contains(std::uint32_t u, std::uint32_t v) const {
        return neighbours(u).contains(v);
    }

protected:
    device::graph_table* table_ = nullptr;
};

}  // namespace orchard
