// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The walk's steps on the device, for any heap whose device view is `Heap`. The program uses `heap_ref`; a test uses
/// an allocator that counts its calls.
///
///     walk_runner::create      plain device memory for records, visits and the trouble word
///       insert                 insert_edges, a launch for each batch
///       walk                   walk_graph, a launch for each 2^20 walkers
///       copy_adjacency         copy_degrees, pack_adjacency, one copy
///       for_each_slice         gather_walks, a copy for each log, free_logs; slice after slice
///       free_all               free_walks, free_adjacency
///
/// Each launch is followed by a look at the trouble word: a kernel that found no memory has ended without an error of
/// its own.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/simt/launch.cuh"
#include "examples/graph/host_graph.hpp"
#include "examples/report/kernel_steps.hpp"
#include "examples/walk/gather_kernels.cuh"
#include "examples/walk/insert_kernel.cuh"
#include "examples/walk/walk_kernel.cuh"
#include "examples/walk/walk_options.hpp"
#include "examples/walk/walk_result.hpp"
#include "runtime/cli/progress.hpp"
#include "runtime/heap/device_memory.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard::examples {

/// Walks of consecutive walkers, copied to the host; valid until the function that gets it returns.
struct walk_slice {
    std::uint64_t first = 0;                      ///< number of the first walker
    std::span<const walker_record> walkers;       ///< on the host, only `size` is meaningful
    std::span<const std::uint32_t* const> walks;  ///< addresses of each walk's vertices
};

/// Owns the walk's plain device memory and launches its kernels. Every function returns the error of the launch or of
/// the copy, or `ResourceExhausted` if the heap returned null (the heap has the reason).
template <class Heap>
class walk_runner {
public:
    /// Returns a runner for a graph of `vertices` vertices, without edges. Records and visits are zero bytes.
    static absl::StatusOr<walk_runner> create(const simt::executor& on, const Heap& heap, std::uint32_t vertices,
                                              const walk_options& options) {
        walk_runner runner(on, heap, vertices, options);
        for (const absl::Status& s : {make(on, vertices, runner.vertices_), make(on, options.walkers, runner.walkers_),
                                      make(on, vertices, runner.visits_), make(on, 1, runner.problem_)}) {
            if (!s.ok()) {
                return s;
            }
        }
        return runner;
    }

    /// Inserts `edges`, both directions, in batches. Adds the kernels' time and two items for each edge to `measured`.
    absl::Status insert(std::span<const edge> edges, phase& measured, command_line::progress& bar) {
        const std::uint64_t batch = std::min<std::uint64_t>(options_.batch_of(edges.size()), edges.size());
        // One batch at a time is copied to the device, so that a graph need not fit there as a list of edges as well.
        device_array<edge> staged;
        if (absl::Status s = make(on_, batch, staged); !s.ok()) {
            return s;
        }
        bar.begin("inserting edges", edges.size());
        for (std::uint64_t first = 0; first < edges.size(); first += batch) {
            const std::span<const edge> part = edges.subspan(first, std::min(batch, edges.size() - first));
            if (absl::Status s = staged.upload(part); !s.ok()) {
                return s;
            }
            const insert_edges<Heap> kernel{heap_,           staged.data(), part.size(), vertices_.data(),
                                            problem_.data(), patience_ns};
            if (absl::Status s = launch("inserting edges", simt::grid_for(part.size() * 2), kernel, measured);
                !s.ok()) {
                return s;
            }
            bar.add(part.size());
        }
        measured.items += edges.size() * 2;
        return absl::OkStatus();
    }

    /// Runs all walkers, in slices so that the bar moves.
    absl::Status walk(phase& measured, command_line::progress& bar) {
        // Walkers of a launch.
        constexpr std::uint64_t slice = 1ull << 20;
        bar.begin("walking", options_.walkers);
        for (std::uint64_t first = 0; first < options_.walkers; first += slice) {
            const std::uint64_t count = std::min(slice, options_.walkers - first);
            const walk_graph<Heap> kernel{heap_, rule(), vertices_.data(), walkers_.data(),
                                          first, count,  visits_.data(),   problem_.data()};
            if (absl::Status s = launch("walking", simt::grid_for(count), kernel, measured); !s.ok()) {
                return s;
            }
            bar.add(count);
        }
        return absl::OkStatus();
    }

