// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of the analyses. Each takes its rows as a template argument, so that the same code runs on a graph in a
/// heap, on a snapshot of it, and on compressed sparse rows.
///
///     graph_rows    the rows of `graph_view`            csr_rows    two arrays, or three with weights
///     over_rows     calls `work(u, row, lane)` with all lanes of a warp, for one vertex after the other

#include <cstdint>
#include <cstring>
#include <orchard/graph.cuh>

namespace orchard::examples {

using word32 = simt::device_word<std::uint32_t>;
using word64 = simt::device_word<std::uint64_t>;

/// Returns the weight of an edge that has none of its own, 1 to 64: the same in both directions.
[[nodiscard]] ORCHARD_FN constexpr std::uint32_t weight_of(std::uint32_t u, std::uint32_t v) {
    const std::uint32_t low = u < v ? u : v;
    const std::uint32_t high = u < v ? v : u;
    return 1 + ((low * 0x9e3779b1u ^ high * 0x85ebca6bu) >> 26);
}

/// The edges of a vertex: their targets ascend.
struct target_row {
    const std::uint32_t* targets = nullptr;
    std::uint32_t size = 0;
    const double* weights = nullptr;  ///< null: `weight_of`

    /// Returns the weight of edge `i`, of vertex `u`.
    [[nodiscard]] ORCHARD_INLINE double weight(std::uint32_t u, std::uint32_t i) const {
        return weights == nullptr ? weight_of(u, targets[i]) : weights[i];
    }

    /// Returns whether `v` is among the targets.
    [[nodiscard]] ORCHARD_FN bool contains(std::uint32_t v) const {
        std::uint32_t first = 0;
        std::uint32_t count = size;
        while (count != 0) {
            const std::uint32_t half = count / 2;
            const bool less = targets[first + half] < v;
            first = less ? first + half + 1 : first;
            count = less ? count - half - 1 : half;
        }
        return first < size && targets[first] == v;
    }
};

struct csr_rows {
    const std::uint64_t* offsets;
    const std::uint32_t* targets;
    const double* weights = nullptr;  ///< null: `weight_of`

    [[nodiscard]] ORCHARD_INLINE target_row row(std::uint32_t u) const {
        const std::uint64_t begin = offsets[u];
        return {targets + begin, static_cast<std::uint32_t>(offsets[u + 1] - begin),
                weights == nullptr ? nullptr : weights + begin};
    }
};

/// `Property`: none, or `double`, a weight.
template <class Property>
struct graph_rows {
    graph_view<Property> graph;

    [[nodiscard]] ORCHARD_INLINE target_row row(std::uint32_t u) const {
        const graph_row<Property> r = graph.neighbours(u);
        if (r.size() == 0) {
            return {};
        }
        if constexpr (device::graph_layout<Property>::has_property) {
            return {r.targets(), r.size(), &r.property(0)};
        } else {
            return {r.targets(), r.size()};
        }
    }
};

inline constexpr std::uint32_t unreached = 0x7fffffffu;
/// The warps of `over_rows` have all their lanes, which go through the vertices together.
inline constexpr simt::lane_mask whole_warp = ~simt::lane_mask{0};

template <class Rows, class Work>
struct over_rows {
    Rows rows;
    std::uint32_t vertices;
    Work work;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto lane = static_cast<std::uint32_t>(simt::lane_id());
        const std::uint64_t warps = at.threads() / simt::warp_size;
        for (std::uint64_t u = at.global_warp(); u < vertices; u += warps) {
            work(rows, static_cast<std::uint32_t>(u), lane);
        }
    }
};

/// One level of a breadth-first search.
struct search_work {
    word32* distance;
    std::uint32_t level;
    word32* changed;

