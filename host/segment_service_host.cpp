// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Memory that the host takes for itself and gives back; `host_blocks` cuts blocks from it.

#include "host/segment_service.hpp"

namespace orchard {

/// The service thread calls it, in a job of the thread that allocates. The memory is granted as far as the structures
/// are concerned; the counter of grants counts requests of the device only.
std::optional<mailbox::grant> segment_service::take_for_host(std::uint32_t count, leaf_count leaves) {
    if (is_closing()) {
        return std::nullopt;
    }
    const std::optional<portion> place = find_place(count, leaves);
    // As for a grant to the device, the memory kept ahead is filled up, and the counts are published.
    keep_ahead();
    publish_counts();
    if (!place) {
        return std::nullopt;
    }
    if (reports_.events != nullptr) {
        report_grant({place->block, count == 0 ? place->first : leaf_index{0}, leaves}, count, host_slot);
    }
    return mailbox::grant{{place->block, count}, place->first, leaves};
}

void segment_service::give_back_from_host(const mailbox::grant& g) {
    if (g.count != 0) {
        (void)take_back({g.first, g.count});
        report(event_kind::give_back, event_offset(g.first, leaf_index{0}), std::uint64_t{g.count} << segment_shift,
               host_slot);
    }
    if (to_underlying(g.leaves) != 0) {
        (void)take_back_portion(g.first + g.count, g.leaf);
        report(event_kind::give_back, event_offset(g.first + g.count, g.leaf),
               std::uint64_t{to_underlying(g.leaves)} * big_page_bytes, host_slot);
    }
    publish_counts();
}

}  // namespace orchard
