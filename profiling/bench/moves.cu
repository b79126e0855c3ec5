// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench moves`: how fast does an elastic heap move memory between the device and the host, in one direction
/// at a time?
///
///     move_unit               bytes that move as a whole
///     bytes                   of the block that is demoted and prefetched by turns
///     to_host_..., to_device_...   milliseconds of `demote` and `prefetch`
///     to_host_gb_s, to_device_gb_s   of the settled ones
///     moved_to_host_bytes, moved_to_device_bytes   by all calls, as the heap has counted
///     wrong_segments          whose contents have changed; 0 unless something is broken
///
/// The first demotion creates the memory of the host's tier; later ones find it.

#include "profiling/bench/bench.hpp"
#include "profiling/bench/repetitions.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/nvtx/phase.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// Writes its number into each segment of a block.
absl::Status write_numbers(heap& in, char* first, std::uint64_t bytes) {
    const nvtx::phase marked(nvtx::phase::build, bytes);
    absl::Status status;
    for (std::uint64_t i = 0; i < bytes / segment_bytes && status.ok(); ++i) {
        status.Update(copy_to_device(in.executor(), first + i * segment_bytes, &i, sizeof(i)));
    }
    return status;
}

/// Counts the segments that do not have their number any more.
absl::Status count_wrong(heap& in, const char* first, std::uint64_t bytes, std::uint64_t& wrong) {
    const nvtx::phase marked(nvtx::phase::compute, bytes);
    absl::Status status;
    for (std::uint64_t i = 0; i < bytes / segment_bytes && status.ok(); ++i) {
        std::uint64_t found = 0;
        status.Update(copy_to_host(in.executor(), &found, first + i * segment_bytes, sizeof(found)));
        wrong += found != i ? 1 : 0;
    }
    return status;
}

/// Returns the row of one unit. Errors: those of the heap.
absl::StatusOr<ordered_json> measure(const settings& s, std::uint64_t unit, std::uint64_t bytes) {
    options values = s.heap;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    values.backing = backing_option::elastic;
    values.capacity = bytes + 64 * segment_bytes;
    values.host_budget = values.capacity;
    values.move_unit = unit;
    values.commit_ahead = 0;
    auto h = heap::create(values);
    absl::Status status = h.status();
    if (!status.ok()) {
        return status;
    }
    auto block = h->allocate_on_host(bytes);
    if (!block.ok()) {
        return block.status();
    }
    char* const first = static_cast<char*>(*block);
    status.Update(write_numbers(*h, first, bytes));
    std::vector<double> to_host;
    std::vector<double> to_device;
    for (int i = 0; i < s.repeats && status.ok(); ++i) {
        const nvtx::phase marked(nvtx::phase::migrate, bytes);
        to_host.push_back(milliseconds_of([&] { status.Update(h->demote(first, bytes)); }));
        to_device.push_back(milliseconds_of([&] { status.Update(h->prefetch(first, bytes)); }));
    }
    const auto stats = h->stats();
    status.Update(stats.status());
    std::uint64_t wrong = 0;
    status.Update(status.ok() ? count_wrong(*h, first, bytes, wrong) : status);
    status.Update(h->free_on_host(first));
    if (!status.ok()) {
        return status;
    }
    ordered_json row{{"move_unit", unit}, {"bytes", bytes}, {"wrong_segments", wrong}};
    add_repetitions(row, "to_host", to_host, "ms");
    add_repetitions(row, "to_device", to_device, "ms");
    const auto rate = [&](const std::vector<double>& times) {
        const auto settled = repetitions_of(times).settled;
        return settled.has_value() && *settled > 0 ? static_cast<double>(bytes) / *settled / 1e6 : 0.0;
    };
    row["to_host_gb_s"] = rate(to_host);
    row["to_device_gb_s"] = rate(to_device);
    row["moved_to_host_bytes"] = stats->moved_to_host_bytes;
    row["moved_to_device_bytes"] = stats->moved_to_device_bytes;
    return row;
}

absl::StatusOr<ordered_json> run_moves(const settings& s) {
    const bool large = s.device == simt::device_kind::cuda && !s.quick;
    const std::uint64_t bytes = large ? 4 * gib : 32 * mib;
    ordered_json rows = ordered_json::array();
    for (const std::uint64_t unit : {2 * mib, 16 * mib, 64 * mib, 256 * mib}) {
        auto row = measure(s, std::min(unit, bytes), bytes);
        if (!row.ok()) {
            return row.status();
        }
        rows.push_back(*std::move(row));
    }
    return rows;
}

const registrar moves_registered{{"moves", "Memory that moves between the device and the host", run_moves,
                                  "to_host and to_device are whole calls; _settled is the median of the last half"}};

}  // namespace
}  // namespace orchard::bench