    template <class Rows>
    ORCHARD_FN void operator()(const Rows& rows, std::uint32_t u, std::uint32_t lane) const {
        if (distance[u].load<simt::order::relaxed>() != level) {
            return;
        }
        const target_row r = rows.row(u);
        bool found = false;
        for (std::uint32_t i = lane; i < r.size; i += simt::warp_size) {
            word32& d = distance[r.targets[i]];
            // Several lanes may write the same number.
            if (d.load<simt::order::relaxed>() > level + 1) {
                d.store<simt::order::relaxed>(level + 1);
                found = true;
            }
        }
        if (found) {
            changed->store<simt::order::relaxed>(1);
        }
    }
};

/// Lengths of paths are `double`, kept as their bits: those of numbers from 0 have the same order.
[[nodiscard]] ORCHARD_FN inline std::uint64_t bits_of(double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}
[[nodiscard]] ORCHARD_FN inline double double_of(std::uint64_t bits) {
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}
/// The bits of infinity, the length of the path to a vertex that is not reached.
inline constexpr std::uint64_t no_path = 0x7ff0000000000000u;

/// One round of shortest paths: the edges of the vertices that became nearer in the round before. A path's length is
/// the sum of its weights from the source on, rounded at each step; since rounding keeps the order, the least of all
/// paths is the same whatever the order of the rounds.
struct path_work {
    word64* distance;
    const word32* active;
    word32* next;
    word32* changed;

    template <class Rows>
    ORCHARD_FN void operator()(const Rows& rows, std::uint32_t u, std::uint32_t lane) const {
        if (active[u].load<simt::order::relaxed>() == 0) {
            return;
        }
        const double mine = double_of(distance[u].load<simt::order::relaxed>());
        const target_row r = rows.row(u);
        bool found = false;
        for (std::uint32_t i = lane; i < r.size; i += simt::warp_size) {
            const std::uint32_t v = r.targets[i];
            const std::uint64_t length = bits_of(mine + r.weight(u, i));
            if (length < distance[v].load<simt::order::relaxed>()) {
                distance[v].lower<simt::order::relaxed>(length);
                next[v].store<simt::order::relaxed>(1);
                found = true;
            }
        }
        if (found) {
            changed->store<simt::order::relaxed>(1);
        }
    }
};

/// One step of PageRank: each vertex sums what its neighbours give it.
struct rank_work {
    const double* share;  ///< rank / degree of each vertex
    double* rank;
    double damping;

    template <class Rows>
    ORCHARD_FN void operator()(const Rows& rows, std::uint32_t u, std::uint32_t lane) const {
        const target_row r = rows.row(u);
        double sum = 0;
        for (std::uint32_t i = lane; i < r.size; i += simt::warp_size) {
            sum += share[r.targets[i]];
        }
        for (int apart = simt::warp_size / 2; apart != 0; apart /= 2) {
            sum +=
                double_of(simt::shuffle(whole_warp, bits_of(sum), (static_cast<int>(lane) + apart) % simt::warp_size));
        }
        if (lane == 0) {
            rank[u] = 1 - damping + damping * sum;
        }
    }
};

/// What each vertex gives to each neighbour in the next step.
template <class Rows>
struct share_ranks {
    Rows rows;
    std::uint32_t vertices;
    const double* rank;
    double* share;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t u = at.global_thread(); u < vertices; u += at.threads()) {
            const std::uint32_t degree = rows.row(static_cast<std::uint32_t>(u)).size;
            share[u] = degree == 0 ? 0 : rank[u] / degree;
        }
    }
};

/// One round of connected components: each vertex takes the least label of its neighbours and of its label's vertex.
struct component_work {
    word32* label;
    word32* changed;

    template <class Rows>
    ORCHARD_FN void operator()(const Rows& rows, std::uint32_t u, std::uint32_t lane) const {
        const target_row r = rows.row(u);
        const std::uint32_t mine = label[u].load<simt::order::relaxed>();
        std::uint32_t least = label[mine].load<simt::order::relaxed>();
        for (std::uint32_t i = lane; i < r.size; i += simt::warp_size) {
            const std::uint32_t other = label[r.targets[i]].load<simt::order::relaxed>();
            least = other < least ? other : least;
        }
        if (least < mine) {
            label[u].lower<simt::order::relaxed>(least);
            label[mine].lower<simt::order::relaxed>(least);
            changed->store<simt::order::relaxed>(1);
        }
    }
};

