// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench lanes`: 512 warps of which 1, 3, 7, 17 or all lanes allocate, and full warps whose lanes ask for very
/// different sizes. Does a request cost more where a warp is not full, or its lanes differ?
///
///     lanes            of each warp that ask
///     bytes_from, bytes_to   sizes are from the first up to the second
///     cold_us, recycled_us, free_us   as in `sizes`: medians of the kernels' times
///     cold_to_full, recycled_to_full, free_to_full   their ratio to the row with all lanes and the same sizes
///     nulls, wrong_stamps    of the checked launches
///
/// All memory is committed from the start. Sizes of a row differ in each launch.

#include <algorithm>

#include "profiling/bench/bench.hpp"
#include "profiling/bench/blocks.cuh"
#include "profiling/bench/repetitions.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// The medians of one row, in us.
struct lane_times {
    double cold_us = 0;
    double recycled_us = 0;
    double free_us = 0;
};

/// Returns the row of one plan; `full` are the times of full warps, which this call sets if the plan has all lanes.
absl::StatusOr<ordered_json> measure(heap& h, block_set<linear_blocks>& blocks, size_range bytes, int repeats,
                                     lane_times& full) {
    times cold;
    times recycled;
    outcome all;
    absl::Status status;
    for (int i = 0; i < repeats + 1 && status.ok(); ++i) {
        ++bytes.round;
        status.Update(h.trim());
        status.Update(cycle(h, blocks, bytes, i == 0, cold, all));
    }
    for (int i = 0; i < repeats + 1 && status.ok(); ++i) {
        ++bytes.round;
        status.Update(cycle(h, blocks, bytes, i == 0, recycled, all));
    }
    status.Update(h.trim());
    status.Update(h.validate());
    if (!status.ok()) {
        return status;
    }
    const lane_times now{median_after(1, cold.allocate_us), median_after(1, recycled.allocate_us),
                         median_after(1, recycled.free_us)};
    if (bytes.lanes == simt::warp_size) {
        full = now;
    }
    ordered_json row{{"lanes", bytes.lanes},
                     {"bytes_from", bytes.least},
                     {"bytes_to", bytes.below << (bytes.octaves == 0 ? 0 : bytes.octaves - 1)},
                     {"cold_us", now.cold_us},
                     {"recycled_us", now.recycled_us},
                     {"free_us", now.free_us},
                     {"cold_to_full", full.cold_us > 0 ? now.cold_us / full.cold_us : 0},
                     {"recycled_to_full", full.recycled_us > 0 ? now.recycled_us / full.recycled_us : 0},
                     {"free_to_full", full.free_us > 0 ? now.free_us / full.free_us : 0},
                     {"nulls", all.nulls},
                     {"wrong_stamps", all.wrong}};
    add_repetitions(row, "cold", cold.allocate_us);
    add_repetitions(row, "recycled", recycled.allocate_us);
    return row;
}

absl::StatusOr<ordered_json> run_lanes(const settings& s) {
    options values = s.heap;
    const bool cuda = s.device == simt::device_kind::cuda;
    values.device = cuda ? device_option::cuda : device_option::emulated;
    values.backing = backing_option::fixed;
    const std::uint64_t threads = cuda && !s.quick ? 16384 : 64;
    values.capacity = std::max<std::uint64_t>(values.capacity, threads * (4ull << 20) + (512ull << 20));
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    auto blocks = block_set<linear_blocks>::create(*h, {}, threads);
    if (!blocks.ok()) {
        return blocks.status();
    }
    ordered_json rows = ordered_json::array();
    // The last range is 16 B to 4 MiB: a mean of 0.33 MiB, in one warp up to 17 size classes.
    for (const size_range range : {size_range{64, 128}, size_range{4096, 8192}, size_range{64 << 10, 128 << 10},
                                   size_range{1 << 20, 2 << 20}, size_range{16, 32, 0, 32, 18}}) {
        lane_times full;
        for (const std::uint32_t lanes : {32u, 17u, 7u, 3u, 1u}) {
            size_range bytes = range;
            bytes.lanes = lanes;
            auto row = measure(*h, *blocks, bytes, std::min(s.repeats, 20), full);
            if (!row.ok()) {
                return row.status();
            }
            rows.push_back(*std::move(row));
        }
    }
    return rows;
}

const registrar lanes_registered{
    {"lanes", "warps of which some lanes allocate, and lanes of very different sizes", run_lanes,
     "times are medians after one round that does not count; _first, _third and _tenth are those launches, counted "
     "from the first on, _settled the median of the last half"}};

}  // namespace
}  // namespace orchard::bench
