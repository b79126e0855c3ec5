// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `graph`, the owner of a dynamic graph in a heap, and `graph_snapshot`.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/containers/graph.cuh"
#include "device/simt/side_stream.hpp"
#include "runtime/containers/graph_core.hpp"
#include "runtime/containers/graph_kernels.hpp"
#include "runtime/containers/sort_keys.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard {

/// Edges in device memory, in any order; edge i goes from `sources[i]` to `targets[i]`.
template <class Property = no_property>
struct edge_batch {
    const std::uint32_t* sources = nullptr;
    const std::uint32_t* targets = nullptr;
    std::uint64_t count = 0;               ///< less than 2^31; 2^30 if undirected
    const Property* properties = nullptr;  ///< of the edges; not read if edges are removed
    bool undirected = false;               ///< each edge stands for both directions, with the same property
};

/// What became of a batch: directions of edges, so that an edge of an undirected batch counts twice. The sum is what
/// the batch had.
struct batch_result {
    std::uint64_t taken = 0;  ///< added, or removed
    /// To be added: there already, or twice in the batch. To be removed: not there, or twice in the batch. The edge
    /// from a vertex to itself has one direction.
    std::uint64_t duplicates = 0;
    std::uint64_t left = 0;  ///< found no memory: `graph::rest`
};

/// Edges that own their memory on the device.
template <class Property = no_property>
struct edge_list {
    device_array<std::uint32_t> sources;
    device_array<std::uint32_t> targets;
    device_array<Property> properties;  ///< empty if edges have none

    [[nodiscard]] edge_batch<Property> batch() const {
        return {sources.data(), targets.data(), sources.size(), properties.data(), false};
    }
};

/// A graph as compressed sparse rows, in device memory: the edges of vertex u are [offsets[u], offsets[u + 1]).
template <class Property = no_property>
struct csr_graph {
    device_array<std::uint64_t> offsets;  ///< one more than there are vertices
    device_array<std::uint32_t> targets;
    device_array<Property> properties;  ///< empty if edges have none
};

/// How large a graph is.
struct graph_statistics {
    std::uint64_t vertices = 0;
    std::uint64_t edges = 0;        ///< directions
    std::uint64_t row_bytes = 0;    ///< of the blocks that hold the edges, in the heap
    std::uint64_t table_bytes = 0;  ///< of the blocks that hold the vertices, in the heap

    /// Returns the bytes of the heap for each edge; 0 without edges. What the heap holds beside its blocks is not
    /// counted (`heap::stats`).
    [[nodiscard]] double bytes_per_edge() const {
        return edges == 0 ? 0 : static_cast<double>(row_bytes + table_bytes) / static_cast<double>(edges);
    }
};

/// A graph at a moment, for kernels that read while others change the graph. Closed by its destructor, or by moving
/// another one here; no kernel may read it any more then. Move-only. Each vertex's edges are those of one moment while
/// `graph::snapshot` ran: all of the same one if no kernel changed the graph meanwhile.
template <class Property = no_property, class Heap = heap_ref>
class graph_snapshot {
public:
    graph_snapshot(std::shared_ptr<detail::graph_core<Heap>> core, std::uint32_t slot)
        : core_{std::move(core)}, slot_{slot} {}
    graph_snapshot(graph_snapshot&& other) noexcept : core_{std::move(other.core_)}, slot_{other.slot_} {}
    graph_snapshot& operator=(graph_snapshot&& other) noexcept {
        std::swap(core_, other.core_);
        std::swap(slot_, other.slot_);
        return *this;
    }
    ~graph_snapshot() {
        if (core_ != nullptr) {
            (void)core_->close(slot_);
        }
    }
    /// Returns the view for kernels.
    [[nodiscard]] graph_view<Property> ref() const { return graph_view<Property>(&core_->state()->snapshots[slot_]); }

private:
    std::shared_ptr<detail::graph_core<Heap>> core_;
    std::uint32_t slot_;
};

