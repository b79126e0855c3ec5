// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The kernels of a batch, each explored by itself: it begins from what those before it have left, as on a stream. What
/// the library does between them, a sort and a sum, the scenario does on the host. Batches add edges to a graph of
/// short rows, a wide one and a hub, and remove some, in whole warps and blocks of two of them. In a second scenario
/// edges have properties.
///
/// All but the first batch run beside lanes that read an open snapshot. Before the second batch, a lane takes the
/// heap's segments, but a few, in half of the runs; it gives them back while the rows change, or when they have
/// changed. Some rows then find no memory. Their edges are left, and named, and further batches take them. After each
/// batch all rows are those of a map of edges on the host, each edge has the property that the map says, the counts are
/// those of the map, and the snapshot has not changed. At the end no memory is lost. No two edges of batches have the
/// same property: the first of a batch counts, and an edge that is there keeps its own.
///
/// The arrays of a batch are plain memory that the simulation does not see; it sees rows, records, counts and the heap.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <tuple>
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
constexpr std::uint32_t batch_wide = 3;        // a row of more edges than a tile moves, or almost as many
constexpr std::size_t batch_most = 512;        // keys
constexpr int batch_bits = 13;
constexpr std::uint32_t batch_hub_degree = 4095;
constexpr std::uint32_t batch_wide_degree = 63;
constexpr std::uint32_t batch_wide_step = 5;  // from target to target, so that edges go between
static_assert(batch_hub_degree + 2 > detail::graph_row_key::hub_degree);

static_assert(batch_wide_degree + 2 > detail::graph_row_key::narrow_degree);

using batch_edge = std::pair<std::uint32_t, std::uint32_t>;
/// Edges and their properties; 0 without.
using batch_edges = std::map<batch_edge, std::uint32_t>;
using batch_list = std::vector<std::pair<batch_edge, std::uint32_t>>;

/// The rows that a graph has at first.
struct batch_rows {
    bool has_hub;
    bool has_wide;
};

std::vector<std::uint32_t> batch_sources() {
    std::vector<std::uint32_t> sources;
    for (std::uint32_t u = 0; u < batch_vertices; ++u) {
        sources.push_back(u);
    }
    sources.push_back(batch_far);
    return sources;
}

