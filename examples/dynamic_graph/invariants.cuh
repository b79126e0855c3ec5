// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What must hold of rows and of results whatever the graph is, checked by kernels that count where it does not. So
/// graphs are checked that are too large for a program on the host.
///
///     rows          ascend, have no loops, and each edge is in both rows; the sum of the edges' marks tells sets apart
///     levels        of neighbours differ by at most 1, and each vertex but the source has a neighbour one level
///                   below it. No other numbers fulfil that
///     lengths       of paths are no greater than a neighbour's and the edge's weight, and equal to that of one:
///                   the same, if weights are greater than 0
///     labels        are equal along edges, and are the number of a vertex with that label, no greater than the
///                   vertex's
///     cores         a vertex of core k has at least k neighbours of core k or more

#include <cstdint>

#include "device/simt/random.hpp"
#include "examples/dynamic_graph/analyses_kernels.cuh"

namespace orchard::examples {

/// What a check counts; zero before.
struct invariant_counts {
    word64 wrong;  ///< vertices or edges of which something does not hold
    word64 edges;  ///< directions
    word64 marks;  ///< sum of `mark_of` all directions
};

/// Returns 64 bits that depend on an edge and its weight. Their sum over a set of edges tells the set from others, but
/// for one chance in 2^64.
[[nodiscard]] ORCHARD_FN inline std::uint64_t mark_of(std::uint32_t u, std::uint32_t v, double weight) {
    return simt::random_bits(bits_of(weight), u, v);
}

/// Adds a number of the calling lane.
ORCHARD_FN inline void add_counts(word64& to, std::uint64_t mine) {
    if (mine != 0) {
        to.fetch_add<simt::order::relaxed>(mine);
    }
}

struct check_rows {
    std::uint32_t vertices;
    bool has_weights;
    invariant_counts* counts;

    template <class Rows>
    ORCHARD_FN void operator()(const Rows& rows, std::uint32_t u, std::uint32_t lane) const {
        const target_row r = rows.row(u);
        std::uint64_t wrong = 0;
        std::uint64_t edges = 0;
        std::uint64_t marks = 0;
        for (std::uint32_t i = lane; i < r.size; i += simt::warp_size) {
            const std::uint32_t v = r.targets[i];
            const bool ascends = i == 0 || r.targets[i - 1] < v;
            wrong += ascends && v != u && v < vertices && rows.row(v).contains(u) ? 0 : 1;
            ++edges;
            marks += mark_of(u, v, has_weights ? r.weight(u, i) : 0);
        }
        add_counts(counts->wrong, wrong);
        add_counts(counts->edges, edges);
        add_counts(counts->marks, marks);
    }
};

struct check_levels {
    const word32* level;
    std::uint32_t source;
    invariant_counts* counts;

    template <class Rows>
    ORCHARD_FN void operator()(const Rows& rows, std::uint32_t u, std::uint32_t lane) const {
        const target_row r = rows.row(u);
        const std::uint32_t mine = level[u].load<simt::order::relaxed>();
        std::uint64_t wrong = lane == 0 && (mine == 0) != (u == source) ? 1 : 0;
        bool has_parent = mine == 0 || mine == unreached;
        for (std::uint32_t i = lane; i < r.size; i += simt::warp_size) {
            const std::uint32_t other = level[r.targets[i]].load<simt::order::relaxed>();
            const bool near = mine == unreached ? other == unreached : other <= mine + 1 && mine <= other + 1;
            wrong += near ? 0 : 1;
            has_parent = has_parent || other + 1 == mine;
        }
        const bool is_reached = simt::ballot(whole_warp, has_parent) != 0;
        add_counts(counts->wrong, wrong + (lane == 0 && !is_reached ? 1 : 0));
    }
};

struct check_lengths {
    const word64* length;
    std::uint32_t source;
    invariant_counts* counts;

    template <class Rows>
    ORCHARD_FN void operator()(const Rows& rows, std::uint32_t u, std::uint32_t lane) const {
        const target_row r = rows.row(u);
        const std::uint64_t bits = length[u].load<simt::order::relaxed>();
        const double mine = double_of(bits);
        std::uint64_t wrong = lane == 0 && u == source && mine != 0 ? 1 : 0;
        bool has_parent = u == source || bits == no_path;
        for (std::uint32_t i = lane; i < r.size; i += simt::warp_size) {
            const double there = double_of(length[r.targets[i]].load<simt::order::relaxed>()) + r.weight(u, i);
            wrong += mine <= there ? 0 : 1;
            has_parent = has_parent || mine == there;
        }
        const bool is_reached = simt::ballot(whole_warp, has_parent) != 0;
        add_counts(counts->wrong, wrong + (lane == 0 && !is_reached ? 1 : 0));
    }
};

struct check_labels {
    const word32* label;
    invariant_counts* counts;

    template <class Rows>
    ORCHARD_FN void operator()(const Rows& rows, std::uint32_t u, std::uint32_t lane) const {
        const target_row r = rows.row(u);
        const std::uint32_t mine = label[u].load<simt::order::relaxed>();
        const bool is_right = mine <= u && label[mine].load<simt::order::relaxed>() == mine;
        std::uint64_t wrong = lane == 0 && !is_right ? 1 : 0;
        for (std::uint32_t i = lane; i < r.size; i += simt::warp_size) {
            wrong += label[r.targets[i]].load<simt::order::relaxed>() == mine ? 0 : 1;
        }
        add_counts(counts->wrong, wrong);
    }
};

struct check_cores {
    const word32* core;
    invariant_counts* counts;

    template <class Rows>
    ORCHARD_FN void operator()(const Rows& rows, std::uint32_t u, std::uint32_t lane) const {
        const target_row r = rows.row(u);
        const std::uint32_t mine = core[u].load<simt::order::relaxed>();
        std::uint32_t as_high = 0;
        for (std::uint32_t first = 0; first < r.size; first += simt::warp_size) {
            const std::uint32_t i = first + lane;
            const bool is_high = i < r.size && core[r.targets[i]].load<simt::order::relaxed>() >= mine;
            as_high += static_cast<std::uint32_t>(simt::popcount(simt::ballot(whole_warp, is_high)));
        }
        add_counts(counts->wrong, lane == 0 && as_high < mine ? 1 : 0);
    }
};

}  // namespace orchard::examples
