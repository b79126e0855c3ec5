// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The kernels of a batch, each explored by itself: it begins from what those before it have left, as on a stream. What
/// the library does between them, a sort and a sum, the scenario does on the host. Batches add edges to a graph of
/// short rows, longer ones and a hub, and remove some, in whole warps and blocks of two of them.
///
/// All but the first batch run beside lanes that read an open snapshot. Before the second batch, a lane takes the
/// heap's segments, but a few, in half of the runs; it gives them back while the rows change, or when they have
/// changed. Some rows then find no memory. Their edges are left, and named, and further batches take them. After each
/// batch all rows are those of a set of edges on the host, the counts are those of the set, and the snapshot has not
/// changed. At the end no memory is lost.
///
/// The arrays of a batch are plain memory that the simulation does not see; it sees rows, records, counts and the heap.

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/explore/graph_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint32_t batch_vertices = 36;  // rows of two warps
constexpr std::uint32_t batch_targets = 8192;
constexpr std::uint32_t batch_hub = 5;
constexpr std::uint32_t batch_far = 4096 + 7;  // in a segment of the table that a batch may make
constexpr std::uint32_t batch_wide = 3;        // a row of more edges than a tile moves
constexpr std::size_t batch_most = 512;        // keys
constexpr int batch_bits = 13;
constexpr std::uint32_t batch_hub_degree = 4095;
static_assert(batch_hub_degree + 2 > detail::graph_row_key::hub_degree);

using batch_edge = std::pair<std::uint32_t, std::uint32_t>;
using batch_edges = std::set<batch_edge>;

std::vector<std::uint32_t> batch_sources() {
    std::vector<std::uint32_t> sources;
    for (std::uint32_t u = 0; u < batch_vertices; ++u) {
        sources.push_back(u);
    }
    sources.push_back(batch_far);
    return sources;
}

class batch_world {
public:
    batch_world(world& w, bool has_hub, bool is_short)
        : graph{w,
                {.segments = 16, .committed_at_start = 16, .cache_target = static_cast<std::uint32_t>(w.s.pick(2))},
                batch_sources(),
                batch_targets,
                1 + static_cast<std::uint32_t>(w.s.pick(4) != 0 ? 1 : 0)},
          s_{w.s},
          w_{w},
          is_short_{is_short} {
        auto& m = graph.memory;
        batch_ = {m.place<std::uint64_t>(batch_most),
                  nullptr,
                  m.place<std::uint32_t>(batch_most),
                  m.place<std::uint64_t>(batch_most + 1),
                  m.place<std::uint64_t>(batch_most),
                  nullptr,
                  m.place<std::uint32_t>(batch_most),
                  m.place<std::uint32_t>(batch_most + 1),
                  m.place<std::uint8_t>(batch_most),
                  m.place<std::uint32_t>(batch_most),
                  m.place<std::uint64_t>(batch_most),
                  m.place<std::uint64_t>(batch_most),
                  m.place<std::uint32_t>(batch_most),
                  m.place<detail::graph_counts>(1),
                  0,
                  batch_bits};
        s_.name_words(batch_.counts, sizeof(detail::graph_counts), "counts", 4);
        if (has_hub) {
            make_hub();
        }
    }

    /// Runs a batch: `edges` in any order, some of them twice. Returns the edges that found no memory.
    template <bool Insert>
    std::vector<batch_edge> run(const std::vector<batch_edge>& edges);

    /// Opens and closes a snapshot, which lanes read beside all kernels of a batch.
    void open_snapshot() {
        s_.add_kernel({{1}}, [this](simt::thread_position) { snapshot_ = graph.open(0); });
        is_open_ = s_.run();
        then_ = now_;
    }
    void close_snapshot() {
        is_open_ = false;
        s_.add_kernel({{1}}, [this](simt::thread_position) { graph.close(0); });
        (void)s_.run();
    }
    /// Lets one lane take all segments but `left`.
    void take_segments(std::uint32_t left) {
        s_.add_kernel({{1}}, [this, left](simt::thread_position) {
            for (void* p = graph.heap.ref.malloc(segment_bytes); p != nullptr;
                 p = graph.heap.ref.malloc(segment_bytes)) {
                held_.push_back(p);
            }
            for (std::uint32_t i = 0; i < left && !held_.empty(); ++i) {
                give_one();
            }
        });
        (void)s_.run();
    }