/// Owns a directed graph in a heap. Its vertices are numbers up to 2^32 - 2; edges are added and removed by batches
/// that lie in device memory, and by kernels (`graph_ref`). There is at most one edge from a vertex to another one,
/// which may have a property: a weight, a time, any trivially copyable type aligned to at most 16 B, of which zero
/// bytes are a valid value.
///
///     auto g = orchard::graph<float>::create(heap);                        // absl::StatusOr
///     auto done = g->insert({sources, targets, count, weights});           // done->taken, done->duplicates
///     bfs<<<blocks, threads>>>(g->ref(), ...);                             // for (v : neighbours of u)
///     auto before = g->snapshot();                                         // what it is now, whatever comes
///
/// All functions wait for their kernels. A batch excludes kernels that read or change the graph, but not those that
/// read a snapshot. The heap must outlive the graph and its snapshots. Move-only; one thread of the host at a time, for
/// a graph and its snapshots together.
///
/// Errors of all functions: those of a launch, which begin with the name of the kernel, and of `device_array`. A
/// shortage of the heap's memory is no error of a batch: `batch_result::left` counts the edges that found none.
///
/// A launch that fails in a batch before rows are changed leaves the graph as it was. One that fails later, or an error
/// of the device, leaves rows with other edges than they should have: some that were never in the batch or the graph.
/// No kernel may read the graph then, and functions that read or change it return FailedPrecondition until `clear` has
/// freed everything. Open snapshots keep their edges, and can be closed. `clear` and the graph's end free all memory,
/// as far as the device still runs kernels.
/// @tparam Heap  the view of the memory that the graph lies in: `device::memory_of_tables`
template <class Property = no_property, class Heap = heap_ref>
class graph {
    static constexpr bool has_property = device::graph_layout<Property>::has_property;

public:
    using property_type = Property;

    /// Returns an empty graph, which holds no memory of the heap yet. Cost on CUDA: a `cudaMalloc` of 4 KiB.
    static absl::StatusOr<graph> create(const orchard::heap& heap) { return create(heap.executor(), heap.ref()); }
    /// The same in the memory of another allocator, which must outlive the graph; `on` is where its kernels run.
    static absl::StatusOr<graph> create(const simt::executor& on, const Heap& heap) {
        auto core = detail::graph_core<Heap>::create(on, heap);
        return core.ok() ? absl::StatusOr<graph>(graph(*std::move(core))) : core.status();
    }

    /// Returns the view for kernels.
    [[nodiscard]] graph_ref<Property, Heap> ref() const { return {core_->heap_view, core_->state()}; }

    /// Adds edges. An edge that is there already keeps its property; of edges that are twice in the batch, the first
    /// counts. Errors: InvalidArgument if a number is no vertex, or the batch is too large; no edge is changed then.
    /// OutOfRange if a vertex would have more than 2^32 - 8,192 edges: `rest` has its edges, those of other vertices
    /// are added.
    /// Cost: 48 B of device memory for each direction, 56 B with properties, kept for the next batch. On CUDA it sorts
    /// the directions, finds their places (log2(d) loads each, for vertices of d edges), and moves half of the edges of
    /// the sources on average, on three streams. Rows that grow out of their blocks have both blocks until all are
    /// moved: near the end of the heap's memory, smaller batches place more edges.
    absl::StatusOr<batch_result> insert(const edge_batch<Property>& batch) {
        if (has_property && batch.properties == nullptr && batch.count != 0) {
            return absl::InvalidArgumentError("edge_batch::properties is null, and the graph's edges have properties");
        }
        return change<true>(batch);
    }
    /// Removes edges, whatever their properties. Needs memory only for vertices whose edges an open snapshot has, or
    /// that have lost half of their edges since; those stay in their blocks if there is none. Errors, cost: as
    /// `insert`.
    absl::StatusOr<batch_result> erase(const edge_batch<Property>& batch) { return change<false>(batch); }

    /// Returns the edges of the last batch that found no memory, those of a source side by side; to be tried
    /// again as a directed batch. Call it before the next batch.
    /// @param batch  the last batch, whose properties are still there
    absl::StatusOr<edge_list<Property>> rest(const edge_batch<Property>& batch) const {
        edge_list<Property> list;
        auto sources = device_array<std::uint32_t>::create(core_->on, rest_);
        auto targets = device_array<std::uint32_t>::create(core_->on, rest_);
        auto properties = device_array<Property>::create(core_->on, has_property ? rest_ : 0);
        for (const absl::Status& s : {sources.status(), targets.status(), properties.status()}) {
            if (!s.ok()) {
                return s;
            }
        }
        list = {*std::move(sources), *std::move(targets), *std::move(properties)};
        if (rest_ != 0) {
            const detail::graph_edges_of<Property> kernel{
                last_.old_runs, last_.values,        batch.properties,    rest_,
                last_.bits,     list.sources.data(), list.targets.data(), list.properties.data()};
            if (absl::Status s = core_->run(rest_, kernel); !s.ok()) {
                return s;
            }
        }
        return list;
    }

