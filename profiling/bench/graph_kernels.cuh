// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of `orchard bench graph`: edges, and two traversals that run on a graph and on compressed sparse rows.

#include <cstdint>
#include <orchard/graph.cuh>

namespace orchard::bench {

/// Makes the edges [first, first + count) of a Kronecker graph (RMAT) of 2^scale vertices with A = 0.57, B = C = 0.19,
/// whose vertices are renamed.
struct make_rmat {
    std::uint64_t first;
    std::uint64_t count;
    int scale;
    std::uint32_t* sources;
    std::uint32_t* targets;

    [[nodiscard]] ORCHARD_FN static std::uint64_t mix(std::uint64_t x) {
        x += 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        return x ^ x >> 31;
    }
    /// Returns another name for vertex `v`: a bijection.
    [[nodiscard]] ORCHARD_FN std::uint32_t renamed(std::uint32_t v) const {
        const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << scale) - 1);
        v = v * 0x9e3779b1u & mask;
        v ^= v >> (scale / 2);
        return v * 0x85ebca6bu & mask;
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            std::uint32_t u = 0;
            std::uint32_t v = 0;
            for (int level = 0; level < scale; ++level) {
                const auto r =
                    static_cast<std::uint32_t>(mix((first + i) * 64 + static_cast<std::uint64_t>(level)) >> 44);
                // Of 2^20: A to 597,688, then B and C of 199,229 each.
                const std::uint32_t quarter = r < 597'688u ? 0 : r < 796'917u ? 1 : r < 996'147u ? 2 : 3;
                u = u << 1 | quarter >> 1;
                v = v << 1 | (quarter & 1);
            }
            sources[i] = renamed(u);
            targets[i] = renamed(v);
        }
    }
};

/// Adds to `loops` the edges from a vertex to itself, which have one direction.
struct count_loops {
    const std::uint32_t* sources;
    const std::uint32_t* targets;
    std::uint64_t count;
    simt::device_word<std::uint64_t>* loops;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint64_t mine = 0;
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            mine += sources[i] == targets[i] ? 1 : 0;
        }
        if (mine != 0) {
            loops->fetch_add<simt::order::relaxed>(mine);
        }
    }
};

/// The keys of edges in both directions, as batches of `graph` sort them.
struct make_keys {
    const std::uint32_t* sources;
    const std::uint32_t* targets;
    std::uint64_t count;
    int bits;
    std::uint64_t* keys;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            keys[i] = std::uint64_t{sources[i]} << bits | targets[i];
            keys[count + i] = std::uint64_t{targets[i]} << bits | sources[i];
        }
    }
};
struct no_work {
    ORCHARD_FN void operator()(simt::thread_position) const {}
};

/// Compressed sparse rows of edges in both directions, in any order: the degrees, which are then summed, and the
/// targets, which move each offset to the end of its row.
struct count_degrees {
    const std::uint32_t* sources;
    const std::uint32_t* targets;
    std::uint64_t count;
    simt::device_word<std::uint64_t>* degrees;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            degrees[sources[i]].fetch_add<simt::order::relaxed>(1);
            degrees[targets[i]].fetch_add<simt::order::relaxed>(1);
        }
    }
};
struct fill_rows {
    const std::uint32_t* sources;
    const std::uint32_t* targets;
    std::uint64_t count;
    simt::device_word<std::uint64_t>* offsets;
    std::uint32_t* filled;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            filled[offsets[sources[i]].fetch_add<simt::order::relaxed>(1)] = targets[i];
            filled[offsets[targets[i]].fetch_add<simt::order::relaxed>(1)] = sources[i];
        }
    }
};

/// The edges of a vertex, as both graphs give them.
struct bench_row {
    const std::uint32_t* targets;
    std::uint32_t size;
};
struct csr_rows {
    const std::uint64_t* offsets;
    const std::uint32_t* targets;
    [[nodiscard]] ORCHARD_INLINE bench_row row(std::uint32_t u) const {
        const std::uint64_t begin = offsets[u];
        return {targets + begin, static_cast<std::uint32_t>(offsets[u + 1] - begin)};
    }
};
struct dynamic_rows {
    graph_view<> graph;
    [[nodiscard]] ORCHARD_INLINE bench_row row(std::uint32_t u) const {
        const graph_row<> r = graph.neighbours(u);
        return {r.size() == 0 ? nullptr : r.targets(), r.size()};
    }
};