    /// Returns `count` edges that the scenario draws: of most vertices, some that are there, some twice.
    std::vector<batch_edge> draw(std::size_t count, bool has_hub);
    [[nodiscard]] const batch_edges& now() const { return now_; }
    bool end();

    graph_world graph;

private:
    using view = graph_view<>;

    /// Adds a kernel in which threads work alone: lanes of few warps.
    template <class Kernel>
    void add_threads(const Kernel& kernel) {
        const std::uint32_t lanes = lanes_of(w_.size);
        std::uint32_t next = 0;
        s_.add_kernel(w_.size.blocks, [kernel, lanes, next](simt::thread_position) mutable {
            kernel(simt::thread_position{0, next++, lanes, 1});
        });
    }
    /// Adds a kernel of whole warps: `warps` in each block.
    template <class Kernel>
    void add_warps(std::size_t warps, const Kernel& kernel) {
        const simt::explore::block_shape block(warps, simt::warp_size);
        s_.add_kernel(std::vector<simt::explore::block_shape>(w_.size.blocks.size(), block), kernel);
    }
    /// Runs the kernels that were added, beside a reader of the snapshot.
    void run_added() {
        if (is_open_) {
            s_.add_kernel({{1}}, [this](simt::thread_position) { read_some(); });
        }
        (void)s_.run();
    }
    template <class Kernel>
    void launch_threads(const Kernel& kernel) {
        add_threads(kernel);
        run_added();
    }
    template <class Kernel>
    void launch_warps(std::size_t warps, const Kernel& kernel) {
        add_warps(warps, kernel);
        run_added();
    }
    template <bool Insert>
    void change_rows();
    /// Gives back what `take_segments` has taken.
    void add_giver() {
        s_.add_kernel({{1}}, [this](simt::thread_position) {
            simt::pause(s_.pick(8) * 5'000);
            while (!held_.empty()) {
                give_one();
            }
        });
    }
    void give_one() {
        graph.heap.ref.free(held_.back());
        held_.pop_back();
    }
    /// Reads rows of the snapshot, long ones in part.
    void read_some();
    void make_hub();
    /// Sums the numbers before each, as `sum_before` does.
    void sum_numbers() {
        std::uint64_t sum = 0;
        for (std::uint64_t i = 0; i <= batch_.count; ++i) {
            sum += std::exchange(batch_.numbers[i], sum);
        }
    }
    /// Puts the rows in the order of their keys, as `sort_rows` does.
    void sort_rows() {
        std::stable_sort(batch_.order, batch_.order + batch_.count,
                         [this](std::uint32_t a, std::uint32_t b) { return batch_.row_keys[a] < batch_.row_keys[b]; });
        std::sort(batch_.row_keys, batch_.row_keys + batch_.count);
    }
    /// Checks all rows of the graph, from outside of actors.
    void check_rows();

    simt::explore::simulation& s_;
    world& w_;
    bool is_short_;
    detail::graph_batch batch_{};
    batch_edges now_;   ///< the edges of the graph
    batch_edges then_;  ///< of the snapshot
    view snapshot_;
    bool is_open_ = false;
    std::vector<void*> held_;  ///< segments of the heap
};

/// Gives the hub its row, whose run is full or has room.
void batch_world::make_hub() {
    const std::uint64_t bytes = s_.pick(2) == 0 ? 16'384 : 24'576;
    void* p = nullptr;
    s_.add_kernel({{1}}, [&](simt::thread_position) { p = graph.heap.ref.malloc(bytes); });
    if (!s_.run() || p == nullptr) {
        return s_.check(false, "no memory for a hub, although there is enough");
    }
    device::graph_vertex& r = *graph.state->table.acquire(batch_hub);
    const std::uint64_t run = device::graph_run::pack(p, device::graph_run::class_for(bytes));
    for (std::uint32_t i = 0; i < batch_hub_degree; ++i) {
        device::graph_layout<no_property>::targets(run)[i].set(i);
        now_.emplace(batch_hub, i);
    }
    r.run.set(run);
    r.degree.set(batch_hub_degree);
}

void batch_world::read_some() {
    for (const std::uint32_t u : graph.sources()) {
        const auto first = then_.lower_bound({u, 0});
        const auto last = then_.lower_bound({u + 1, 0});
        const auto degree = static_cast<std::uint32_t>(std::distance(first, last));
        const graph_row<> row = snapshot_.neighbours(u);
        s_.check(row.size() == degree, "a row of the snapshot has another length");
        const std::uint32_t step = degree > 100 ? 1 + s_.pick(degree / 4) : 1;
        auto at = first;
        for (std::uint32_t i = 0; i < degree; i += step) {
            s_.check(row[i] == at->second, "an edge of the snapshot has changed");
            std::advance(at, std::min(step, degree - i));
        }
    }
}

std::vector<batch_edge> batch_world::draw(std::size_t count, bool has_hub) {
    std::vector<batch_edge> edges;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t u = s_.pick(24) == 0 ? batch_far : s_.pick(batch_vertices);
        if (u != batch_hub) {
            edges.emplace_back(u, s_.pick(u == batch_wide ? 400 : 40));
        }
        if (i % 10 == 9) {
            edges.push_back(edges.front());
        }
    }
    for (std::uint32_t i = 0; i < 3 && has_hub; ++i) {
        edges.emplace_back(batch_hub, batch_hub_degree - 8 + 5 * i + s_.pick(5));
    }
    return edges;
}