/// Counts the triangles u < v < w, each at u.
struct triangle_work {
    word64* triangles;

    template <class Rows>
    ORCHARD_FN void operator()(const Rows& rows, std::uint32_t u, std::uint32_t lane) const {
        const target_row r = rows.row(u);
        std::uint64_t found = 0;
        for (std::uint32_t i = 0; i < r.size; ++i) {
            const std::uint32_t v = r.targets[i];
            if (v <= u) {
                continue;
            }
            const target_row of_v = rows.row(v);
            for (std::uint32_t k = lane; k < of_v.size; k += simt::warp_size) {
                const std::uint32_t w = of_v.targets[k];
                found += w > v && r.contains(w) ? 1 : 0;
            }
        }
        if (found != 0) {
            triangles->fetch_add<simt::order::relaxed>(found);
        }
    }
};

/// One round of k-core: removes the vertices that have at most k neighbours left.
struct core_work {
    word32* left;  ///< neighbours that are not removed
    word32* core;  ///< `unreached`: not removed yet
    std::uint32_t k;
    word32* changed;

    template <class Rows>
    ORCHARD_FN void operator()(const Rows& rows, std::uint32_t u, std::uint32_t lane) const {
        // One lane decides for all: other warps lower the number meanwhile.
        std::uint32_t goes = 0;
        if (lane == 0 && core[u].load<simt::order::relaxed>() == unreached) {
            goes = left[u].load<simt::order::relaxed>() <= k ? 1 : 0;
        }
        if (simt::shuffle(whole_warp, goes, 0) == 0) {
            return;
        }
        if (lane == 0) {
            core[u].store<simt::order::relaxed>(k);
            changed->store<simt::order::relaxed>(1);
        }
        const target_row r = rows.row(u);
        for (std::uint32_t i = lane; i < r.size; i += simt::warp_size) {
            left[r.targets[i]].fetch_sub<simt::order::relaxed>(1);
        }
    }
};

template <class Rows>
struct begin_cores {
    Rows rows;
    std::uint32_t vertices;
    word32* left;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t u = at.global_thread(); u < vertices; u += at.threads()) {
            left[u].store<simt::order::relaxed>(rows.row(static_cast<std::uint32_t>(u)).size);
        }
    }
};
/// Finds the least number of neighbours that a vertex has left.
struct least_left {
    std::uint32_t vertices;
    const word32* left;
    const word32* core;
    word32* least;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t u = at.global_thread(); u < vertices; u += at.threads()) {
            if (core[u].load<simt::order::relaxed>() == unreached) {
                least->lower<simt::order::relaxed>(left[u].load<simt::order::relaxed>());
            }
        }
    }
};

struct fill_words {
    std::uint32_t vertices;
    word32* words;
    std::uint32_t value;
    bool by_number;  ///< each word gets its own number

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t u = at.global_thread(); u < vertices; u += at.threads()) {
            words[u].store<simt::order::relaxed>(by_number ? static_cast<std::uint32_t>(u) : value);
        }
    }
};
struct fill_lengths {
    std::uint32_t vertices;
    word64* lengths;
    std::uint32_t source;  ///< 0 from here, infinite to all others

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t u = at.global_thread(); u < vertices; u += at.threads()) {
            lengths[u].store<simt::order::relaxed>(u == source ? 0 : no_path);
        }
    }
};
struct fill_doubles {
    std::uint32_t vertices;
    double* values;
    double value;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t u = at.global_thread(); u < vertices; u += at.threads()) {
            values[u] = value;
        }
    }
};

}  // namespace orchard::examples