/// Rows of more edges are a block's.
constexpr std::uint32_t bench_hub = 2048;

/// Lists the vertices of at least `bench_hub` edges.
struct list_hubs {
    csr_rows rows;
    std::uint32_t vertices;
    std::uint32_t* hubs;
    simt::device_word<std::uint32_t>* count;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t u = at.global_thread(); u < vertices; u += at.threads()) {
            if (rows.row(static_cast<std::uint32_t>(u)).size >= bench_hub) {
                hubs[count->fetch_add<simt::order::relaxed>(1)] = static_cast<std::uint32_t>(u);
            }
        }
    }
};

/// One step of PageRank by pulling: y[u] is the sum of x over the neighbours of u. Eight lanes a vertex.
template <class Rows>
struct gather_rows {
    static constexpr std::uint32_t lanes = 8;
    Rows rows;
    std::uint32_t vertices;
    const float* x;
    float* y;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t thread = at.global_thread();
        const auto lane = static_cast<std::uint32_t>(thread % lanes);
        for (std::uint64_t u = thread / lanes; u < vertices; u += at.threads() / lanes) {
            const bench_row r = rows.row(static_cast<std::uint32_t>(u));
            float sum = 0;
            for (std::uint32_t i = r.size < bench_hub ? lane : r.size; i < r.size; i += lanes) {
                sum += x[r.targets[i]];
            }
            // Not summed over the lanes: the loads are what is measured.
            y[u * lanes + lane] = sum;
        }
    }
};
/// The same for the hubs: a block a vertex.
template <class Rows>
struct gather_hubs {
    Rows rows;
    const std::uint32_t* hubs;
    std::uint32_t count;
    const float* x;
    simt::device_word<std::uint32_t>* sums;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t h = at.block; h < count; h += at.blocks) {
            const bench_row r = rows.row(hubs[h]);
            float sum = 0;
            for (std::uint32_t i = at.thread; i < r.size; i += at.threads_per_block) {
                sum += x[r.targets[i]];
            }
            if (sum < 0) {  // never; so that the loads stay
                sums->fetch_add<simt::order::relaxed>(1);
            }
        }
    }
};

/// One level of a search from all vertices at distance `level`; `hubs` null: a warp a vertex, but not of hubs; else a
/// block a hub.
template <class Rows>
struct search_level {
    Rows rows;
    std::uint32_t vertices;
    const std::uint32_t* hubs;
    simt::device_word<std::uint32_t>* distance;
    std::uint32_t level;
    simt::device_word<std::uint32_t>* found;

    ORCHARD_FN void visit(std::uint32_t u, std::uint32_t first, std::uint32_t step, bool of_hub) const {
        if (distance[u].load<simt::order::relaxed>() != level) {
            return;
        }
        const bench_row r = rows.row(u);
        if ((r.size >= bench_hub) != of_hub) {
            return;
        }
        std::uint32_t mine = 0;
        for (std::uint32_t i = first; i < r.size; i += step) {
            auto& d = distance[r.targets[i]];
            if (d.load<simt::order::relaxed>() > level + 1) {
                d.store<simt::order::relaxed>(level + 1);
                ++mine;
            }
        }
        if (mine != 0) {
            found->fetch_add<simt::order::relaxed>(mine);
        }
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (hubs != nullptr) {
            for (std::uint64_t h = at.block; h < vertices; h += at.blocks) {
                visit(hubs[h], at.thread, at.threads_per_block, true);
            }
            return;
        }
        const auto lane = static_cast<std::uint32_t>(simt::lane_id());
        for (std::uint64_t u = at.global_warp(); u < vertices; u += at.threads() / simt::warp_size) {
            visit(static_cast<std::uint32_t>(u), lane, simt::warp_size, false);
        }
    }
};

}  // namespace orchard::bench
