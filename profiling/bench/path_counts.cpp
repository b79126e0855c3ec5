// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Reads the counters of a heap between two measurements.

#include "profiling/bench/path_counts.hpp"

#include <memory>
#include <utility>

#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap_counts.hpp"

namespace orchard::bench {

absl::Status path_counts::add_to(nlohmann::ordered_json& row, heap& h) {
    // The columns that are sums of device counters. `groups` and `reclaims` are computed below from other words.
    using device::counter;
    constexpr std::pair<const char*, counter> counted[] = {{"searches", counter::searches},
                                                           {"probes", counter::probes},
                                                           {"reservations", counter::reservations},
                                                           {"scans", counter::scans},
                                                           {"host_requests", counter::host_requests},
                                                           {"slabs_published", counter::slabs_published},
                                                           {"refills", counter::refills},
                                                           {"returns", counter::returns},
                                                           {"abandoned", counter::abandoned}};
    const auto stats = h.stats();
    if (!stats.ok()) {
        return stats.status();
    }
    // On the heap, because the state is large: it has counters for every class and shard.
    const auto state = std::make_unique<device::heap_state>();
    const absl::Status copied = copy_to_host(h.executor(), state.get(), h.ref().view().state, sizeof(*state));
    if (!copied.ok()) {
        return copied;
    }
    // The heap's counters only grow; a row shows the increase since the row before.
    const auto add = [&](const char* name, std::uint64_t all) { row[name] = all - std::exchange(before_[name], all); };
    add("groups", stats->groups);
    // The number is 2 n after n reclaims (device/state/heap_state.cuh, `reclaim_count`).
    add("reclaims", device::reclaim_count::number(state->reclaims.word.load<simt::order::relaxed>()) / 2);
    for (const auto& [name, which] : counted) {
        add(name, sum_of(*state, which));
    }
    return absl::OkStatus();
}

}  // namespace orchard::bench
