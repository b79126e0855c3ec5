// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include <algorithm>
#include <atomic>

#include "absl/strings/str_format.h"
#include "device/simt/random.hpp"
#include "examples/graph/parallel.hpp"
#include "examples/join/join_run.hpp"

namespace orchard::examples {

absl::Status check_join_memory(std::uint64_t tuples, simt::device_kind device, std::uint64_t have) {
    // Of the device: each table twice, as it comes and in partitions, and the heads of lists.
    const std::uint64_t of_device = device == simt::device_kind::emulated ? 4 * sizeof(join_tuple) + 4 : 0;
    return check_host_memory(tuples * (3 * sizeof(join_tuple) + of_device), absl::StrFormat("--tuples %d", tuples),
                             have, "give fewer tuples");
}

std::vector<join_tuple> make_table(std::uint64_t tuples, std::uint64_t seed, std::uint64_t table) {
    std::vector<join_tuple> all(tuples);
    const auto keys = static_cast<std::uint32_t>(tuples);
    for (std::uint64_t i = 0; i < tuples; ++i) {
        all[i] = {simt::below32(simt::random_bits(seed, table, i), keys), static_cast<std::uint32_t>(i)};
    }
    return all;
}

/// The first table is sorted by key; each tuple of the second one finds its run in it.
join_totals join_on_host(std::span<const join_tuple> first, std::span<const join_tuple> second,
                         std::uint64_t page_bytes, std::uint64_t* pages) {
    std::vector<join_tuple> sorted(first.begin(), first.end());
    std::ranges::sort(sorted, {}, &join_tuple::key);
    const std::uint64_t capacity = result_page::capacity(page_bytes);
    std::atomic<std::uint64_t> matches{0};
    std::atomic<std::uint64_t> sum{0};
    std::atomic<std::uint64_t> taken{0};
    parallel_for(second.size(), [&](std::uint64_t i) {
        const auto run = std::ranges::equal_range(sorted, second[i].key, {}, &join_tuple::key);
        std::uint64_t mine = 0;
        for (const join_tuple& t : run) {
            mine += mix_result(t.payload, second[i].payload);
        }
        matches += run.size();
        taken += (run.size() + capacity - 1) / capacity;
        sum += mine;
    });
    if (pages != nullptr) {
        *pages = taken;
    }
    return {matches, sum};
}

}  // namespace orchard::examples
