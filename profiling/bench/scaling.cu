// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench scaling`: 128 to 262,144 threads allocate 1 KB or 8 KB each at once. How does the time grow with the
/// number of threads?
///
///     bytes, layout, threads  blocks of `malloc`, which are pages, and interleaved arrays, which are chunks
///     allocate_us, free_us    medians of kernels, after one launch that does not count
///     requests_per_us         threads by that time: millions a second
///     nulls, wrong_stamps     of the two launches that are checked: the first one and the one after it
///
/// Source: the paper's Fig. 11 (Zhang et al., AlignMalloc, TPDS 2025).

#include "profiling/bench/bench.hpp"
#include "profiling/bench/blocks.cuh"
#include "profiling/bench/repetitions.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// Returns the row of one size and number of threads. Errors: those of the heap and of launches.
template <class Kind>
absl::StatusOr<ordered_json> measure(heap& h, Kind kind, std::uint64_t bytes, std::uint64_t threads, int repeats) {
    auto blocks = block_set<Kind>::create(h, kind, threads);
    absl::Status status = blocks.status();
    times launches;
    outcome all;
    for (int i = -1; i < repeats && status.ok(); ++i) {
        status.Update(cycle(h, *blocks, {bytes, bytes}, i <= 0, launches, all));
    }
    status.Update(h.validate());
    if (!status.ok()) {
        return status;
    }
    // In the first launch the device has no free segments; the medians leave it out.
    const double us = median_after(1, launches.allocate_us);
    ordered_json row{{"layout", kind.name()},
                     {"bytes", bytes},
                     {"threads", threads},
                     {"allocate_us", us},
                     {"free_us", median_after(1, launches.free_us)},
                     {"requests_per_us", us > 0 ? static_cast<double>(threads) / us : 0},
                     {"nulls", all.nulls},
                     {"wrong_stamps", all.wrong}};
    add_repetitions(row, "allocate", launches.allocate_us);
    add_repetitions(row, "free", launches.free_us);
    return row;
}

absl::StatusOr<ordered_json> run_scaling(const settings& s) {
    options values = s.heap;
    const bool cuda = s.device == simt::device_kind::cuda;
    values.device = cuda ? device_option::cuda : device_option::emulated;
    // Twice what the largest row requests, and 256 MiB.
    const auto needed = [](std::uint64_t count) { return count * (8 << 10) * 2 + (256ull << 20); };
    const std::uint64_t most = threads_within_limit(values, cuda && !s.quick ? 262'144 : 1024, needed);
    values.capacity = std::max<std::uint64_t>(values.capacity, needed(most));
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    ordered_json rows = ordered_json::array();
    // One heap for all rows: each one finds the memory that the rows before it have freed.
    for (const std::uint64_t bytes : {std::uint64_t{1} << 10, std::uint64_t{8} << 10}) {
        for (std::uint64_t threads = 128; threads <= most; threads *= 2) {
            const auto arrays = [&](tile t) {
                return measure(*h, array_blocks{layout::interleaved(t)}, bytes, threads, s.repeats);
            };
            for (auto& row : {measure(*h, linear_blocks{}, bytes, threads, s.repeats), arrays(smallest_tile),
                              arrays(largest_tile)}) {
                if (!row.ok()) {
                    return row.status();
                }
                rows.push_back(*row);
            }
        }
    }
    return rows;
}

const registrar scaling_registered{
    {"scaling", "128 to 262,144 threads that ask for 1 KB or 8 KB at once", run_scaling,
     "allocate_us and free_us are medians after one launch that does not count; _first, _third "
     "and _tenth are those launches, counted from the first on, _settled the median of the last "
     "half"}};

}  // namespace
}  // namespace orchard::bench
