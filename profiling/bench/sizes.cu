// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench sizes`: 16,384 threads allocate 2^n to 2^(n+1) bytes each from one heap, as blocks of `malloc` and as
/// interleaved arrays. Does the cost depend on the size, and on whether the memory comes from the host?
///
///     cold_us          the kernel that allocates after `trim`: all memory comes through the mailbox
///     recycled_us      the same with the memory that the launch before has freed
///     free_us          the kernel that frees, after either
///     held_over_asked  bytes of the warp chunks over the bytes asked for, 1.5 * 2^n a thread; 0 where blocks are pages
///     granted_over_asked  bytes of the segments that the host has granted for these, over the same; 0 as above
///     host_requests, recycled_host_requests   requests to the host of the last launch of each kind
///     nulls, wrong_stamps                     of the checked launches
///
/// All memory is committed from the start, so that commits are not part of any time. In three launches of each row (the
/// warm-up, and the first of each kind), every block is stamped every 4 KiB and at its end and read back by another
/// kernel, to find blocks that overlap, and the full heap is validated.

#include <algorithm>

#include "profiling/bench/bench.hpp"
#include "profiling/bench/blocks.cuh"
#include "profiling/bench/repetitions.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// Returns the number of requests to the host that the heap has made so far.
absl::StatusOr<std::uint64_t> host_requests_of(heap& h) {
    const auto stats = h.stats();
    return stats.ok() ? absl::StatusOr<std::uint64_t>(stats->host_requests) : stats.status();
}