    /// Returns the device's current adjacency, in the device's order: the order in which the threads inserted.
    absl::StatusOr<host_graph> copy_adjacency(phase& measured) {
        host_graph graph;
        if (absl::Status s = copy_degrees(graph.offsets); !s.ok()) {
            return s;
        }
        graph.neighbours.resize(graph.offsets.back());
        device_array<std::uint64_t> offsets;
        device_array<std::uint32_t> packed;
        for (const absl::Status& s : {make(on_, graph.offsets.size(), offsets),
                                      make(on_, graph.neighbours.size(), packed), offsets.upload(graph.offsets)}) {
            if (!s.ok()) {
                return s;
            }
        }
        const pack_adjacency kernel{vertices_.data(), vertex_count_, offsets.data(), packed.data()};
        // About as many as a large GPU holds at once; a warp takes several vertices.
        constexpr std::uint64_t max_warps = 8192;
        const std::uint64_t warps = std::min<std::uint64_t>(vertex_count_, max_warps);
        if (absl::Status s = launch("packing adjacency", simt::grid_for(warps * simt::warp_size), kernel, measured);
            !s.ok()) {
            return s;
        }
        if (absl::Status s = packed.download(graph.neighbours); !s.ok()) {
            return s;
        }
        measured.items += graph.neighbours.size();
        return graph;
    }

    /// Returns the number of visits to each vertex.
    absl::StatusOr<std::vector<std::uint64_t>> copy_visits() const {
        std::vector<std::uint64_t> visits(vertex_count_);
        // A word of the device is copied as the number in it.
        static_assert(sizeof(device_word<std::uint64_t>) == sizeof(std::uint64_t));
        absl::Status s = copy_to_host(on_, visits.data(), visits_.data(), visits.size() * sizeof(std::uint64_t));
        if (!s.ok()) {
            return s;
        }
        return visits;
    }

    /// Passes all walks to `look`, slice after slice: each slice is gathered in logs and copied, then its logs are
    /// freed.
    absl::Status for_each_slice(const std::function<void(const walk_slice&)>& look, phase& measured,
                                command_line::progress& bar);

    /// Frees all lists by kernels. Frees both kinds even if an earlier trouble is returned as the error: the trouble
    /// word keeps it, and every launch reports it.
    absl::Status free_all(phase& measured) {
        const free_walks<Heap> walks{heap_, walkers_.data(), walkers_.size()};
        const free_adjacency<Heap> adjacency{heap_, vertices_.data(), vertex_count_};
        measured.items += walkers_.size() + vertex_count_;
        absl::Status s = launch("freeing walks", simt::grid_for(walkers_.size()), walks, measured);
        s.Update(launch("freeing adjacency", simt::grid_for(vertex_count_), adjacency, measured));
        return s;
    }

    /// Returns the rule of the walk, for the device's kernels and for the host's checks.
    [[nodiscard]] walk_rule rule() const {
        return {options_.seed, vertex_count_, options_.steps, options_.at_dead_end};
    }

private:
    /// A group gives up if a vertex's list does not change for this long. The heap's own deadlines are shorter.
    static constexpr std::uint64_t patience_ns = 120'000'000'000;

    walk_runner(const simt::executor& on, const Heap& heap, std::uint32_t vertices, const walk_options& options)
        : on_{on}, heap_{heap}, vertex_count_{vertices}, options_{options} {}

