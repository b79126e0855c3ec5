// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Known rejections: a lasting reason for which requests fail (a silent service, a blocked commit, a closing heap). One
/// group finds it by a wait or a response and notes it beside the mailbox; all later requests then fail at once, until
/// the reason is gone.
///
///     flags    63        3    2        1         0
///              |  value   | blocked | silent | closing |        0: no reason is known
///
///     0 --> silent_at(heartbeat)    `give_up`: the heartbeat stood still.           0 again once it differs
///     0 --> blocked_from(leaves)    a response says so (`request_segments`).        0 again once the host's word is 0
///     any --> closing               the host writes it when the heap is closed.     stays
///
/// Without the note, each group of a warp would find the reason by itself, one after the other, each at the price of a
/// deadline or a round trip.

#include "device/host_rpc/client.cuh"

namespace orchard::device {

namespace rejections {

/// Returns why a request for `leaves` fails at once according to the note `flags`, or none. A blocked commit concerns
/// only requests for at least as many leaves as the note says; smaller ones may be served from free memory.
ORCHARD_INLINE failure_reason reason_of(std::uint64_t flags, std::uint64_t leaves) {
    using mailbox::device_part;
    return (flags & device_part::closing) != 0  ? failure_reason::closing
           : (flags & device_part::silent) != 0 ? failure_reason::service_not_responding
           : (flags & device_part::blocked) != 0 && leaves >= device_part::noted(flags) ? failure_reason::commit_blocked
                                                                                        : failure_reason::none;
}

/// Returns the flags that hold now. If no lane has done so for `look_again_after_ns`, compares them with the host's
/// words, which takes a microsecond. Each lane that calls it within this microsecond compares them itself, since the
/// old flags may be wrong. One lane calls it alone. Cost: a read of the clock, two loads; for a comparison, a load of
/// host memory, an atomic and a store.
inline ORCHARD_NOINLINE std::uint64_t compared(mailbox::device_part::noted_rejection& noted,
                                               const mailbox::host_part& host) {
    using mailbox::device_part;
    const std::uint64_t now = simt::clock_ns();
    // Acquires (pairs with the releases below and in `note_rejection`): if the time is recent, the flags read after it
    // are those compared at that time, or newer.
    const std::uint64_t since = now - noted.compared_at.load<simt::order::acquire>();
    std::uint64_t flags = noted.flags.load<simt::order::relaxed>();
    if (flags == 0 || (flags & device_part::closing) != 0 || since < mailbox_client::look_again_after_ns) {
        return flags;
    }
    if (simt::mutation::is(simt::mutation::fault::note_age)) {
        noted.compared_at.store<simt::order::release>(now);
    }
    std::uint64_t holds = 0;
    if ((flags & device_part::silent) != 0) {
        const std::uint64_t heartbeat = host.heartbeat->load<simt::order::relaxed>();
        holds = device_part::silent_at(heartbeat) == flags ? flags : 0;
    } else {
        const std::uint64_t blocked = host.blocked->load<simt::order::relaxed>();
        holds = blocked != 0 ? device_part::blocked_from(blocked) : 0;
    }
    // A compare-and-swap, not a store: the host may have written `closing` meanwhile, or another lane a newer result,
    // and neither may be lost. The time is stored only by the lane whose flags are in force, after them: a lane that
    // acquires a recent time reads these flags or newer ones.
    if (noted.flags.compare_exchange<simt::order::relaxed>(flags, holds)) {
        noted.compared_at.store<simt::order::release>(now);
    }
    return holds;
}

/// Notes for all later requests why they fail, unless a reason is noted already. The leader calls it alone, after a
/// wait or a response has shown the reason. Cost: a read of the clock, an atomic, a store. The release pairs with the
/// acquire in `compared`: the reason is not compared with the host's words again before `look_again_after_ns` has
/// passed.
inline ORCHARD_NOINLINE void note_rejection(const mailbox_client& box, std::uint64_t flags) {
    std::uint64_t found = 0;
    const std::uint64_t now = simt::clock_ns();
    if (box.device->rejection.flags.compare_exchange<simt::order::relaxed>(found, flags)) {
        box.device->rejection.compared_at.store<simt::order::release>(now);
    }
}

}  // namespace rejections

inline ORCHARD_FN failure_reason mailbox_client::known_rejection(std::uint64_t leaves) const {
    return device->rejection.flags.load<simt::order::relaxed>() == 0
               ? failure_reason::none
               : rejections::reason_of(rejections::compared(device->rejection, host), leaves);
}

}  // namespace orchard::device
