// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The tests' handling of responses for which no group waits.

#include "device/host_rpc/post.cuh"

namespace orchard::rig {

/// The arguments of calls to a `recording_completion`.
struct completion_record {
    simt::device_word<std::uint64_t> calls{0};
    simt::device_word<std::uint64_t> grants{0};
    simt::device_word<std::uint64_t> segments{0};  ///< sum over all grants
    simt::device_word<std::uint64_t> last_status{0};
    simt::device_word<std::uint64_t> last_first{0};
    simt::device_word<std::uint64_t> last_count{0};

    [[nodiscard]] std::uint64_t get(const simt::device_word<std::uint64_t> completion_record::*what) const {
        return (this->*what).load<simt::order::acquire>();
    }
};

struct recording_completion {
    completion_record* record;
    ORCHARD_FN void operator()(device::response_status status, segment_run run) const {
        record->calls.fetch_add<simt::order::relaxed>(1);
        if (status == device::response_status::granted) {
            record->grants.fetch_add<simt::order::relaxed>(1);
            record->segments.fetch_add<simt::order::relaxed>(run.count);
        }
        record->last_status.store<simt::order::relaxed>(static_cast<std::uint64_t>(status));
        record->last_first.store<simt::order::relaxed>(to_underlying(run.first));
        record->last_count.store<simt::order::release>(run.count);
    }
};

}  // namespace orchard::rig
