// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Why requests fail at once: a reason that one group has found, by a wait or an answer, holds for all that ask next.

#include "device/host_rpc/client.cuh"

namespace orchard::device {

namespace rejections {

/// Returns why a request for `leaves` fails at once, or none.
ORCHARD_INLINE failure_reason reason_of(std::uint64_t flags, std::uint64_t leaves) {
    using mailbox::device_part;
    return (flags & device_part::closing) != 0  ? failure_reason::closing
           : (flags & device_part::silent) != 0 ? failure_reason::service_not_answering
           : (flags & device_part::blocked) != 0 && leaves >= device_part::noted(flags) ? failure_reason::commit_blocked
                                                                                        : failure_reason::none;
}

/// Returns the flags that hold now. Compares them with the host's words if no lane has done so lately, which takes a
/// microsecond; each lane that comes in that microsecond does so itself, as old flags may be wrong. Any lane, alone.
inline ORCHARD_NOINLINE std::uint64_t compared(mailbox::device_part::refusal& known, const mailbox::host_part& host) {
    using mailbox::device_part;
    const std::uint64_t now = simt::clock_ns();
    // Acquires: flags that are read behind a recent time are those that were compared then, or newer.
    const std::uint64_t since = now - known.compared_at.load<simt::order::acquire>();
    std::uint64_t flags = known.flags.load<simt::order::relaxed>();
    if (flags == 0 || (flags & device_part::closing) != 0 || since < mailbox_client::look_again_after_ns) {
        return flags;
    }
    std::uint64_t holds = 0;
    if ((flags & device_part::silent) != 0) {
        const std::uint64_t heartbeat = host.heartbeat->load<simt::order::relaxed>();
        holds = device_part::silent_at(heartbeat) == flags ? flags : 0;
    } else {
        const std::uint64_t blocked = host.blocked->load<simt::order::relaxed>();
        holds = blocked != 0 ? device_part::blocked_from(blocked) : 0;
    }
    if (known.flags.compare_exchange<simt::order::relaxed>(flags, holds)) {
        known.compared_at.store<simt::order::release>(now);
    }
    return holds;
}

/// Leader only: notes for all later requests why they fail, unless something is noted already.
inline ORCHARD_NOINLINE void note_rejection(const mailbox_client& box, std::uint64_t flags) {
    std::uint64_t found = 0;
    const std::uint64_t now = simt::clock_ns();
    if (box.device->known.flags.compare_exchange<simt::order::relaxed>(found, flags)) {
        box.device->known.compared_at.store<simt::order::release>(now);
    }
}

}  // namespace rejections

inline ORCHARD_FN failure_reason mailbox_client::known_rejection(std::uint64_t leaves) const {
    return device->known.flags.load<simt::order::relaxed>() == 0
               ? failure_reason::none
               : rejections::reason_of(rejections::compared(device->known, host), leaves);
}

}  // namespace orchard::device
