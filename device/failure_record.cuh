// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What device threads leave for the host of requests that failed: how many for each reason, in device memory, and
/// the first one and the newest of each reason, in memory of the host, so that it reads them without a call that a
/// kernel or a service could hold up.
///
///     failure_counts  in device memory      of_reason [reasons], turn [reasons]
///     failure_board   in memory of the host first, newest [reasons][2]
///
/// Nobody waits: of the lanes that fail for one reason at one time, one takes the turn and writes its record, the
/// others are counted only. The two records of a reason are written by turns, so that one is whole while the other is
/// being written, however long that takes.

#include <cstdint>
#include <optional>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/failure_reason.hpp"

namespace orchard::device {

/// What a record says.
struct recorded_failure {
    std::uint64_t number = 0;  ///< which of the failures of its reason it is, from 1 on
    failure_reason reason = failure_reason::none;
    std::uint64_t bytes = 0;
    std::uint32_t page_class = 0;
    simt::thread_position at{};
    std::uint64_t time_ns = 0;
};

/// One failure, of which the fields are those of `recorded_failure`. Written by one lane at a time.
struct alignas(64) failure_record {
    simt::host_word<std::uint64_t> begun;  ///< `number`, before the other fields
    simt::host_word<std::uint64_t> bytes;
    simt::host_word<std::uint64_t> time_ns;
    simt::host_word<std::uint32_t> reason;
    simt::host_word<std::uint32_t> page_class;
    simt::host_word<std::uint32_t> block;
    simt::host_word<std::uint32_t> thread;
    simt::host_word<std::uint64_t> ended;  ///< `number`, after them; 0: nothing was recorded

    /// What is recorded; nothing where nothing is, or where it is being written. Any thread of the host.
    [[nodiscard]] std::optional<recorded_failure> read() const;
};

struct failure_board {
    failure_record first;  ///< of all; written once
    failure_record newest[failure_reasons][2];

    /// The newest failure of a reason, as `failure_record::read`: one of the lanes that failed last.
    [[nodiscard]] std::optional<recorded_failure> newest_of(failure_reason why) const;
};

/// What the device counts of failures.
struct failure_counts {
    simt::device_word<std::uint64_t> of_reason[failure_reasons];
    /// Records of that reason that were begun and ended: odd while a lane writes one.
    simt::device_word<std::uint32_t> turn[failure_reasons];
    simt::device_word<std::uint32_t> any;                 ///< 1 once a request has failed
    simt::device_word<std::uint64_t> first_invalid_free;  ///< address of the first free of what was not allocated
};

inline std::optional<recorded_failure> failure_record::read() const {
    using simt::order;
    recorded_failure r;
    r.number = ended.load<order::acquire>();  // pairs with the end of `write_failure`
    r.reason = static_cast<failure_reason>(reason.load<simt::load_before_fence>());
    r.bytes = bytes.load<simt::load_before_fence>();
    r.page_class = page_class.load<simt::load_before_fence>();
    r.at.block = block.load<simt::load_before_fence>();
    r.at.thread = thread.load<simt::load_before_fence>();
    r.time_ns = time_ns.load<simt::load_before_fence>();
    // Pairs with the fence of `write_failure`: whose fields were seen, of that one `begun` is seen.
    simt::fence<simt::scope::system>();
    const bool whole = r.number != 0 && begun.load<order::relaxed>() == r.number;
    return whole ? std::optional(r) : std::nullopt;
}

inline std::optional<recorded_failure> failure_board::newest_of(failure_reason why) const {
    const failure_record(&both)[2] = newest[static_cast<std::uint32_t>(why)];
    const std::optional<recorded_failure> one = both[0].read();
    const std::optional<recorded_failure> other = both[1].read();
    return !one || (other && other->number > one->number) ? other : one;
}

}  // namespace orchard::device
