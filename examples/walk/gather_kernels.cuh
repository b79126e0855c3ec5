// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Kernels that gather lists from all over the heap into ranges that the host copies at once, and kernels that free
/// them.
///
///     adjacency    lists in the heap --pack_adjacency--> one array in plain device memory --one copy--> host
///     walks        lists in the heap --gather_walks----> logs in the heap, 2 MiB or more --a copy each--> host
///
/// Copying each list by itself would cost a transfer for each vertex and each walker.

#include <cstdint>

#include "examples/walk/records.cuh"

namespace orchard::examples {

/// Writes the neighbours of all vertices one after another: those of v to `neighbours[offsets[v] ...]`. Warps take
/// vertices in turn, the lanes of a warp copy one list together. Any grid.
struct pack_adjacency {
    const vertex_record* vertices;
    std::uint32_t count;           ///< vertices
    const std::uint64_t* offsets;  ///< where each vertex's neighbours begin; as `host_graph::offsets`
    std::uint32_t* neighbours;     ///< the result

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t warps = std::uint64_t{at.blocks} * (at.threads_per_block / simt::warp_size);
        const std::uint32_t lane = at.thread % simt::warp_size;
        // A vertex of high degree keeps one warp busy while the others take the next vertices.
        for (std::uint64_t v = at.global_warp(); v < count; v += warps) {
            const std::uint32_t size = vertices[v].size.load<order::relaxed>();  // an earlier kernel wrote it
            const auto* list = reinterpret_cast<const std::uint32_t*>(vertices[v].list.load<order::relaxed>());
            for (std::uint32_t i = lane; i < size; i += simt::warp_size) {
                neighbours[offsets[v] + i] = list[i];
            }
        }
    }
};

/// Gathers the walks of walkers [first, first + count) in logs, one for each warp. A walk lies in many small places of
/// the heap, and copying each to the host would cost one transfer for each walker. Therefore each warp allocates one
/// large range (a log, at least a whole segment), and its lanes copy `per_log` walks into it, `stride` entries each.
///
/// Launch with whole warps, as many as logs. `Heap`: `void* malloc(std::uint64_t) const`.
template <class Heap>
struct gather_walks {
    Heap heap;
    const walker_record* walkers;  ///< of all walkers
    std::uint64_t first;
    std::uint64_t count;
    std::uint64_t per_log;    ///< walks in a log
    std::uint32_t stride;     ///< entries of a log for each walk
    std::uint64_t log_bytes;  ///< size of a log
    log_record* logs;         ///< the result: where each log lies
    std::uint32_t log_count;  ///< logs of this slice, a warp each
    trouble* problem;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t log = at.global_warp();
        if (log >= log_count) {
            return;
        }
        // All lanes are here: the return above is the same for all lanes of a warp.
        constexpr simt::lane_mask all = ~simt::lane_mask{0};
        const int lane = simt::lane_id();
        std::uint64_t address = 0;
        if (lane == 0) {
            address = reinterpret_cast<std::uint64_t>(heap.malloc(log_bytes));
            logs[log].entries = reinterpret_cast<std::uint32_t*>(address);
        }
        address = simt::shuffle(all, address, 0);
        simt::sync(all);  // lane 0 acquired the range; this makes it visible to all lanes
        if (address == 0) {
            if (lane == 0) {
                problem->record(trouble_kind::no_memory, log);
            }
            return;
        }
        // Walk i of the log begins at entry i * stride; entries behind its size are not looked at.
        auto* entries = reinterpret_cast<std::uint32_t*>(address);
        for (std::uint64_t i = 0; i < per_log && log * per_log + i < count; ++i) {
            // All lanes copy one walk together: consecutive entries at the same time.
            const walker_record& walk = walkers[first + log * per_log + i];
            for (std::uint32_t k = static_cast<std::uint32_t>(lane); k < walk.size; k += simt::warp_size) {
                entries[i * stride + k] = walk.list[k];
            }
        }
    }
};

/// Frees the logs with which a slice was copied, a thread each. The record is cleared, so that a second launch would
/// free null.
template <class Heap>
struct free_logs {
    Heap heap;
    log_record* logs;
    std::uint32_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() < count) {
            heap.free(logs[at.global_thread()].entries);
            logs[at.global_thread()].entries = nullptr;
        }
    }
};

/// Frees the lists of walkers [0, count), a thread each, and clears their records.
template <class Heap>
struct free_walks {
    Heap heap;
    walker_record* walkers;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() < count) {
            heap.free(walkers[at.global_thread()].list);
            walkers[at.global_thread()] = {};
        }
    }
};

/// Frees the lists of vertices [0, count), a thread each, and clears their records. No claim is needed: no other kernel
/// uses the graph any more.
template <class Heap>
struct free_adjacency {
    Heap heap;
    vertex_record* vertices;
    std::uint32_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() < count) {
            vertex_record& record = vertices[at.global_thread()];
            heap.free(reinterpret_cast<void*>(record.list.template exchange<order::relaxed>(0)));
            record.size.template store<order::relaxed>(0);
            record.capacity.template store<order::relaxed>(0);
        }
    }
};

}  // namespace orchard::examples