    /// Launches a kernel, waits for it, adds its time to `measured`, and looks at the trouble word. `what` begins the
    /// messages. Errors: Internal with the device's text; DeadlineExceeded or ResourceExhausted for a trouble.
    template <class Kernel>
    absl::Status launch(const char* what, simt::grid shape, const Kernel& kernel, phase& measured) {
        const stopwatch time;
        const simt::launch_result result = simt::launch(on_, shape, kernel);
        measured.kernel_seconds += time.seconds();
        if (!result.ok) {
            return absl::InternalError(absl::StrFormat("%s: %s", what, result.error));
        }
        std::uint64_t problem = 0;
        absl::Status s = copy_to_host(on_, &problem, problem_.data(), sizeof problem);
        if (!s.ok() || problem == 0) {
            return s;
        }
        // A vertex, a walker or a log: the lower half of the word.
        const auto where = static_cast<std::uint32_t>(problem);
        if (static_cast<trouble_kind>(problem >> 32) == trouble_kind::claim_not_released) {
            return absl::DeadlineExceededError(
                absl::StrFormat("%s: the list of vertex %u did not change for %u s while others waited for it", what,
                                where, patience_ns / 1'000'000'000));
        }
        return absl::ResourceExhaustedError(absl::StrFormat("%s: the heap gave no memory (item %u)", what, where));
    }

    /// Copies the vertices' records, and computes where each list begins in the packed adjacency: sums of the sizes.
    absl::Status copy_degrees(std::vector<std::uint64_t>& offsets) const {
        std::vector<vertex_record> records(vertex_count_);
        if (absl::Status s = vertices_.download(records); !s.ok()) {
            return s;
        }
        offsets.assign(records.size() + 1, 0);
        for (std::size_t v = 0; v < records.size(); ++v) {
            offsets[v + 1] = offsets[v] + records[v].size.template load<order::relaxed>();
        }
        return absl::OkStatus();
    }

    simt::executor on_;  ///< device and stream of all launches
    Heap heap_;          ///< the view that kernels get
    std::uint32_t vertex_count_;
    walk_options options_;
    device_array<vertex_record> vertices_;             ///< by vertex
    device_array<walker_record> walkers_;              ///< by walker
    device_array<device_word<std::uint64_t>> visits_;  ///< by vertex
    device_array<trouble> problem_;                    ///< one element
};

/// The arrangement of walks in logs. An example: 1,000 walkers of 40 steps.
///
///     stride      41 entries, 164 B          a walk visits at most steps + 1 vertices
///     per_log     125 walks                  a segment has room for 12,787; but eight warps are to share the work
///     bytes       2 MiB                      at least a segment: the request is a large one
///     logs        8                          of at most 32 in a slice
///
///     log 0    | walk 0 . . | walk 1 . | ... | walk 124 |          a walk that ended early leaves room behind it
///     log 1    | walk 125   | ...
struct log_shape {
    std::uint32_t stride = 0;   ///< entries reserved for a walk
    std::uint64_t per_log = 0;  ///< walks in a log
    std::uint64_t bytes = 0;    ///< size of a log: `log_bytes`, or more if one walk needs more
    std::uint32_t logs = 0;     ///< logs in a slice

    /// Returns the shape for slices of at most 64 MiB. A slice has at least eight logs if there are enough walkers, so
    /// that warps share the work.
    static log_shape of(const walk_options& options) {
        constexpr std::uint64_t slice_bytes = 32 * segment_bytes;
        log_shape shape;
        shape.stride = options.steps + 1;
        const std::uint64_t walk_bytes = std::uint64_t{shape.stride} * sizeof(std::uint32_t);
        // As many walks as a log holds; fewer if there would be fewer than eight logs.
        shape.per_log = std::clamp<std::uint64_t>(options.log_bytes / walk_bytes, 1, (options.walkers + 7) / 8);
        shape.bytes = std::max(options.log_bytes, walk_bytes);
        const std::uint64_t needed = (options.walkers + shape.per_log - 1) / shape.per_log;
        shape.logs =
            static_cast<std::uint32_t>(std::min(needed, std::max<std::uint64_t>(1, slice_bytes / shape.bytes)));
        return shape;
    }
};

/// The memory of the host is that of one slice, whatever the number of walkers: entries, sizes and addresses. After an
/// error the logs of that slice stay in the heap; the run ends there.
template <class Heap>
absl::Status walk_runner<Heap>::for_each_slice(const std::function<void(const walk_slice&)>& look, phase& measured,
                                               command_line::progress& bar) {
    const log_shape shape = log_shape::of(options_);
    const std::uint64_t slice = shape.per_log * shape.logs;
    const std::uint64_t log_entries = shape.per_log * shape.stride;
    device_array<log_record> logs;
    if (absl::Status s = make(on_, shape.logs, logs); !s.ok()) {
        return s;
    }
    // On the host: where the logs lie, the walkers' records, all entries of the slice, and where each walk begins in
    // them.
    std::vector<log_record> places(shape.logs);
    std::vector<walker_record> walkers;
    std::vector<std::uint32_t> entries(log_entries * shape.logs);
    std::vector<const std::uint32_t*> walks;
    bar.begin("checking walks", options_.walkers);
    for (std::uint64_t first = 0; first < options_.walkers; first += slice) {
        const std::uint64_t count = std::min(slice, options_.walkers - first);
        // The last slice may need fewer logs.
        const auto used = static_cast<std::uint32_t>((count + shape.per_log - 1) / shape.per_log);
        const gather_walks<Heap> gather{heap_,        walkers_.data(), first,       count, shape.per_log,
                                        shape.stride, shape.bytes,     logs.data(), used,  problem_.data()};
        if (absl::Status s =
                launch("gathering walks", simt::grid_for(std::uint64_t{used} * simt::warp_size), gather, measured);
            !s.ok()) {
            return s;
        }
        walkers.resize(count);
        // The addresses of the logs first, then the sizes of the walks, then each log by one copy.
        absl::Status copied = logs.download({places.data(), used});
        copied.Update(walkers_.download(walkers, first));
        for (std::uint32_t i = 0; copied.ok() && i < used; ++i) {
            // Only entries of walks that there are: the last log may hold fewer.
            const std::uint64_t held = std::min(shape.per_log, count - i * shape.per_log);
            copied.Update(copy_to_host(on_, entries.data() + i * log_entries, places[i].entries,
                                       held * shape.stride * sizeof(std::uint32_t)));
        }
        if (!copied.ok()) {
            return copied;
        }
        if (absl::Status s =
                launch("freeing logs", simt::grid_for(used), free_logs<Heap>{heap_, logs.data(), used}, measured);
            !s.ok()) {
            return s;
        }
        walks.resize(count);
        for (std::uint64_t i = 0; i < count; ++i) {
            walks[i] = entries.data() + i * shape.stride;  // logs follow each other without a gap
        }
        look({first, walkers, walks});
        for (const walker_record& walk : walkers) {
            // Visits, as in the phase walk.
            measured.items += walk.size;
        }
        bar.add(count);
    }
    return absl::OkStatus();
}

}  // namespace orchard::examples
