// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench graph`: a graph in a heap, built from empty by batches of an RMAT graph of 16 edges a vertex in both
/// directions, asked, traversed beside compressed sparse rows of the same edges, and taken down by the same batches.
///
///     step         what was done
///     directions   of edges, in the batch or in all of them
///     ms           by the host's clock, from the call to its return; `gather` and `search`: of their kernels
///     floor        by CUB, on CUDA alone: `floor sort` sorts the keys of one batch, `floor csr` builds compressed
///                  sparse rows of all directions at once, with duplicates and in no order: it counts the degrees, sums
///                  them, and fills in the targets. Both run once before they are timed
///     g_per_s      10^9 directions a second
///     to_csr       ms to that of compressed sparse rows; of `memory`: bytes an edge to theirs
///     bytes_per_edge   `memory`: all that the heap holds after `trim`; `memory compact`: the same after
///                  `graph::compact`; `blocks`: of the graph's blocks alone
///     duplicates   `insert all` and `erase all`: directions that a batch had, and that were there already, or gone
///     wrong        results that are not those of compressed sparse rows
///
/// `--operations N` takes 2^N vertices, 22 unless given.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profiling/bench/bench.hpp"
#include "profiling/bench/graph_kernels.cuh"
#include "runtime/containers/sort_keys.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;
using word32 = simt::device_word<std::uint32_t>;

class graph_bench {
public:
    graph_bench(heap& h, graph<> g, int scale, std::uint64_t batch)
        : heap_{h}, graph_{std::move(g)}, on_{h.executor()}, scale_{scale}, batch_{batch} {
        on_.timed = true;
    }

    absl::StatusOr<ordered_json> run() {
        absl::Status s = prepare();
        s.Update(s.ok() ? batches(true) : s);
        s.Update(s.ok() && on_.kind == simt::device_kind::cuda ? floors() : s);
        s.Update(s.ok() ? memory() : s);
        s.Update(s.ok() ? questions() : s);
        s.Update(s.ok() ? traversals() : s);
        s.Update(s.ok() ? compaction() : s);
        s.Update(s.ok() ? snapshots() : s);
        s.Update(s.ok() ? batches(false) : s);
        return s.ok() ? absl::StatusOr<ordered_json>(std::move(rows_)) : s;
    }

private:
    static constexpr std::uint64_t most_asked_batches = 8;

    template <class T>
    static absl::Status make(const simt::executor& on, device_array<T>& to, std::uint64_t count) {
        auto made = device_array<T>::create(on, count);
        if (!made.ok()) {
            return made.status();
        }
        to = *std::move(made);
        return absl::OkStatus();
    }
    [[nodiscard]] std::uint64_t batch_count() const { return (std::uint64_t{32} << scale_) / batch_; }
    /// Returns of how many batches, the first ones, `contains` is asked for the edges.
    [[nodiscard]] std::uint64_t asked_batches() const { return std::min(most_asked_batches, batch_count()); }
    [[nodiscard]] simt::grid shape() const {
        return on_.kind == simt::device_kind::cuda ? simt::grid{1056, 256} : simt::grid{4, 64};
    }
    template <class Kernel>
    absl::StatusOr<double> launch(const Kernel& kernel) const {
        const simt::launch_result done = simt::launch(on_, shape(), kernel);
        return done.ok ? absl::StatusOr<double>(done.microseconds * 1e-3) : to_status(done);
    }
    absl::Status prepare() {
        absl::Status s = make(on_, sources_, batch_ / 2 * asked_batches());
        s.Update(make(on_, targets_, batch_ / 2 * asked_batches()));
        s.Update(make(on_, loops_, 1));
        return s;
    }
    /// Makes `count` batches from `i` on as one: half as many edges as it has directions.
    absl::StatusOr<edge_batch<>> batch(std::uint64_t i, std::uint64_t count = 1) {
        const std::uint64_t edges = batch_ / 2 * count;
        const auto made = launch(make_rmat{i * batch_ / 2, edges, scale_, sources_.data(), targets_.data()});
        if (!made.ok()) {
            return made.status();
        }
        return edge_batch<>{sources_.data(), targets_.data(), edges, nullptr, true};
    }
    /// Returns the milliseconds of a call.
    template <class Call>
    static double time(const Call& call) {
        const auto began = std::chrono::steady_clock::now();
        call();
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
    }
    void add_row(const std::string& step, std::uint64_t directions, double ms, double to_csr = 0,
                 double bytes_per_edge = 0, std::uint64_t wrong = 0, std::uint64_t duplicates = 0) {
        rows_.push_back({{"step", step},
                         {"directions", directions},
                         {"ms", ms},
                         {"g_per_s", ms > 0 ? static_cast<double>(directions) / ms * 1e-6 : 0},
                         {"to_csr", to_csr},
                         {"bytes_per_edge", bytes_per_edge},
                         {"duplicates", duplicates},
                         {"wrong", wrong}});
    }

