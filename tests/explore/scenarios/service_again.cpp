// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A service that was silent for long works again. A note of its silence that no lane has compared with the heartbeat
/// since then fails no request, however many groups make requests at the same time.

#include "tests/explore/mailbox_world.hpp"

namespace orchard::explore {
namespace {

void run_service_again(world& w) {
    mailbox_world m(w, {.segments = 32, .shape = {8, 8, 1}, .timeout_ns = 1'000'000'000});
    m.watch_protocol();
    using mailbox::device_part;
    m.box.device->rejection.flags.store<simt::order::relaxed>(device_part::silent_at(~std::uint64_t{0} >> 3));
    m.box.device->rejection.compared_at.store<simt::order::relaxed>(std::uint64_t{0} -
                                                                    device::mailbox_client::look_again_after_ns);
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const simt::lane_mask mask = simt::converge();
            const reply r = m.ask(mask, 1);
            w.s.check(r.granted(), "a request was refused by a note that no lane had compared");
            (void)m.give(mask, r.run, false);
        }
    });
    if (w.s.run()) {
        m.settle_and_check();
    }
}

const registrar service_again{
    {"service_again", "A service that was silent works again.", {{{4, 2}, {2}}, 1}, run_service_again}};

}  // namespace
}  // namespace orchard::explore
