// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Elastic heaps of few segments, in which every request goes to the service.

#include "tests/support/default_cases.hpp"

namespace orchard::test {

/// Returns cases for both devices.
inline std::vector<heap_case> elastic_cases() { return default_cases(backing_option::elastic); }

class elastic_contract : public heap_contract {
protected:
    /// Returns options for a heap with these budgets, in segments, that commits exactly the requested memory.
    static options values_of(std::uint64_t device, std::uint64_t host) {
        options values = GetParam().values();
        values.capacity = segments(device);
        values.host_budget = segments(host);
        values.range = segments(4 * (device + host));
        values.extent = values.max_extent = segments(2);
        values.commit_ahead = 0;
        values.cached_segments = 0;
        return values;
    }
    /// Blocks of a segment each, until there are no more; how many.
    std::uint64_t fill() {
        heads_ = array<std::uint64_t>(1);
        const auto counts = array<std::uint64_t>(1);
        launch({1, 1}, fill_heap{h().ref(), segments(1), 10'000, heads_.data(), counts.data()});
        return to_host(counts).front();
    }
    void empty() {
        const auto errors = array<simt::device_word<std::uint32_t>>(1);
        launch({1, 1}, free_chains{h().ref(), heads_.data(), errors.data()});
        EXPECT_EQ(to_host(errors).front().load<simt::order::relaxed>(), 0u);
    }

private:
    device_array<std::uint64_t> heads_;
};

}  // namespace orchard::test
