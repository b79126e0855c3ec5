// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Why requests fail at once: a reason that one group has found, by a wait or an answer, holds for all that ask next.

#include "device/mailbox_client.cuh"

namespace orchard::device {

namespace refusals {

/// Returns whether nobody has compared the flags with the host's words lately.
ORCHARD_INLINE bool is_old(const mailbox_client& box) {
    return simt::clock_ns() - box.device->known.looked_at.load<simt::order::relaxed>() >=
           mailbox_client::look_again_after_ns;
}

/// Returns the flags that hold now, of flags that were just read and are not 0. Compares them with the host's words, if
/// no lane has done so lately: reads of host memory take a microsecond each, one after the other. Any lane, alone.
inline ORCHARD_NOINLINE std::uint64_t refreshed(const mailbox_client& box, std::uint64_t flags) {
    using mailbox::device_part;
    const std::uint64_t now = simt::clock_ns();
    std::uint64_t before = box.device->known.looked_at.load<simt::order::relaxed>();
    if ((flags & device_part::closing) != 0 || now - before < mailbox_client::look_again_after_ns ||
        !box.device->known.looked_at.compare_exchange<simt::order::relaxed>(before, now)) {
        return flags;
    }
    std::uint64_t holds = 0;
    if ((flags & device_part::silent) != 0) {
        const std::uint64_t beat = box.host.beat->load<simt::order::relaxed>();
        holds = device_part::silent_at(beat) == flags ? flags : 0;
    } else {
        const std::uint64_t blocked = box.host.blocked->load<simt::order::relaxed>();
        holds = blocked != 0 ? device_part::blocked_from(blocked) : 0;
    }
    return box.device->known.flags.compare_exchange<simt::order::relaxed>(flags, holds) ? holds : flags;
}

/// Returns why a request for `leaves` fails at once, or none.
ORCHARD_INLINE failure_reason reason_of(std::uint64_t flags, std::uint64_t leaves) {
    using mailbox::device_part;
    return (flags & device_part::closing) != 0  ? failure_reason::closing
           : (flags & device_part::silent) != 0 ? failure_reason::service_not_answering
           : (flags & device_part::blocked) != 0 && leaves >= device_part::noted(flags) ? failure_reason::commit_blocked
                                                                                        : failure_reason::none;
}

/// Leader only: notes for all later requests why they fail, unless something is noted already.
inline ORCHARD_NOINLINE void note_refusal(const mailbox_client& box, std::uint64_t flags) {
    std::uint64_t found = 0;
    box.device->known.looked_at.store<simt::order::relaxed>(simt::clock_ns());
    box.device->known.flags.compare_exchange<simt::order::relaxed>(found, flags);
}

}  // namespace refusals

inline ORCHARD_FN failure_reason mailbox_client::known_refusal(std::uint64_t leaves) const {
    const std::uint64_t flags = device->known.flags.load<simt::order::relaxed>();
    return flags != 0 && !refusals::is_old(*this) ? refusals::reason_of(flags, leaves) : failure_reason::none;
}

}  // namespace orchard::device
