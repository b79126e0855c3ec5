// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Counters of accesses to host memory, and their threshold; see access_counters.hpp.

#include "uvm/model/access_counters.hpp"

namespace orchard::uvm_model {

access_counters::access_counters(const calibration& machine, managed_space& space)
    : base_{machine.act_threshold},
      penalty_{machine.act_penalty},
      space_{space},
      counts_((space.bytes() + big_page_bytes - 1) / big_page_bytes) {}

bool access_counters::count(std::uint64_t page) {
    const va_block& block = space_.block(space_.block_of(page));
    if (block.advised.accessed_by || block.advised.preferred == policy::place::cpu) {
        return false;
    }
    std::uint32_t& counter = counts_[page / pages_per_big_page];
    if (++counter < threshold_of(block)) {
        return false;
    }
    counter = 0;
    space_.unmap_host_region(page);
    return true;
}

std::uint64_t access_counters::threshold_of(const va_block& block) const {
    const std::uint64_t used = space_.used_chunks();
    const std::uint64_t all = space_.capacity_chunks();
    return used < all ? 1 + base_ * used / all : base_ * (block.evictions + std::uint64_t{1}) * penalty_;
}

}  // namespace orchard::uvm_model