    absl::Status batches(bool adds) {
        const std::string name = adds ? "insert" : "erase";
        const std::uint64_t count = batch_count();
        double all = 0;
        batch_result sum;
        absl::Status s = loops_.zero();
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto edges = batch(i);
            s.Update(edges.status());
            s.Update(s.ok() ? launch(count_loops{edges->sources, edges->targets, edges->count, loops_.data()}).status()
                            : s);
            if (!s.ok()) {
                return s;
            }
            std::optional<absl::StatusOr<batch_result>> called;
            const double ms = time([&] { (void)called.emplace(adds ? graph_.insert(*edges) : graph_.erase(*edges)); });
            const absl::StatusOr<batch_result>& done = *called;
            if (!done.ok()) {
                return done.status();
            }
            all += ms;
            sum = {sum.taken + done->taken, sum.duplicates + done->duplicates, sum.left + done->left};
            if (i == 0 || i == 1 || i == count / 2 || i + 1 == count) {
                add_row(name + " batch " + std::to_string(i), batch_, ms);
            }
        }
        std::uint64_t loops = 0;
        s.Update(copy_to_host(on_, &loops, loops_.data(), sizeof(loops)));
        const auto stats = graph_.stats();
        s.Update(stats.status());
        if (!s.ok()) {
            return s;
        }
        // All directions but the second one of a loop are counted once, and those that are stored are not duplicates.
        const bool adds_up = sum.taken + sum.duplicates + sum.left == count * batch_ - loops;
        const std::uint64_t moved = adds ? stats->edges : edges_ - stats->edges;
        const bool all_moved = adds || stats->edges == 0;
        edges_ = stats->edges;
        add_row(name + " all", count * batch_, all, 0, 0,
                sum.left + (sum.taken == moved && all_moved ? 0 : 1) + (adds_up ? 0 : 1), sum.duplicates);
        return absl::OkStatus();
    }

    /// Times CUB: the sort of a batch's keys, and compressed sparse rows of all edges at once.
    absl::Status floors() {
        const std::uint64_t edges = std::uint64_t{16} << scale_;
        const std::uint64_t vertices = std::uint64_t{1} << scale_;
        device_array<std::uint64_t> keys;
        device_array<std::uint64_t> other_keys;
        device_array<std::uint32_t> sources;
        device_array<std::uint32_t> targets;
        device_array<std::uint32_t> filled;
        device_array<simt::device_word<std::uint64_t>> offsets;
        device_array<std::byte> memory;
        absl::Status s = make(on_, keys, batch_);
        s.Update(make(on_, other_keys, batch_));
        s.Update(make(on_, sources, edges));
        s.Update(make(on_, targets, edges));
        s.Update(make(on_, filled, 2 * edges));
        s.Update(make(on_, offsets, vertices + 1));
        s.Update(s.ok() ? launch(make_rmat{0, edges, scale_, sources.data(), targets.data()}).status() : s);
        double sort_ms = 0;
        double csr_ms = 0;
        for (int i = 0; i < 2 && s.ok(); ++i) {  // the first time loads the kernels
            s.Update(launch(make_keys{sources.data(), targets.data(), batch_ / 2, scale_, keys.data()}).status());
            s.Update(offsets.zero());
            sort_ms = time([&] {
                detail::sorted_arrays arrays{keys.data(), other_keys.data(), nullptr, nullptr};
                s.Update(detail::sort_keys(on_, arrays, batch_, 2 * scale_, memory));
                s.Update(launch(no_work{}).status());  // waits
            });
            csr_ms = time([&] {
                s.Update(launch(count_degrees{sources.data(), targets.data(), edges, offsets.data()}).status());
                s.Update(
                    detail::sum_before(on_, reinterpret_cast<std::uint64_t*>(offsets.data()), vertices + 1, memory));
                s.Update(
                    launch(fill_rows{sources.data(), targets.data(), edges, offsets.data(), filled.data()}).status());
            });
        }
        if (s.ok()) {
            add_row("floor sort", batch_, sort_ms);
            add_row("floor csr", 2 * edges, csr_ms);
        }
        return s;
    }

    /// Compacts the graph, and says what the heap holds then.
    absl::Status compaction() {
        absl::Status s;
        add_row("compact", edges_, time([&] { s.Update(graph_.compact()); }));
        return s.ok() ? memory("memory compact") : s;
    }
    absl::Status memory(const std::string& name = "memory") {
        const auto stats = graph_.stats();
        absl::Status s = stats.status();
        s.Update(heap_.validate());
        s.Update(heap_.trim());
        const auto held = heap_.stats();
        s.Update(held.status());
        if (!s.ok()) {
            return s;
        }
        const double edges = static_cast<double>(stats->edges);
        const double csr = 4 + 8 * (static_cast<double>(stats->vertices) + 1) / edges;
        const double granted = static_cast<double>(held->segments_granted * segment_bytes) / edges;
        add_row(name, stats->edges, 0, granted / csr, granted, stats->edges == edges_ ? 0 : 1);
        if (name == "memory") {
            add_row("blocks", stats->edges, 0, stats->bytes_per_edge() / csr, stats->bytes_per_edge());
        }
        return absl::OkStatus();
    }

    /// Asks for the edges of the first batches, which are there.
    absl::Status questions() {
        const auto edges = batch(0, asked_batches());
        device_array<std::uint8_t> found;
        absl::Status s = edges.status();
        s.Update(make(on_, found, batch_ / 2 * asked_batches()));
        double ms = 0;
        for (int i = 0; i < 2 && s.ok(); ++i) {  // the first call loads the kernel
            ms = time([&] { s.Update(graph_.contains(edges->sources, edges->targets, edges->count, found.data())); });
        }
        std::vector<std::uint8_t> answers(batch_ / 2 * asked_batches());
        s.Update(s.ok() ? found.download(answers) : s);
        add_row("contains", answers.size(), ms, 0, 0,
                static_cast<std::uint64_t>(std::count(answers.begin(), answers.end(), std::uint8_t{0})));
        return s;
    }

    template <class Rows>
    absl::StatusOr<double> gather(const Rows& rows) {
        double best = 0;
        for (int i = 0; i < 5; ++i) {
            const auto first = launch(gather_rows<Rows>{rows, vertices_, x_.data(), y_.data()});
            const auto second = launch(gather_hubs<Rows>{rows, hubs_.data(), hub_count_, x_.data(), words_.data()});
            if (!first.ok() || !second.ok()) {
                return first.ok() ? second.status() : first.status();
            }
            best = i == 0 ? *first + *second : std::min(best, *first + *second);
        }
        return best;
    }
    /// Returns the time of a search from the first hub, or vertex 0; `reached` is the sum of all distances.
    template <class Rows>
    absl::StatusOr<double> search(const Rows& rows, std::uint64_t& reached) {
        std::vector<word32> distance(vertices_, word32(0x7fffffffu));
        std::vector<std::uint32_t> first(1);
        absl::Status s = hub_count_ != 0 ? hubs_.download(first) : absl::OkStatus();
        distance[first[0]] = word32(0);
        s.Update(distance_.upload(distance));
        double ms = 0;
        std::vector<word32> found(2, word32(1));
        for (std::uint32_t level = 0; s.ok() && found[1].load<simt::order::relaxed>() != 0; ++level) {
            s.Update(words_.zero());
            const auto warps =
                launch(search_level<Rows>{rows, vertices_, nullptr, distance_.data(), level, words_.data() + 1});
            const auto blocks =
                launch(search_level<Rows>{rows, hub_count_, hubs_.data(), distance_.data(), level, words_.data() + 1});
            s.Update(warps.status());
            s.Update(blocks.status());
            s.Update(words_.download(found));
            ms += s.ok() ? *warps + *blocks : 0;
        }
        s.Update(distance_.download(distance));
        reached = 0;
        for (const word32& d : distance) {
            reached += d.load<simt::order::relaxed>();
        }
        return s.ok() ? absl::StatusOr<double>(ms) : s;
    }

    absl::Status traversals() {
        auto csr = graph_.to_csr();
        const auto all = graph_.vertices();
        if (!csr.ok() || !all.ok()) {
            return csr.ok() ? all.status() : csr.status();
        }
        vertices_ = *all;
        absl::Status s = make(on_, x_, vertices_);
        s.Update(make(on_, y_, std::uint64_t{vertices_} * 8));
        s.Update(make(on_, hubs_, vertices_));
        s.Update(make(on_, distance_, vertices_));
        s.Update(make(on_, words_, 2));
        if (!s.ok()) {
            return s;
        }
        const csr_rows fixed{csr->offsets.data(), csr->targets.data()};
        const dynamic_rows dynamic{graph_.ref()};
        s.Update(launch(list_hubs{fixed, vertices_, hubs_.data(), words_.data()}).status());
        std::vector<word32> count(2);
        s.Update(words_.download(count));
        hub_count_ = count[0].load<simt::order::relaxed>();
        if (!s.ok()) {
            return s;
        }
        const auto gather_csr = gather(fixed);
        const auto gather_dynamic = gather(dynamic);
        std::uint64_t wanted = 0;
        std::uint64_t found = 0;
        const auto search_csr = search(fixed, wanted);
        const auto search_dynamic = search(dynamic, found);
        for (const auto* const each : {&gather_csr, &gather_dynamic, &search_csr, &search_dynamic}) {
            s.Update(each->status());
        }
        if (s.ok()) {
            add_row("gather csr", edges_, *gather_csr, 1);
            add_row("gather", edges_, *gather_dynamic, *gather_dynamic / *gather_csr);
            add_row("search csr", edges_, *search_csr, 1);
            add_row("search", edges_, *search_dynamic, *search_dynamic / *search_csr, 0, wanted == found ? 0 : 1);
        }
        return s;
    }

    /// A snapshot, a batch while it is open, and its end.
    absl::Status snapshots() {
        const auto edges = batch(batch_count());  // of the same kind; mostly new
        if (!edges.ok()) {
            return edges.status();
        }
        std::optional<absl::StatusOr<graph_snapshot<>>> open;
        add_row("snapshot", edges_, time([&] { (void)open.emplace(graph_.snapshot()); }));
        absl::Status s = open->status();
        if (s.ok()) {
            const double ms = time([&] { s.Update(graph_.insert(*edges).status()); });
            add_row("insert beside it", batch_, ms);
            add_row("close", edges_, time([&] { open.reset(); }));
            const auto stats = graph_.stats();
            s.Update(stats.status());
            edges_ = stats.ok() ? stats->edges : 0;
            // Out again, so that the batches take down what they built.
            s.Update(graph_.erase(*edges).status());
            const auto after = graph_.stats();
            s.Update(after.status());
            edges_ = after.ok() ? after->edges : 0;
        }
        return s;
    }

    heap& heap_;
    graph<> graph_;
    simt::executor on_;
    int scale_;
    std::uint64_t batch_;  ///< directions
    ordered_json rows_ = ordered_json::array();
    std::uint64_t edges_ = 0;
    std::uint32_t vertices_ = 0;
    std::uint32_t hub_count_ = 0;
    device_array<std::uint32_t> sources_;
    device_array<std::uint32_t> targets_;
    device_array<float> x_;
    device_array<float> y_;
    device_array<std::uint32_t> hubs_;
    device_array<simt::device_word<std::uint64_t>> loops_;
    device_array<word32> distance_;
    device_array<word32> words_;
};

absl::StatusOr<ordered_json> run_graph(const settings& s) {
    options values = s.heap;
    const bool large = s.device == simt::device_kind::cuda && !s.quick;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    const auto scale = static_cast<int>(s.operations != 0 ? std::min<std::uint64_t>(s.operations, 27) : large ? 22 : 9);
    // 32 directions a vertex: six times their 4 B.
    values.capacity =
        std::max<std::uint64_t>(values.capacity, (std::uint64_t{768} << scale) + (std::uint64_t{256} << 20));
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    auto g = graph<>::create(*h);
    if (!g.ok()) {
        return g.status();
    }
    return graph_bench(*h, *std::move(g), scale, large ? std::uint64_t{1} << 20 : 1 << 11).run();
}

const registrar graph_registered{
    {"graph", "a graph in a heap: batches of edges, questions, traversals beside compressed sparse rows", run_graph,
     "ms by the host's clock, of gather and search by events; the rows of one batch are those of its only call"}};

}  // namespace
}  // namespace orchard::bench
