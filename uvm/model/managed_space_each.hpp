// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Iteration over the VA blocks of a range; for the sources of `managed_space` only.

#include <algorithm>
#include <cstdint>

#include "uvm/model/managed_space.hpp"

namespace orchard::uvm_model {

/// Calls `f(block, pages)` for each VA block that has pages in `range`, with those pages, in the order of addresses.
/// The range must have passed `check`: whole pages inside the space.
///
///     range [1 MiB, 5 MiB)    block 0, pages 256 to 511    block 1, pages 0 to 511    block 2, pages 0 to 255
///
/// Cost: one call for each block; nothing for an empty range.
template <class F>
void managed_space::each_block(byte_range range, F&& f) {
    const std::uint64_t end = (range.offset + range.bytes) / os_page_bytes;
    for (std::uint64_t page = range.offset / os_page_bytes; page < end;) {
        const std::uint32_t index = block_of(page);
        const std::uint64_t base = first_page(blocks_[index].segment);
        const page_range part{
            static_cast<std::uint32_t>(page - base),
            static_cast<std::uint32_t>(std::min(end - base, std::uint64_t{blocks_[index].pages.end}))};
        f(index, page_mask(part));
        page = base + part.end;
    }
}

}  // namespace orchard::uvm_model