template <bool Insert>
std::vector<batch_edge> batch_world::run(const std::vector<batch_edge>& edges) {
    if (!s_.result().ok()) {
        return {};
    }
    batch_.count = edges.size();
    std::vector<std::uint32_t> sources;
    std::vector<std::uint32_t> targets;
    for (const auto& [u, v] : edges) {
        sources.push_back(u);
        targets.push_back(v);
    }
    launch_threads([&](simt::thread_position at) { detail::graph_begin{batch_.counts}(at); });
    launch_warps(1, detail::graph_keys<no_property, Insert>{graph.ref, sources.data(), targets.data(), edges.size(),
                                                            false, batch_});
    std::sort(batch_.keys, batch_.keys + batch_.count);
    launch_threads(detail::graph_search<no_property, Insert>{graph.ref, batch_});
    if (!s_.result().ok()) {
        return {};
    }
    sum_numbers();
    launch_threads(detail::graph_gather<false>{batch_});
    change_rows<Insert>();
    if (!s_.result().ok()) {
        return {};
    }
    // The edges that change the graph, and those of them that were left.
    batch_edges changing;
    for (const batch_edge& e : edges) {
        if (now_.contains(e) != Insert) {
            changing.insert(e);
        }
    }
    const std::uint64_t left = batch_.counts->left.load<simt::order::relaxed>();
    s_.check(batch_.counts->changing.load<simt::order::relaxed>() == changing.size(),
             "another number of edges changes the graph");
    s_.check(left == 0 || is_short_, "no memory, although there is enough");
    s_.check(left <= changing.size(), "more edges are left than there were");
    if (left != 0 && s_.result().ok()) {
        launch_threads(detail::graph_list_left<no_property, Insert>{{graph.ref, batch_, nullptr}});
    }
    std::vector<batch_edge> rest;
    for (std::uint64_t i = 0; i < left && s_.result().ok(); ++i) {
        rest.emplace_back(batch_.source(batch_.old_runs[i]), batch_.target(batch_.old_runs[i]));
        s_.check(changing.erase(rest.back()) == 1, "an edge is left that changes nothing, or twice");
    }
    for (const batch_edge& e : changing) {
        if (Insert) {
            now_.insert(e);
        } else {
            now_.erase(e);
        }
    }
    check_rows();
    return rest;
}

/// Changes the rows. Those that stay are changed beside one of the steps for those that move, as the scenario draws.
template <bool Insert>
void batch_world::change_rows() {
    using changer = detail::graph_changer<no_property, Insert, heap_ref>;
    using hubs = detail::graph_change_hubs<no_property, Insert>;
    using others = detail::graph_change_rows<no_property, Insert>;
    const changer c{graph.ref, batch_, nullptr};
    launch_threads(detail::graph_row_keys<no_property, Insert>{c});
    if (!s_.result().ok()) {
        return;
    }
    sort_rows();
    launch_threads(detail::graph_bands<no_property>{batch_});
    const bool gives_now = s_.pick(3) == 0;
    std::uint32_t steps_before = s_.pick(4);
    const auto run_step = [&] {
        if (steps_before-- == 0) {
            add_warps(2, hubs{c, detail::graph_row_key::teams});
            add_warps(1, others{c, detail::graph_row_key::teams});
        }
        run_added();
    };
    if (gives_now) {
        add_giver();
    }
    add_threads(detail::graph_choose<no_property, Insert>{c});
    run_step();
    add_warps(2, hubs{c, 0});
    run_step();
    add_warps(1, others{c, 0});
    run_step();
    add_threads(detail::graph_free_left<no_property, Insert>{c});
    run_step();
    add_giver();
    (void)s_.run();
}