    /// Makes the vertices below `count` known, so that `vertices`, `to_csr` and others count them. They take no memory
    /// before they have edges. Errors: InvalidArgument above 2^32 - 1.
    absl::Status reserve_vertices(std::uint64_t count) {
        if (count > std::uint64_t{graph_ref<Property>::max_vertex} + 1) {
            return absl::InvalidArgumentError(absl::StrFormat("%d vertices: a graph has at most %d", count,
                                                              std::uint64_t{graph_ref<Property>::max_vertex} + 1));
        }
        return core_->run(1, detail::graph_reserve{&core_->state()->table, static_cast<std::uint32_t>(count)});
    }
    /// Removes all edges from and to the vertices at `chosen`, `count` numbers in device memory. `taken` counts the
    /// edges; `left` counts vertices whose edges a snapshot has and that found no memory: call it again for those.
    /// Numbers that are no vertices are ignored. Cost: it reads the whole graph. In kernels, `graph_ref::erase_vertex`
    /// removes the edges that it finds from a vertex's own.
    absl::StatusOr<batch_result> erase_vertices(const std::uint32_t* chosen, std::uint64_t count) {
        if (absl::Status s = check(); !s.ok()) {
            return s;
        }
        const auto all = vertices();
        if (!all.ok()) {
            return all.status();
        }
        auto bitmap = device_array<simt::device_word<std::uint32_t>>::create(core_->on, *all / 32 + 1);
        if (!bitmap.ok()) {
            return bitmap.status();
        }
        absl::Status s = scratch_.prepare(core_->on, 0);
        s.Update(s.ok() ? core_->enqueue(1, detail::graph_begin{scratch_.counts_memory()}) : s);
        if (s.ok()) {
            s.Update(core_->run(count, detail::graph_mark{chosen, count, *all, bitmap->data()}));
        }
        if (s.ok()) {
            s.Update(core_->run(
                std::uint64_t{*all} * simt::warp_size,
                detail::graph_remove_marked<Property, Heap>{ref(), bitmap->data(), *all, scratch_.counts_memory()}));
        }
        rest_ = 0;
        const auto counts = s.ok() ? scratch_.counts() : absl::StatusOr<detail::graph_counts>(s);
        if (!counts.ok()) {
            return counts.status();
        }
        return batch_result{counts->taken.template load<simt::order::relaxed>(), 0,
                            counts->left.template load<simt::order::relaxed>()};
    }

    /// Writes 1 to `result[i]` if there is an edge from `sources[i]` to `targets[i]`, else 0. All arrays in device
    /// memory. Cost: a thread an edge, `graph_view::contains`.
    absl::Status contains(const std::uint32_t* sources, const std::uint32_t* targets, std::uint64_t count,
                          std::uint8_t* result) const {
        if (absl::Status s = check(); !s.ok()) {
            return s;
        }
        return core_->run(count, detail::graph_contains<Property>{ref(), sources, targets, count, result});
    }

    /// Returns a snapshot. Kernels may change the graph meanwhile, by `graph_ref`. While it is open, a vertex's edges
    /// are copied once when they change. Errors: ResourceExhausted if the heap has no memory for 16 B a vertex, or 15
    /// snapshots are open. Cost: copies 16 B a vertex.
    absl::StatusOr<graph_snapshot<Property, Heap>> snapshot() {
        if (absl::Status s = check(); !s.ok()) {
            return s;
        }
        const auto slot = core_->open();
        if (!slot.ok()) {
            return slot.status();
        }
        return graph_snapshot<Property, Heap>(core_, *slot);
    }

