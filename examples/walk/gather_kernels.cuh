// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Kernels that gather lists from all over the heap into ranges that the host copies at once, and kernels that free
/// them.

#include <cstdint>

#include "examples/walk/records.cuh"

namespace orchard::examples {

/// Writes the neighbours of all vertices one after another: those of v to `neighbours[offsets[v] ...]`. Warps take
/// vertices in turn, the lanes of a warp copy one list together. Any grid.
struct pack_adjacency {
    const vertex_record* vertices;
    std::uint32_t count;
    const std::uint64_t* offsets;
    std::uint32_t* neighbours;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t warps = std::uint64_t{at.blocks} * (at.threads_per_block / simt::warp_size);
        const std::uint32_t lane = at.thread % simt::warp_size;
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
    const walker_record* walkers;
    std::uint64_t first;
    std::uint64_t count;
    std::uint64_t per_log;
    std::uint32_t stride;
    std::uint64_t log_bytes;
    log_record* logs;
    std::uint32_t log_count;
    trouble* problem;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t log = at.global_warp();
        if (log >= log_count) {
            return;
        }
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
        auto* entries = reinterpret_cast<std::uint32_t*>(address);
        for (std::uint64_t i = 0; i < per_log && log * per_log + i < count; ++i) {
            const walker_record& walk = walkers[first + log * per_log + i];
            for (std::uint32_t k = static_cast<std::uint32_t>(lane); k < walk.size; k += simt::warp_size) {
                entries[i * stride + k] = walk.list[k];
            }
        }
    }
};

/// Frees the logs with which a slice was copied.
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

/// Frees the lists of walkers [0, count).
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

/// Frees the lists of vertices [0, count).
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