void batch_world::check_rows() {
    for (const std::uint32_t u : graph.sources()) {
        const device::graph_vertex* const r = graph.state->table.acquire(u);
        const graph_row<> row = r == nullptr ? graph_row<>() : graph_row<>(r->run.get(), r->degree.get());
        auto at = now_.lower_bound({u, 0});
        for (std::uint32_t i = 0; i < row.size(); ++i, ++at) {
            if (at == now_.end() || *at != batch_edge{u, row[i]}) {
                return s_.check(false,
                                absl::StrFormat("edge %d of vertex %d leads to %d, which it should not", i, u, row[i]));
            }
        }
        s_.check(at == now_.end() || at->first != u, absl::StrFormat("vertex %d lacks an edge", u));
    }
}

/// Frees everything.
bool batch_world::end() {
    using device::graph_table;
    if (!graph.clear({})) {
        return false;
    }
    s_.add_kernel({{1}}, [this](simt::thread_position) {
        // A segment of the table that a batch has made.
        auto& word = *graph.state->table.acquire_segment_word(batch_far >> graph_table::log_segment);
        auto* const p = reinterpret_cast<char*>(word.load<simt::order::relaxed>());
        if (graph.heap.ref.owns(p)) {
            graph.heap.ref.free(p);
        }
    });
    return s_.run() && graph.heap.settle({class_of(16), class_of(32), class_of(48), class_of(64), class_of(96),
                                          class_of(128), class_of(192), class_of(256), class_of(384), class_of(512),
                                          class_of(16'384), class_of(24'576), class_of(graph_table::bytes_of_segment)});
}

/// Runs a batch, and others with the edges that are left, for which all memory has come back. A group that stands still
/// with memory that it returns may lack some again, which the promise of the heap allows (docs/protocol.md, Null).
template <bool Insert>
void batch_run_all(world& w, batch_world& g, std::vector<batch_edge> rest) {
    for (int i = 0; i < 5 && !rest.empty() && w.s.result().ok(); ++i) {
        rest = g.run<Insert>(rest);
    }
    w.s.check(rest.empty(), "no memory, although all of it came back");
}

/// The same for the first batch, which alone may make a segment of the table in the heap: later its memory could have
/// been that of edges, and a simulation knows each word by its size.
void batch_run_first(world& w, batch_world& g, const std::vector<batch_edge>& edges) {
    const std::vector<batch_edge> rest = g.run<true>(edges);
    g.graph.premake_rest();
    batch_run_all<true>(w, g, rest);
}

void run_graph_batch(world& w) {
    const bool has_hub = w.s.pick(4) == 0;
    const bool is_short = w.s.pick(2) == 1;
    batch_world g(w, has_hub, is_short);
    const bool at_first = w.s.pick(4) == 0;
    if (is_short && at_first) {
        g.take_segments(w.s.pick(2));
    }
    batch_run_first(w, g, g.draw(50, has_hub));
    g.open_snapshot();
    if (is_short && !at_first) {
        g.take_segments(w.s.pick(2));
    }
    // Half of the edges, and of the hub's the last ones.
    std::vector<batch_edge> gone(g.now().begin(), g.now().end());
    std::erase_if(gone, [&](const batch_edge& e) {
        return e.first == batch_hub ? e.second + 4 < batch_hub_degree : w.s.pick(2) == 0;
    });
    const std::vector<batch_edge> added = g.draw(50, has_hub);
    const bool adds_first = w.s.pick(2) == 0;
    if (adds_first) {
        batch_run_all<true>(w, g, added);
    } else {
        batch_run_all<false>(w, g, gone);
    }
    if (w.s.pick(2) == 1) {
        g.close_snapshot();
    }
    if (adds_first) {
        batch_run_all<false>(w, g, gone);
    } else {
        batch_run_all<true>(w, g, added);
    }
    if (w.s.result().ok() && g.end()) {
        g.graph.heap.check_counts();
        g.graph.heap.check_clean(0);
    }
}

const registrar graph_batch{{"graph_batch",
                             "The kernels of a graph's batches, beside a snapshot that is read and a lack of memory.",
                             {{{3, 2}, {2}}, 1},
                             run_graph_batch}};

}  // namespace
}  // namespace orchard::explore
