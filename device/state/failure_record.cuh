// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What device threads leave for the host about failed requests. Counts for each reason lie in device memory. The first
/// failure of all and the newest one of each reason lie in host memory, so that the host can read them without a call
/// that a kernel or a service could delay.
///
///     failure_counts  in device memory      of_reason [reasons], turn [reasons]
///     failure_board   in host memory        first, newest [reasons][2]
///
/// No lane waits. If several lanes fail for one reason at the same time, one of them takes the turn and writes its
/// record; the others are only counted. The two records of a reason are written alternately, so that one is complete
/// while the other is being written, however long that takes.
///
///     turn[reason]   0     1             2     3             4     5             6
///                    free  writes [0]    free  writes [1]    free  writes [0]    ...

#include <cstdint>
#include <optional>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/failure_reason.hpp"

namespace orchard::device {

/// A failure as the host reads it.
struct recorded_failure {
    std::uint64_t number = 0;  ///< the number of this failure among those of its reason, from 1 on
    failure_reason reason = failure_reason::none;
    std::uint64_t bytes = 0;
    std::uint32_t page_class = 0;
    simt::thread_position at{};
    std::uint64_t time_ns = 0;
};

/// The record of one failure, with the fields of `recorded_failure`. One lane at a time writes it. A reader takes a
/// record for complete if `begun` and `ended` are equal (a sequence lock):
///
///     writer   begun = n    fence   fields   ended = n (release)
///     reader   e = ended (acquire)  fields   fence   begun == e ?
///
/// The acquire makes sure that the fields are at least those of failure e. The fences make sure that a reader that saw
/// a field of a later failure also sees its `begun`, and rejects the record.
struct alignas(64) failure_record {
    simt::host_word<std::uint64_t> begun;  ///< `number`, written before the other fields
    simt::host_word<std::uint64_t> bytes;
    simt::host_word<std::uint64_t> time_ns;
    simt::host_word<std::uint32_t> reason;
    simt::host_word<std::uint32_t> page_class;
    simt::host_word<std::uint32_t> block;
    simt::host_word<std::uint32_t> thread;
    simt::host_word<std::uint64_t> ended;  ///< `number`, written after the other fields; 0: nothing was recorded

    /// Returns the failure recorded; nothing if there is none, or a lane is writing it. Any host thread may call it. It
    /// never waits: a lane may stop in the middle of a record.
    [[nodiscard]] std::optional<recorded_failure> read() const;
};

/// The records in host memory. The host reads them at any time, also while kernels run and after the device has stopped
/// responding.
struct failure_board {
    failure_record first;  ///< the first failure of the heap; written once
    failure_record newest[failure_reasons][2];

    /// Returns the newest complete record of a reason, as `failure_record::read`: the one of the two with the greater
    /// number.
    [[nodiscard]] std::optional<recorded_failure> newest_of(failure_reason why) const;
};

/// The counts of failures. `of_reason` numbers the failures of a reason; these numbers tell the host how many were not
/// recorded.
struct failure_counts {
    simt::device_word<std::uint64_t> of_reason[failure_reasons];
    /// Begins and ends of records of that reason: odd while a lane writes one; half of it, modulo 2, is the record.
    simt::device_word<std::uint32_t> turn[failure_reasons];
    simt::device_word<std::uint32_t> any;                 ///< 1 once a request has failed
    simt::device_word<std::uint64_t> first_invalid_free;  ///< address of the first invalid free
};

inline std::optional<recorded_failure> failure_record::read() const {
    using simt::order;
    recorded_failure r;
    r.number = ended.load<order::acquire>();  // pairs with the release in `write_failure`
    r.reason = static_cast<failure_reason>(reason.load<simt::load_before_fence>());
    r.bytes = bytes.load<simt::load_before_fence>();
    r.page_class = page_class.load<simt::load_before_fence>();
    r.at.block = block.load<simt::load_before_fence>();
    r.at.thread = thread.load<simt::load_before_fence>();
    r.time_ns = time_ns.load<simt::load_before_fence>();
    // Pairs with the fence in `write_failure`: if a field of a later record was read above, its `begun` is read below.
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