/// Returns all times in one list, in order.
std::vector<double> joined(const std::vector<std::vector<double>>& parts) {
    std::vector<double> all;
    for (const std::vector<double>& part : parts) {
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

/// Memory that blocks take, over the bytes asked for; 0 if a block is no part of a chunk.
struct taken_over_asked {
    double held = 0;     ///< by warp chunks
    double granted = 0;  ///< whole segments; those that hold tails may have room for more
};

/// Returns the memory that blocks of `low` to 2 * `low` bytes take, which ask for 1.5 * `low` on average. Errors: those
/// of launches and copies.
template <class Kind>
absl::StatusOr<taken_over_asked> measure_taken(heap& h, block_set<Kind>& blocks, std::uint64_t low) {
    absl::Status status = h.trim();  // else chunks that were freed before serve, which may be longer
    status.Update(blocks.allocate({low, 2 * low}).status());
    const auto chunks = h.chunks();
    const auto stats = h.stats();
    status.Update(chunks.status());
    status.Update(stats.status());
    status.Update(blocks.free().status());
    if (!status.ok()) {
        return status;
    }
    if (chunks->live_lanes != blocks.threads()) {
        return taken_over_asked{};
    }
    const double asked = 1.5 * static_cast<double>(low) * static_cast<double>(blocks.threads());
    const std::uint64_t segments =
        stats->segments_granted - std::min(stats->segments_granted, stats->segments_in_cache);
    return taken_over_asked{static_cast<double>(chunks->held_bytes) / asked,
                            static_cast<double>(segments * segment_bytes) / asked};
}

/// Returns the row of blocks of `low` to 2 * `low` bytes.
///
/// `cold`: the device has no free segments, and all memory comes from the host. `recycled`: the device has the segments
/// of the launch before. Errors: those of the heap, of launches and of copies.
template <class Kind>
absl::StatusOr<ordered_json> measure(heap& h, block_set<Kind>& blocks, std::uint64_t low, int repeats) {
    const size_range bytes{low, 2 * low};
    times warm_up;
    times cold;
    times recycled;
    outcome all;
    absl::Status status = cycle(h, blocks, bytes, true, warm_up, all);
    std::uint64_t cold_host_requests = 0;
    std::uint64_t recycled_host_requests = 0;
    // The counts are read before and after the whole cycle, outside the timed kernels.
    const auto measure_cycle = [&](bool check, times& t, std::uint64_t& host_requests) {
        const auto before = host_requests_of(h);
        status.Update(cycle(h, blocks, bytes, check, t, all));
        const auto after = host_requests_of(h);
        status.Update(before.status());
        status.Update(after.status());
        host_requests = status.ok() ? *after - *before : 0;
    };
    for (int i = 0; i < repeats && status.ok(); ++i) {
        status.Update(h.trim());
        measure_cycle(i == 0, cold, cold_host_requests);
    }
    for (int i = 0; i < repeats && status.ok(); ++i) {
        measure_cycle(i == 0, recycled, recycled_host_requests);
    }
    // Comes last: the memory that it frees would serve the first launch.
    const auto taken = measure_taken(h, blocks, low);
    status.Update(taken.status());
    status.Update(h.trim());
    status.Update(h.validate());
    if (!status.ok()) {
        return status;
    }
    // The warm-up launch is the first cold repetition.
    const std::vector<double> cold_us = joined({warm_up.allocate_us, cold.allocate_us});
    const std::vector<double> free_us = joined({warm_up.free_us, cold.free_us, recycled.free_us});
    ordered_json row{{"layout", blocks.name()},
                     {"bytes_from", low},
                     {"bytes_to", 2 * low},
                     {"threads", blocks.threads()},
                     {"cold_us", median(cold.allocate_us)},
                     {"recycled_us", median(recycled.allocate_us)},
                     {"free_us", median_after(1, free_us)},
                     {"held_over_asked", taken->held},
                     {"granted_over_asked", taken->granted},
                     {"host_requests", cold_host_requests},
                     {"recycled_host_requests", recycled_host_requests},
                     {"nulls", all.nulls},
                     {"wrong_stamps", all.wrong}};
    add_repetitions(row, "cold", cold_us);
    add_repetitions(row, "recycled", recycled.allocate_us);
    add_repetitions(row, "free", free_us);
    return row;
}

/// Adds the rows of all sizes, 4 KiB to 4 MiB, for one kind of block.
template <class Kind>
absl::Status measure_all(heap& h, const settings& s, Kind kind, std::uint64_t threads, ordered_json& rows) {
    auto blocks = block_set<Kind>::create(h, kind, threads);
    if (!blocks.ok()) {
        return blocks.status();
    }
    for (std::uint64_t low = 4096; low <= (2u << 20); low *= 2) {
        auto row = measure(h, *blocks, low, std::min(s.repeats, 10));
        if (!row.ok()) {
            return row.status();
        }
        rows.push_back(*std::move(row));
    }
    return absl::OkStatus();
}

absl::StatusOr<ordered_json> run_sizes(const settings& s) {
    options values = s.heap;
    const bool cuda = s.device == simt::device_kind::cuda;
    values.device = cuda ? device_option::cuda : device_option::emulated;
    // All memory is committed from the start, so that the host's part is measured and not the driver's; managed memory
    // if it is asked for, and then fewer threads.
    values.backing = values.backing == backing_option::managed ? values.backing : backing_option::fixed;
    // 3 MiB each on average, plus the rounding of interleaved arrays, plus a reserve for slabs of several classes.
    const auto needed = [](std::uint64_t count) { return count * (3ull << 20) * 9 / 4 + (256ull << 20); };
    const std::uint64_t threads = threads_within_limit(values, cuda && !s.quick ? 16384 : 64, needed);
    values.capacity = std::max<std::uint64_t>(values.capacity, needed(threads));
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    ordered_json rows = ordered_json::array();
    absl::Status status = measure_all(*h, s, linear_blocks{}, threads, rows);
    status.Update(measure_all(*h, s, array_blocks{layout::interleaved(smallest_tile)}, threads, rows));
    status.Update(measure_all(*h, s, array_blocks{layout::interleaved(largest_tile)}, threads, rows));
    return status.ok() ? absl::StatusOr<ordered_json>(rows) : status;
}

const registrar sizes_registered{
    {"sizes", "threads that each ask for 4 KiB to 4 MiB, checked for overlap", run_sizes,
     "cold_us and free_us are medians after one round that does not count, recycled_us of all; "
     "_first, _third and _tenth are those launches, counted from the first on, _settled the "
     "median of the last half"}};

}  // namespace
}  // namespace orchard::bench