    /// Returns one more than the greatest vertex that was named or reserved.
    absl::StatusOr<std::uint32_t> vertices() const {
        std::uint32_t count = 0;
        absl::Status s = copy_to_host(core_->on, &count, &core_->state()->table.vertices, sizeof(count));
        return s.ok() ? absl::StatusOr<std::uint32_t>(count) : s;
    }
    /// Returns the graph's size. Cost: reads the table of vertices.
    absl::StatusOr<graph_statistics> stats() const {
        if (absl::Status s = check(); !s.ok()) {
            return s;
        }
        const auto all = vertices();
        if (!all.ok()) {
            return all.status();
        }
        auto sums = device_array<detail::graph_sums>::create(core_->on, 1);
        if (!sums.ok()) {
            return sums.status();
        }
        std::vector<detail::graph_sums> found(1);
        absl::Status s = core_->run(~std::uint32_t{0}, detail::graph_count{&core_->state()->table, sums->data()});
        if (s.ok()) {
            s.Update(sums->download(found));
        }
        if (!s.ok()) {
            return s;
        }
        return graph_statistics{*all, found[0].edges.template load<simt::order::relaxed>(),
                                found[0].row_bytes.template load<simt::order::relaxed>(),
                                found[0].table_bytes.template load<simt::order::relaxed>()};
    }

    /// Returns the graph as compressed sparse rows; each row ascends. Cost: its memory, by `cudaMalloc`, and a copy.
    absl::StatusOr<csr_graph<Property>> to_csr() {
        const absl::Status s = check();
        return s.ok() ? csr_of(ref()) : absl::StatusOr<csr_graph<Property>>(s);
    }
    /// The same of a snapshot of this graph.
    absl::StatusOr<csr_graph<Property>> to_csr(const graph_snapshot<Property, Heap>& of) { return csr_of(of.ref()); }

    /// Adds the edges of compressed sparse rows in device memory, in any order within a row, and makes `vertices`
    /// vertices known. Cost: as `insert`, in batches of 2^22; it ends after the first that finds no memory. Errors:
    /// those of `insert`.
    /// @param offsets  `vertices` + 1 ascending numbers, the first of which is 0
    absl::StatusOr<batch_result> from_csr(const std::uint64_t* offsets, const std::uint32_t* targets,
                                          std::uint32_t vertices, const Property* properties = nullptr) {
        std::uint64_t edges = 0;
        absl::Status s = reserve_vertices(vertices);
        if (s.ok()) {
            s.Update(copy_to_host(core_->on, &edges, offsets + vertices, sizeof(edges)));
        }
        constexpr std::uint64_t most = std::uint64_t{1} << 22;
        auto sources = device_array<std::uint32_t>::create(core_->on, std::min(edges, most));
        if (!s.ok() || !sources.ok()) {
            return s.ok() ? sources.status() : s;
        }
        batch_result sum;
        for (std::uint64_t first = 0; first < edges && sum.left == 0; first += most) {
            const std::uint64_t count = std::min(most, edges - first);
            s.Update(core_->run(count, detail::graph_csr_sources{offsets, vertices, first, count, sources->data()}));
            if (!s.ok()) {
                return s;
            }
            const Property* const theirs = properties == nullptr ? nullptr : properties + first;
            const auto done = insert({sources->data(), targets + first, count, theirs});
            if (!done.ok()) {
                return done.status();
            }
            sum = {sum.taken + done->taken, sum.duplicates + done->duplicates, sum.left + done->left};
        }
        return sum;
    }

    /// Moves rows together, so that `heap::trim` can return memory that rows have left behind: those that have grown or
    /// shrunk leave slabs of their former size with a few rows in them. What else lies in such a slab stays there.
    /// Nothing may use the graph meanwhile. Without memory some rows stay. Errors: FailedPrecondition while a snapshot
    /// is open. Cost: reads the table of vertices twice, and copies the rows that move. Of graphs in a heap alone.
    absl::Status compact() {
        if (absl::Status s = check(); !s.ok()) {
            return s;
        }
        if (core_->has_snapshots()) {
            return absl::FailedPreconditionError("a snapshot of the graph is open; close it before `compact`");
        }
        return core_->template compact<Property>();
    }

    /// Frees all memory, and removes all vertices. Errors: FailedPrecondition while a snapshot is open. Cost: a thread
    /// for each vertex.
    absl::Status clear() {
        if (core_->has_snapshots()) {
            return absl::FailedPreconditionError("a snapshot of the graph is open; close it before `clear`");
        }
        absl::Status s = core_->clear();
        is_broken_ = is_broken_ && !s.ok();
        return s;
    }

private:
    explicit graph(std::shared_ptr<detail::graph_core<Heap>> core) : core_{std::move(core)} {}

