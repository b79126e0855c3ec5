// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench fragmentation`: threads free their block and allocate one of another size, at random, in a heap that
/// is four fifths full. Then it measures the largest request that still succeeds, as a share of the free memory. Lanes
/// that allocate together share chunks, which stay whole until the last lane frees its block. The benchmark runs once
/// with one lane of each warp alone, and for whole warps once with chunks of single lanes and once with chunks for a
/// warp.
///
///     mode, chunk_lanes   which threads allocate, and the option of that name
///     blocks, iterations  threads with a block; exchanges so far
///     live_share          requested bytes of live blocks, by the capacity
///     held_over_live      memory of segments that are granted, by those bytes: what rounding and shared chunks hold
///     free_bytes          the capacity less that memory
///     largest_bytes       the largest request of whole segments that succeeds; largest_share: by free_bytes
///     nulls               threads without a block, because their last request failed
///
/// Nothing is timed. Rows come after 10, 100, 1,000 iterations; the heap is trimmed before, so that memory that only
/// waits on the device does not count as used.

#include <algorithm>
#include <numeric>

#include "device/heap_ref.cuh"
#include "profiling/bench/bench.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// Sizes are spread evenly over the doublings from 2^16 to 2^24 B.
constexpr std::uint32_t least_log = 16;  ///< log2 of the smallest size in bytes
constexpr std::uint32_t doublings = 8;   ///< the largest size is 2^24 B
/// The mean of all sizes: each doubling is as likely, and its mean is 1.5 times its lower end.
constexpr std::uint64_t mean_bytes =
    3 * ((std::uint64_t{1} << (least_log + doublings)) - (1u << least_log)) / 2 / doublings;

/// The block of one allocating thread.
struct slot {
    void* block;          ///< null: none yet, or the last request failed
    std::uint64_t bytes;  ///< size of the block
};

/// Every fourth of the allocating threads, chosen at random, exchanges its block. All of them that have no block
/// allocate one; in the first round, all do.
struct exchange_kernel {
    heap_ref heap;
    slot* slots;
    std::uint64_t count;
    std::uint64_t threads_each;  ///< threads for each slot; the first of them allocates
    std::uint32_t round;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread() / threads_each;
        if (at.global_thread() % threads_each != 0 || i >= count) {
            return;
        }
        // One random number for both choices: its lowest two bits whether to exchange, the next ones the doubling.
        const std::uint32_t r = device::mix(static_cast<std::uint32_t>(i) + device::mix(round));
        slot& s = slots[i];
        if (s.block != nullptr && r % 4 != 0) {
            return;
        }
        // Freed before the new request, so that no more is live than the capacity is made for.
        heap.free(s.block);
        const std::uint64_t low = std::uint64_t{1} << (least_log + r / 4 % doublings);
        s.bytes = low + device::mix(r) % low;
        s.block = heap.malloc(s.bytes);
    }
};

/// Frees all blocks.
struct free_all_kernel {
    heap_ref heap;
    slot* slots;
    std::uint64_t count;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() < count) {
            heap.free(slots[at.global_thread()].block);
            slots[at.global_thread()] = {};
        }
    }
};

/// Finds the most whole segments that one request can get, by bisection: what fits is freed at once, and a larger
/// request is tried. One thread, so that no other request changes what is free. The failures are intended.
struct largest_kernel {
    heap_ref heap;
    std::uint64_t segments;
    std::uint64_t* largest;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() != 0) {
            return;
        }
        // Invariant: `fits` succeeded (0 always does), `does_not` failed, or exceeds the capacity.
        std::uint64_t fits = 0;
        std::uint64_t does_not = segments + 1;
        while (does_not - fits > 1) {
            const std::uint64_t middle = (fits + does_not) / 2;
            void* const p = heap.malloc(middle * segment_bytes);
            (p != nullptr ? fits : does_not) = middle;
            heap.free(p);
        }
        *largest = fits;
    }
};

/// The threads that allocate, and the number of lanes that share a chunk.
struct mode {
    const char* name;
    std::uint64_t threads_each;  ///< threads for each slot; the first of them allocates
    int chunk_lanes;             ///< the option `chunk_lanes` of the heap
    std::uint32_t times_fewer;   ///< iterations: a full heap takes long over each
};

struct bed {
    heap& h;
    device_array<slot>& slots;
    mode how;

    template <class Kernel>
    absl::Status launch(std::uint64_t threads, const Kernel& kernel) {
        return to_status(simt::launch(h.executor(), simt::grid_for(threads), kernel));
    }
};

