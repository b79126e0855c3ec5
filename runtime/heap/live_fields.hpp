// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The fields of a heap's live page: what they are, and their words.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/state/failure_record.cuh"
#include "host/single_writer_counter.hpp"
#include "runtime/live/live_format.hpp"
#include "runtime/statistics/statistics.hpp"

namespace orchard {

/// What a live page says of a heap. The texts do not change while the heap lives.
struct live_state {
    std::string program;
    std::string device;  ///< "cuda" or "emulated"
    std::string gpu;     ///< number of the GPU; "" on the emulated device
    std::string gpu_name;
    std::string gpu_uuid;
    std::string backing;
    std::uint64_t device_budget_bytes = 0;
    std::uint64_t host_budget_bytes = 0;
    std::uint64_t started_ns = 0;  ///< by CLOCK_MONOTONIC, as all times but those of failures

    statistics counts;
    std::uint64_t device_read_ns = 0;       ///< when the device's counters among them were read; 0: never
    std::uint64_t device_read_cost_ns = 0;  ///< how long that took
    std::uint64_t largest_free_bytes = 0;
    std::uint64_t failed_commits = 0;
    std::array<std::optional<device::recorded_failure>, failure_reasons> failures;  ///< [reason]
    // Of the service and of growth, which outlive this; null: empty.
    const power_histogram* queue_depth = nullptr;
    const power_histogram* answer_ns = nullptr;
    const power_histogram* commit_ns = nullptr;
};

/// Returns the table of a page: the fields, in the order of `live_words`.
std::vector<live::field_description> live_table();

/// Returns the values of all fields. Cost: a few microseconds.
std::vector<std::uint64_t> live_words(const live_state& of);

}  // namespace orchard
