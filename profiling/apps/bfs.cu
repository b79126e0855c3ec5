// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Breadth-first search on real memory: a graph with eight neighbours a vertex. A pass searches from vertex 0, level by
/// level, until no vertex is left, or the pass has done its part: it then ends within a level, at the same place each
/// time.
///
/// Check: of vertices, with the graph from the seed: the root alone has level 0; a vertex with a level has a neighbour
/// one level up; and if its own neighbours were marked, all of them have a level, at most one level down.

#include "profiling/uvm/applications/bfs.cuh"

#include "profiling/apps/app_run.cuh"
#include "profiling/apps/generated_graph.cuh"

namespace orchard::apps {
namespace of_bfs {
namespace {

using namespace applications::kernels::bfs;

constexpr std::uint64_t root = 0;

struct is_level {
    parts<counter> level;
    random_graph graph;
    std::uint32_t marked;  ///< the neighbours of vertices of lower levels were all marked

    ORCHARD_FN bool operator()(std::uint64_t v) const {
        const std::uint32_t own = level[v].template load<simt::order::relaxed>();
        if (own == unreached) {
            return v != root;
        }
        bool has_parent = v == root;
        bool all_near = true;
        for (std::uint32_t j = 0; j < random_graph::degree; ++j) {
            const std::uint32_t other = level[graph.neighbour(v, j)].template load<simt::order::relaxed>();
            has_parent = has_parent || other + 1 == own;  // an unreached one would give level 0
            all_near = all_near && other <= own + 1;
        }
        return has_parent && (own == 0) == (v == root) && (own >= marked || all_near);
    }
};

/// The levels before a search.
struct start_level {
    ORCHARD_FN std::uint32_t operator()(std::uint64_t v) const { return v == root ? 0 : unreached; }
};

/// The searches of a run.
struct search {
    app_run& s;
    applications::graph_view<std::uint64_t> graph;
    parts<counter> level;
    counter* reached;    ///< of one level
    std::uint64_t each;  ///< vertices of a thread
    std::uint64_t step;  ///< of them, in a launch

    std::uint64_t most_launches = ~std::uint64_t{0};  ///< of a pass: the first one determines it
    std::uint32_t marked = 0;                         ///< the neighbours of vertices of lower levels were all marked

    /// Runs a pass.
    void pass() {
        const std::uint64_t vertices = s.threads() * each;
        std::uint64_t at_level = 1;  // the root
        double looked_at = 0;        // levels read
        double examined = 0;         // vertices whose neighbours were marked
        std::uint64_t launches = 0;
        s.fill(level, vertices, start_level{});
        for (marked = 0; at_level != 0 && is_wanted(examined) && launches < most_launches && s.ok();) {
            s.zero(reached);
            std::uint64_t last = 0;  // of each thread's vertices
            double share = 0;        // of the level
            while (last < each && is_wanted(examined + share * static_cast<double>(at_level)) &&
                   launches < most_launches && s.ok()) {
                const std::uint64_t first = last;
                last = std::min(each, first + step);
                share = static_cast<double>(last) / static_cast<double>(each);
                s.timed(search_level<std::uint64_t>{graph, level, reached, s.threads(), each, first, last, marked});
                ++launches;
                most_launches = s.has_no_time_left() ? launches : most_launches;
            }
            looked_at += share * static_cast<double>(vertices);
            examined += share * static_cast<double>(at_level);
            at_level = s.value_of(reached);
            marked += last == each ? 1 : 0;
        }
        // Of a vertex that is examined: the ends of its list, and each neighbour with its level.
        s.end_pass(examined / static_cast<double>(vertices),
                   4 * looked_at + examined * (2 * 8 + random_graph::degree * 2 * 4));
    }
    /// Returns true if a pass that has examined so many vertices goes on.
    [[nodiscard]] bool is_wanted(double examined) const { return examined < s.wanted_share_of(s.threads() * each); }
};

}  // namespace
}  // namespace of_bfs

void run_bfs(app_run& s) {
    using namespace of_bfs;
    const std::uint64_t threads = s.threads();
    const std::uint64_t each = s.at_least_one(s.what().bytes / ((list_bytes + 4) * threads), "vertices");
    const random_graph graph = make_graph(s, threads * each);
    const auto level = s.array<counter>(threads * each, 1, start_level{});
    const auto dealt = deal_graph(s, graph);
    // Its own level; the ends of its list, and each neighbour with its level.
    const double accesses = 3 + 2 * random_graph::degree;
    search all{s, dealt, level, s.beside<counter>(1), each, s.items_of_piece({each, accesses, 0})};
    while (s.next_pass()) {
        all.pass();
    }
    s.check(level, threads * each, is_level{level, graph, all.marked});
}

}  // namespace orchard::apps
