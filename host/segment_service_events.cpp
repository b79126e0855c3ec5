// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What the service reports of itself, where somebody listens; see host/events/reports.hpp.

#include "host/segment_service.hpp"

namespace orchard {

/// Emits an event, if there is a queue. All events of a turn have the time of its first one: a turn takes some 100 us
/// at most, and a look at the clock costs more than a grant.
void segment_service::report(event_kind kind, std::uint64_t at, std::uint64_t bytes, std::uint32_t detail) {
    if (reports_.events == nullptr) {
        return;
    }
    if (turn_ns_ == 0) {
        turn_ns_ = simt::clock_ns();
    }
    reports_.events->emit(
        {.time_ns = turn_ns_, .at = at, .bytes = bytes, .thread = 0, .detail = detail & 0xff'ffff, .kind = kind});
}

/// Reports `count` segments with a tail of `place.leaves`. Without segments, the tail lies at `place.first`.
void segment_service::report_grant(const portion& place, std::uint32_t count, std::uint32_t slot) {
    report(event_kind::grant, event_offset(place.block, place.first),
           (std::uint64_t{count} << segment_shift) + std::uint64_t{to_underlying(place.leaves)} * big_page_bytes, slot);
}

/// Returns the bytes that a request asks for.
std::uint64_t segment_service::bytes_of(const parked_request& p) const {
    return (std::uint64_t{p.count} << segment_shift) + std::uint64_t{to_underlying(p.leaves)} * big_page_bytes;
}

/// Reports that a request begins to wait, or that it does not wait any more.
void segment_service::report_wait(const parked_request& p) {
    report(event_kind::park, 0, bytes_of(p), p.slot);
    if (reports_.observer != nullptr) {
        reports_.observer->wait_begins(p.slot, bytes_of(p));
    }
}
void segment_service::report_wait_end(const parked_request& p) {
    if (reports_.observer != nullptr) {
        reports_.observer->wait_ends(p.slot);
    }
}

}  // namespace orchard
