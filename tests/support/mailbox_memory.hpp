// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The memory of one mailbox, for tests: both parts in ordinary memory, all zero.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "uvm/geometry/mailbox.hpp"

namespace orchard::rig {

class mailbox_memory {
public:
    explicit mailbox_memory(mailbox::shape s)
        : shape{s},
          host_lines_((mailbox::host_part::bytes(s) + sizeof(line) - 1) / sizeof(line)),
          device_lines_((mailbox::device_part::bytes(s) + sizeof(line) - 1) / sizeof(line)),
          host{mailbox::host_part::in(host_lines_.data(), s)},
          device{reinterpret_cast<mailbox::device_part*>(device_lines_.data())} {}
    mailbox_memory(const mailbox_memory&) = delete;
    mailbox_memory& operator=(const mailbox_memory&) = delete;

    [[nodiscard]] std::uint64_t slot(std::uint32_t i) const { return device->slots()[i].load<simt::order::acquire>(); }
    void set_slot(std::uint32_t i, std::uint64_t word) { device->slots()[i].store<simt::order::release>(word); }
    [[nodiscard]] std::uint64_t poller() const { return device->poller[0].word.load<simt::order::acquire>(); }
    void set_poller(std::uint64_t word) { device->poller[0].word.store<simt::order::release>(word); }
    [[nodiscard]] std::uint64_t cursor() const { return mailbox::poller_word::cursor(poller()); }
    [[nodiscard]] std::uint64_t tickets() const { return device->ticket.word.load<simt::order::acquire>(); }
    [[nodiscard]] std::uint64_t heartbeats() const { return host.heartbeat->load<simt::order::acquire>(); }
    /// Sets the flags as the heap does when it closes.
    void close() { device->rejection.flags.store<simt::order::release>(mailbox::device_part::closing); }
    /// Slots that are claimed.
    [[nodiscard]] std::uint32_t claimed() const {
        std::uint32_t n = 0;
        for (std::uint32_t i = 0; i < shape.slots; ++i) {
            n += (slot(i) & mailbox::slot_word::pending) != 0 ? 1 : 0;
        }
        return n;
    }

    const mailbox::shape shape;

private:
    struct alignas(128) line {
        std::byte bytes[128];
    };
    std::vector<line> host_lines_;
    std::vector<line> device_lines_;

public:
    const mailbox::host_part host;
    mailbox::device_part* const device;
};

}  // namespace orchard::rig