/// @tparam Property  `no_property`, or one of 4 bytes: a simulation knows each word of the heap by its size
template <class Property>
class batch_world {
    using layout = device::graph_layout<Property>;
    static constexpr bool has_property = layout::has_property;
    static constexpr std::uint64_t bytes_of_edge = 4 + layout::property_bytes;
    static_assert(bytes_of_edge == (has_property ? 8 : 4));

public:
    batch_world(world& w, batch_rows rows, bool is_short)
        : graph{w,
                {.segments = 16, .committed_at_start = 16, .cache_target = static_cast<std::uint32_t>(w.s.pick(2))},
                batch_sources(),
                batch_targets,
                1 + static_cast<std::uint32_t>(w.s.pick(4) != 0 ? 1 : 0)},
          s_{w.s},
          w_{w},
          ref_{graph.heap.ref, graph.state},
          rows_{rows},
          is_short_{is_short} {
        auto& m = graph.memory;
        batch_ = {m.place<std::uint64_t>(batch_most),
                  has_property ? m.place<std::uint32_t>(batch_most) : nullptr,
                  m.place<std::uint32_t>(batch_most),
                  m.place<std::uint64_t>(batch_most + 1),
                  m.place<std::uint64_t>(batch_most),
                  has_property ? m.place<std::uint32_t>(batch_most) : nullptr,
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
        // Rows whose runs are full, but for an edge, or have room.
        if (rows.has_hub) {
            make_row(batch_hub, batch_hub_degree, 1, 4'096);
        }
        if (rows.has_wide) {
            make_row(batch_wide, batch_wide_degree, batch_wide_step, 64);
        }
    }

    /// Runs a batch: `edges` in any order, some of them twice. Returns the edges that found no memory.
    template <bool Insert>
    batch_list run(const batch_list& edges);

    /// Opens and closes a snapshot, which lanes read beside all kernels of a batch.
    void open_snapshot() {
        s_.add_kernel({{1}}, [this](simt::thread_position) {
            (void)graph.open(0);
            snapshot_ = view(&graph.state->snapshots[0]);
        });
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
    batch_list draw(std::size_t count);
    [[nodiscard]] const batch_edges& now() const { return now_; }
    bool end();

    graph_world graph;

private:
    using view = graph_view<Property>;

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
    /// Returns what the kernels that change rows share. A removal reads no properties.
    template <bool Insert>
    [[nodiscard]] detail::graph_changer<Property, Insert, heap_ref> changer_of() const {
        return {ref_, batch_, Insert && has_property ? properties_.data() : nullptr};
    }
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
    /// Gives a vertex a row whose run has room for `capacity` edges, or half as many more.
    void make_row(std::uint32_t u, std::uint32_t degree, std::uint32_t step, std::uint32_t capacity);
    /// Returns a property that no edge has.
    std::uint32_t next_property() { return has_property ? ++last_property_ : 0; }
    /// Returns the property of edge `i` of a row, which is known.
    static std::uint32_t property_of(const graph_row<Property>& row, std::uint32_t i) {
        if constexpr (has_property) {
            return simt::read_element(row.property(i));
        } else {
            return 0;
        }
    }
    /// Sums the numbers before each, as `sum_before` does.
    void sum_numbers() {
        std::uint64_t sum = 0;
        for (std::uint64_t i = 0; i <= batch_.count; ++i) {
            sum += std::exchange(batch_.numbers[i], sum);
        }
    }
    /// Sorts the keys and their values, as the function of this name does.
    void sort_keys() {
        if constexpr (!has_property) {
            std::sort(batch_.keys, batch_.keys + batch_.count);
        } else {
            std::vector<std::pair<std::uint64_t, std::uint32_t>> sorted;
            for (std::uint64_t i = 0; i < batch_.count; ++i) {
                sorted.emplace_back(batch_.keys[i], batch_.values[i]);
            }
            std::stable_sort(sorted.begin(), sorted.end(),
                             [](const auto& a, const auto& b) { return a.first < b.first; });
            for (std::uint64_t i = 0; i < batch_.count; ++i) {
                std::tie(batch_.keys[i], batch_.values[i]) = sorted[i];
            }
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
    graph_ref<Property> ref_;
    batch_rows rows_;
    bool is_short_;
    detail::graph_batch batch_{};
    std::vector<Property> properties_;  ///< of the batch
    std::uint32_t last_property_ = 0;
    batch_edges now_;   ///< the edges of the graph
    batch_edges then_;  ///< of the snapshot
    view snapshot_;
    bool is_open_ = false;
    std::vector<void*> held_;  ///< segments of the heap
};

template <class Property>
void batch_world<Property>::make_row(std::uint32_t u, std::uint32_t degree, std::uint32_t step,
                                     std::uint32_t capacity) {
    const std::uint64_t bytes = (s_.pick(2) == 0 ? capacity : capacity * 3 / 2) * bytes_of_edge;
    void* p = nullptr;
    s_.add_kernel({{1}}, [&](simt::thread_position) { p = graph.heap.ref.malloc(bytes); });
    if (!s_.run() || p == nullptr) {
        return s_.check(false, "no memory for a row, although there is enough");
    }
    device::graph_vertex& r = *graph.state->table.acquire(u);
    const std::uint64_t run = device::graph_run::pack(p, device::graph_run::class_for(bytes));
    for (std::uint32_t i = 0; i < degree; ++i) {
        const std::uint32_t property = next_property();
        layout::targets(run)[i].set(i * step);
        if constexpr (has_property) {
            layout::properties(run)[i] = property;
        }
        now_.emplace(batch_edge{u, i * step}, property);
    }
    r.run.set(run);
    r.degree.set(degree);
}

template <class Property>
void batch_world<Property>::read_some() {
    for (const std::uint32_t u : graph.sources()) {
        const auto first = then_.lower_bound({u, 0});
        const auto last = then_.lower_bound({u + 1, 0});
        const auto degree = static_cast<std::uint32_t>(std::distance(first, last));
        const graph_row<Property> row = snapshot_.neighbours(u);
        s_.check(row.size() == degree, "a row of the snapshot has another length");
        const std::uint32_t step = degree > 100 ? 1 + s_.pick(degree / 4) : 1;
        auto at = first;
        for (std::uint32_t i = 0; i < degree; i += step) {
            s_.check(row[i] == at->first.second, "an edge of the snapshot has changed");
            s_.check(property_of(row, i) == at->second, "a property of the snapshot has changed");
            std::advance(at, std::min(step, degree - i));
        }
    }
}

template <class Property>
batch_list batch_world<Property>::draw(std::size_t count) {
    batch_list edges;
    const auto add = [&](std::uint32_t u, std::uint32_t v) { edges.emplace_back(batch_edge{u, v}, next_property()); };
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t u = s_.pick(24) == 0 ? batch_far : s_.pick(batch_vertices);
        if (u != batch_hub) {
            add(u, s_.pick(u == batch_wide ? 400 : 40));
        }
        if (i % 10 == 9 && !edges.empty()) {
            add(edges.front().first.first, edges.front().first.second);
        }
    }
    for (std::uint32_t i = 0; i < 3 && rows_.has_hub; ++i) {
        add(batch_hub, batch_hub_degree - 8 + 5 * i + s_.pick(5));
    }
    for (std::uint32_t i = 0; i < 3 && rows_.has_wide; ++i) {
        add(batch_wide, s_.pick(batch_wide_degree * batch_wide_step));
    }
    return edges;
}

template <class Property>
template <bool Insert>
batch_list batch_world<Property>::run(const batch_list& edges) {
    if (!s_.result().ok()) {
        return {};
    }
    batch_.count = edges.size();
    std::vector<std::uint32_t> sources;
    std::vector<std::uint32_t> targets;
    properties_.clear();
    for (const auto& [edge, property] : edges) {
        sources.push_back(edge.first);
        targets.push_back(edge.second);
        if constexpr (has_property) {
            properties_.push_back(property);
        }
    }
    launch_threads([&](simt::thread_position at) { detail::graph_begin{batch_.counts}(at); });
    launch_warps(
        1, detail::graph_keys<Property, Insert>{ref_, sources.data(), targets.data(), edges.size(), false, batch_});
    sort_keys();
    launch_threads(detail::graph_search<Property, Insert>{ref_, batch_});
    if (!s_.result().ok()) {
        return {};
    }
    sum_numbers();
    launch_threads(detail::graph_gather<has_property>{batch_});
    change_rows<Insert>();
    if (!s_.result().ok()) {
        return {};
    }
    // The edges that change the graph, and those of them that were left.
    batch_edges changing;
    for (const auto& [edge, property] : edges) {
        if (now_.contains(edge) != Insert) {
            changing.emplace(edge, property);  // of those that the batch has twice, the first one
        }
    }
    const std::uint64_t left = batch_.counts->left.load<simt::order::relaxed>();
    s_.check(batch_.counts->changing.load<simt::order::relaxed>() == changing.size(),
             "another number of edges changes the graph");
    s_.check(left == 0 || is_short_, "no memory, although there is enough");
    s_.check(left <= changing.size(), "more edges are left than there were");
    if (left != 0 && s_.result().ok()) {
        launch_threads(detail::graph_list_left<Property, Insert>{changer_of<Insert>()});
    }
    batch_list rest;
    for (std::uint64_t i = 0; i < left && s_.result().ok(); ++i) {
        const batch_edge edge{batch_.source(batch_.old_runs[i]), batch_.target(batch_.old_runs[i])};
        const auto wanted = changing.find(edge);
        if (wanted == changing.end()) {
            s_.check(false, "an edge is left that changes nothing, or twice");
            break;
        }
        if constexpr (has_property) {
            const std::uint32_t number = batch_.values[i];
            s_.check(number < edges.size() && edges[number].second == wanted->second,
                     "an edge is left with another property");
        }
        rest.push_back(*wanted);
        changing.erase(wanted);
    }
    for (const auto& [edge, property] : changing) {
        if (Insert) {
            now_.emplace(edge, property);
        } else {
            now_.erase(edge);
        }
    }
    check_rows();
    return rest;
}

/// Changes the rows. Those that stay are changed beside one of the steps for those that move, as the scenario draws.
template <class Property>
template <bool Insert>
void batch_world<Property>::change_rows() {
    using hubs = detail::graph_change_hubs<Property, Insert>;
    using others = detail::graph_change_rows<Property, Insert>;
    const auto c = changer_of<Insert>();
    launch_threads(detail::graph_row_keys<Property, Insert>{c});
    if (!s_.result().ok()) {
        return;
    }
    sort_rows();
    launch_threads(detail::graph_bands<Property>{batch_});
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
    add_threads(detail::graph_choose<Property, Insert>{c});
    run_step();
    add_warps(2, hubs{c, 0});
    run_step();
    add_warps(1, others{c, 0});
    run_step();
    add_threads(detail::graph_free_left<Property, Insert>{c});
    run_step();
    add_giver();
    (void)s_.run();
}

template <class Property>
void batch_world<Property>::check_rows() {
    for (const std::uint32_t u : graph.sources()) {
        const device::graph_vertex* const r = graph.state->table.acquire(u);
        const graph_row<Property> row =
            r == nullptr ? graph_row<Property>() : graph_row<Property>(r->run.get(), r->degree.get());
        auto at = now_.lower_bound({u, 0});
        for (std::uint32_t i = 0; i < row.size(); ++i, ++at) {
            if (at == now_.end() || at->first != batch_edge{u, row[i]}) {
                return s_.check(false,
                                absl::StrFormat("edge %d of vertex %d leads to %d, which it should not", i, u, row[i]));
            }
            if (property_of(row, i) != at->second) {
                return s_.check(false, absl::StrFormat("edge %d of vertex %d, to %d, has the property %d instead of %d",
                                                       i, u, row[i], property_of(row, i), at->second));
            }
        }
        s_.check(at == now_.end() || at->first.first != u, absl::StrFormat("vertex %d lacks an edge", u));
    }
}

/// Frees everything.
template <class Property>
bool batch_world<Property>::end() {
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
                                          class_of(768), class_of(1'024), class_of(16'384), class_of(24'576),
                                          class_of(32'768), class_of(49'152), class_of(graph_table::bytes_of_segment)});
}

/// Runs a batch, and others with the edges that are left, for which all memory has come back. A group that stands still
/// with memory that it returns may lack some again, which the promise of the heap allows (docs/protocol.md, Null).
template <bool Insert, class Property>
void batch_run_all(world& w, batch_world<Property>& g, batch_list rest) {
    for (int i = 0; i < 5 && !rest.empty() && w.s.result().ok(); ++i) {
        rest = g.template run<Insert>(rest);
    }
    w.s.check(rest.empty(), "no memory, although all of it came back");
}

/// The same for the first batch, which alone may make a segment of the table in the heap: later its memory could have
/// been that of edges, and a simulation knows each word by its size.
template <class Property>
void batch_run_first(world& w, batch_world<Property>& g, const batch_list& edges) {
    const batch_list rest = g.template run<true>(edges);
    g.graph.premake_rest();
    batch_run_all<true>(w, g, rest);
}

template <class Property>
void run_graph_batch(world& w) {
    const batch_rows rows{w.s.pick(4) == 0, w.s.pick(4) == 0};
    const bool is_short = w.s.pick(2) == 1;
    batch_world<Property> g(w, rows, is_short);
    const bool at_first = w.s.pick(4) == 0;
    if (is_short && at_first) {
        g.take_segments(w.s.pick(2));
    }
    batch_run_first(w, g, g.draw(50));
    g.open_snapshot();
    if (is_short && !at_first) {
        g.take_segments(w.s.pick(2));
    }
    // Half of the edges, and of the hub's the last ones.
    batch_list gone(g.now().begin(), g.now().end());
    std::erase_if(gone, [&](const auto& of) {
        const auto& [u, v] = of.first;
        return u == batch_hub ? v + 4 < batch_hub_degree : w.s.pick(2) == 0;
    });
    const batch_list added = g.draw(50);
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
                             run_graph_batch<no_property>}};
const registrar graph_batch_properties{{"graph_batch_properties",
                                        "The same, of edges with properties.",
                                        {{{3, 2}, {2}}, 1},
                                        run_graph_batch<std::uint32_t>}};

}  // namespace
}  // namespace orchard::explore