/// Returns the row of a heap after `iterations`, without changing its blocks. Errors: those of the heap and of
/// launches.
absl::StatusOr<ordered_json> inspect(bed& b, std::uint32_t iterations) {
    absl::Status status = b.h.trim();
    status.Update(b.h.validate());
    std::vector<slot> slots(b.slots.size());
    status.Update(b.slots.download(slots));
    const auto stats = b.h.stats();
    status.Update(stats.status());
    auto answer = device_array<std::uint64_t>::create(b.h.executor(), 1);
    status.Update(answer.status());
    std::uint64_t largest = 0;
    if (status.ok()) {
        const std::uint64_t segments = stats->capacity_bytes / segment_bytes;
        status.Update(b.launch(1, largest_kernel{b.h.ref(), segments, answer->data()}));
        status.Update(copy_to_host(b.h.executor(), &largest, answer->data(), sizeof(largest)));
    }
    if (!status.ok()) {
        return status;
    }
    std::uint64_t live = 0;
    std::uint64_t nulls = 0;
    for (const slot& s : slots) {
        live += s.block != nullptr ? s.bytes : 0;
        nulls += s.block == nullptr;
    }
    // After `trim` no segment waits on the device: what is granted is held by blocks.
    const std::uint64_t held = stats->segments_granted * segment_bytes;
    const std::uint64_t free = stats->capacity_bytes - held;
    const auto share = [](std::uint64_t part, std::uint64_t whole) {
        return whole != 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
    };
    return ordered_json{{"mode", b.how.name},
                        {"chunk_lanes", b.how.chunk_lanes},
                        {"blocks", b.slots.size()},
                        {"iterations", iterations},
                        {"capacity_bytes", stats->capacity_bytes},
                        {"live_share", share(live, stats->capacity_bytes)},
                        {"held_over_live", share(held, live)},
                        {"free_bytes", free},
                        {"largest_bytes", largest * segment_bytes},
                        {"largest_share", share(largest * segment_bytes, free)},
                        {"nulls", nulls}};
}

/// Runs `iterations` exchanges, adds a row at each power of ten from 10 on and at the last one, and empties the heap.
/// Errors: those of `inspect`, of launches and of the last `validate`.
absl::Status measure(bed b, std::uint32_t iterations, ordered_json& rows) {
    const std::uint64_t count = b.slots.size();
    absl::Status status;
    std::uint32_t next_row = std::min(iterations, 10u);
    for (std::uint32_t i = 1; i <= iterations && status.ok(); ++i) {
        status.Update(b.launch(count * b.how.threads_each,
                               exchange_kernel{b.h.ref(), b.slots.data(), count, b.how.threads_each, i}));
        if (status.ok() && i == next_row) {
            auto row = inspect(b, i);
            if (!row.ok()) {
                return row.status();
            }
            rows.push_back(*std::move(row));
            next_row = std::min(iterations, next_row * 10);
        }
    }
    status.Update(b.launch(count, free_all_kernel{b.h.ref(), b.slots.data(), count}));
    status.Update(b.h.trim());
    status.Update(b.h.validate());
    return status;
}

absl::StatusOr<ordered_json> run_fragmentation(const settings& s) {
    options values = s.heap;
    const bool large = s.device == simt::device_kind::cuda && !s.quick;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    const std::uint64_t count = large ? 4096 : 96;
    const std::uint32_t iterations = s.quick ? 20 : 1000;
    // 5/4 of what is requested on average: the heap is four fifths full, in whole segments.
    values.capacity = count * mean_bytes * 5 / 4 / segment_bytes * segment_bytes;
    ordered_json rows = ordered_json::array();
    for (const mode& how :
         {mode{"lanes alone", simt::warp_size, 32, 1}, mode{"whole warps", 1, 1, 1}, mode{"whole warps", 1, 32, 10}}) {
        values.chunk_lanes = how.chunk_lanes;
        auto h = heap::create(values);
        if (!h.ok()) {
            return h.status();
        }
        auto slots = device_array<slot>::create(h->executor(), count);
        if (!slots.ok()) {
            return slots.status();
        }
        if (absl::Status status = measure({*h, *slots, how}, large ? iterations / how.times_fewer : iterations, rows);
            !status.ok()) {
            return status;
        }
    }
    return rows;
}

const registrar fragmentation_registered{
    {"fragmentation", "the largest request that succeeds in a heap used for long", run_fragmentation}};

}  // namespace
}  // namespace orchard::bench