    /// Returns FailedPrecondition if rows may have wrong edges.
    [[nodiscard]] absl::Status check() const {
        return is_broken_
                   ? absl::FailedPreconditionError(
                         "an error in an earlier batch has left rows of the graph with wrong edges; call `clear` first")
                   : absl::OkStatus();
    }
    /// Returns the number of bits of `x`.
    static int bits_of(std::uint32_t x) { return x == 0 ? 1 : simt::highest_bit(x) + 1; }

    template <bool Insert>
    absl::StatusOr<batch_result> change(const edge_batch<Property>& batch) {
        rest_ = 0;
        if (absl::Status s = check(); !s.ok()) {
            return s;
        }
        if (batch.count == 0) {
            return batch_result{};
        }
        const std::uint64_t most = std::uint64_t{1} << (batch.undirected ? 30 : 31);
        if (batch.count >= most) {
            return absl::InvalidArgumentError(
                absl::StrFormat("a batch of %d edges: at most %d at a time; divide it", batch.count, most - 1));
        }
        const std::uint64_t count = batch.undirected ? 2 * batch.count : batch.count;
        for (;;) {
            if (absl::Status s = scratch_.prepare(core_->on, count); !s.ok()) {
                return s;
            }
            // As many bits as sufficed for the last batch; once more if they do not for this one.
            last_ = scratch_.batch(count, bits_);
            absl::Status s = launch<Insert>(batch);
            const auto counts = scratch_.counts();
            is_broken_ = is_broken_ || !counts.ok();  // an error of a running kernel: nobody knows of which
            s.Update(counts.status());
            if (!s.ok()) {
                return s;
            }
            is_broken_ = false;
            const std::uint32_t greatest = counts->greatest.template load<simt::order::relaxed>();
            if (greatest > graph_ref<Property>::max_vertex) {
                return absl::InvalidArgumentError(
                    absl::StrFormat("vertex %d in a batch: numbers of vertices are at most %d", greatest,
                                    graph_ref<Property>::max_vertex));
            }
            if (bits_of(greatest) <= bits_) {
                const std::uint64_t changing = counts->changing.template load<simt::order::relaxed>();
                const std::uint64_t left = counts->left.template load<simt::order::relaxed>();
                if (left != 0) {
                    using list = detail::graph_list_left<Property, Insert, Heap>;
                    s.Update(core_->run(count, list{{ref(), last_, batch.properties}}));
                    if (!s.ok()) {
                        return s;
                    }
                }
                rest_ = left;
                const std::uint64_t longest = counts->longest.template load<simt::order::relaxed>();
                if (longest != 0) {
                    return absl::OutOfRangeError(absl::StrFormat(
                        "a vertex would have %d edges, and can have %d; `rest` has the %d edges that were not added",
                        longest, device::graph_max_degree, left));
                }
                const std::uint64_t loops = counts->loops.template load<simt::order::relaxed>();
                return batch_result{changing - rest_, count - changing - loops, rest_};
            }
            bits_ = bits_of(greatest);
        }
    }

