// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/arena/blocks.hpp"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace orchard::arena {

namespace {

/// Graver faults come first: one that makes the other figures meaningless hides them.
int gravity_of(verdict v) {
    switch (v) {
        case verdict::crash: return 6;
        case verdict::hang: return 5;
        case verdict::overlap: return 4;
        case verdict::misaligned: return 3;
        case verdict::null: return 2;
        case verdict::leak: return 1;
        default: return 0;
    }
}

}  // namespace

void outcome::fault(verdict v, std::string why) {
    if (gravity_of(v) > gravity_of(ended)) {
        ended = v;
        detail = std::move(why);
    }
}

findings inspect(std::vector<block> blocks) {
    findings found;
    const auto nulls =
        std::stable_partition(blocks.begin(), blocks.end(), [](const block& b) { return b.address != 0; });
    found.nulls = static_cast<std::uint64_t>(blocks.end() - nulls);
    blocks.erase(nulls, blocks.end());
    found.blocks = blocks.size();
    std::sort(blocks.begin(), blocks.end(), [](const block& a, const block& b) { return a.address < b.address; });
    std::uint64_t end = 0;
    for (const block& b : blocks) {
        found.misaligned += b.address % 16 != 0;
        found.overlapping += b.address < end;
        found.bytes += (b.bytes + 15) / 16 * 16;
        end = std::max(end, b.address + b.bytes);
    }
    found.span = blocks.empty() ? 0 : end - blocks.front().address;
    return found;
}

void note(outcome& result, const findings& found, bool nulls_allowed) {
    if (found.overlapping != 0) {
        result.fault(verdict::overlap,
                     absl::StrFormat("%d of %d blocks overlap another", found.overlapping, found.blocks));
    }
    if (found.misaligned != 0) {
        result.fault(verdict::misaligned,
                     absl::StrFormat("%d of %d blocks are not aligned to 16 B", found.misaligned, found.blocks));
    }
    if (found.nulls != 0 && !nulls_allowed) {
        result.fault(verdict::null,
                     absl::StrFormat("%d of %d requests gave null", found.nulls, found.nulls + found.blocks));
    }
}

}  // namespace orchard::arena