    /// Launches the kernels of a batch; on CUDA it waits for none of them. After an error, `is_broken_` says whether
    /// rows may have been changed.
    template <bool Insert>
    absl::Status launch(const edge_batch<Property>& batch) {
        detail::graph_batch& b = last_;
        const simt::executor& on = core_->on;
        absl::Status s;
        const auto next = [&](const auto& step) { s.Update(s.ok() ? step() : s); };
        const auto kernel = [&](std::uint64_t threads, const auto& k) {
            next([&] { return core_->enqueue(threads, k); });
        };
        kernel(1, detail::graph_begin{b.counts});
        kernel(batch.count, detail::graph_keys<Property, Insert, Heap>{ref(), batch.sources, batch.targets, batch.count,
                                                                       batch.undirected, b});
        next([&] { return scratch_.sort(on, b); });
        kernel(b.count, detail::graph_search<Property, Insert, Heap>{ref(), b});
        next([&] { return scratch_.sum(on, b); });
        kernel(b.count + 1, detail::graph_gather<has_property>{b});
        next([&] { return scratch_.prepare_rows(on, b); });
        is_broken_ = s.ok();
        kernel(b.count, detail::graph_row_keys<Property, Insert, Heap>{{ref(), b, batch.properties}});
        next([&] { return scratch_.sort_rows(on, b); });
        kernel(b.count, detail::graph_bands<Property>{b});
        next([&] { return change_rows(detail::graph_changer<Property, Insert, Heap>{ref(), b, batch.properties}); });
        return s;
    }
    /// Launches the kernels that change rows: of those that stay, and beside them of those that move.
    template <bool Insert>
    absl::Status change_rows(const detail::graph_changer<Property, Insert, Heap>& changer) {
        using hubs = detail::graph_change_hubs<Property, Insert, Heap>;
        using others = detail::graph_change_rows<Property, Insert, Heap>;
        const simt::executor& on = core_->on;
        const bool cuda = on.kind == simt::device_kind::cuda;
        const simt::grid blocks{cuda ? hubs::max_blocks : 4u, cuda ? 512u : 64u};
        const simt::grid threads = core_->shape(changer.batch.count);
        constexpr std::uint32_t moving = 0;
        constexpr std::uint32_t staying = detail::graph_row_key::teams;
        absl::Status s;
        const auto kernel = [&](const simt::executor& where, simt::grid shape, const auto& k) {
            using Kernel = std::decay_t<decltype(k)>;
            s.Update(s.ok() ? detail::launched<Kernel>(simt::enqueue(where, shape, k)) : s);
        };
        simt::executor beside[2];
        int forked = 0;
        while (forked < 2 && s.ok()) {
            s.Update(to_status(side_[forked].fork(on, beside[forked])));
            forked += s.ok() ? 1 : 0;
        }
        // First the runs, which the longest chain of kernels needs: the device begins them in this order.
        kernel(on, threads, detail::graph_choose<Property, Insert, Heap>{changer});
        kernel(beside[0], blocks, hubs{changer, staying});
        kernel(beside[1], threads, others{changer, staying});
        kernel(on, blocks, hubs{changer, moving});
        kernel(on, threads, others{changer, moving});
        const detail::graph_free_left<Property, Insert, Heap> frees{changer};
        kernel(on, threads, frees);
        if (!s.ok()) {
            // Nothing else knows the runs that rows have left. Those of rows without a choice are where they were.
            s.Update(core_->enqueue(changer.batch.count, frees));
        }
        for (int i = 0; i < forked; ++i) {  // after an error, too: what is launched ends before memory is used again
            s.Update(to_status(side_[i].join(on)));
        }
        return s;
    }

    absl::StatusOr<csr_graph<Property>> csr_of(const graph_view<Property>& view) {
        const auto all = vertices();
        if (!all.ok()) {
            return all.status();
        }
        csr_graph<Property> csr;
        auto offsets = device_array<std::uint64_t>::create(core_->on, std::uint64_t{*all} + 1);
        if (!offsets.ok()) {
            return offsets.status();
        }
        csr.offsets = *std::move(offsets);
        absl::Status s =
            core_->run(std::uint64_t{*all} + 1, detail::graph_degrees<Property>{view, csr.offsets.data(), *all});
        if (s.ok()) {
            s.Update(detail::sum_before(core_->on, csr.offsets.data(), std::uint64_t{*all} + 1, scratch_.memory()));
        }
        std::uint64_t edges = 0;
        if (s.ok()) {
            s.Update(copy_to_host(core_->on, &edges, csr.offsets.data() + *all, sizeof(edges)));
        }
        auto targets = device_array<std::uint32_t>::create(core_->on, s.ok() ? edges : 0);
        auto properties = device_array<Property>::create(core_->on, has_property && s.ok() ? edges : 0);
        for (const absl::Status& failed : {s, targets.status(), properties.status()}) {
            if (!failed.ok()) {
                return failed;
            }
        }
        csr.targets = *std::move(targets);
        csr.properties = *std::move(properties);
        s.Update(core_->run(std::max<std::uint64_t>(*all, 1) * simt::warp_size,
                            detail::graph_rows_to_csr<Property>{view, csr.offsets.data(), *all, csr.targets.data(),
                                                                csr.properties.data()}));
        return s.ok() ? absl::StatusOr<csr_graph<Property>>(std::move(csr)) : s;
    }

    std::shared_ptr<detail::graph_core<Heap>> core_;
    detail::graph_scratch<Property> scratch_;
    simt::side_stream side_[2];
    detail::graph_batch last_{};  ///< the last batch, in the memory of `scratch_`
    std::uint64_t rest_ = 0;      ///< edges of the last batch that found no memory
    bool is_broken_ = false;      ///< rows may have wrong edges, since an error in a batch
    int bits_ = 1;                ///< of a vertex of any batch so far
};

}  // namespace orchard
