// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Follows pages through the records of unified memory; page_ledger.hpp has the rules.

#include "profiling/profile/page_ledger.hpp"

#include <algorithm>
#include <vector>

namespace orchard::profiling {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t block_pages = 512;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;  // a record of the driver is within 2 MiB

enum class place : std::uint8_t { unknown, host, device };

/// The places of the pages of VA blocks, each of 2 MiB.
using places = std::unordered_map<std::uint64_t, std::array<place, block_pages>>;

/// Moves the pages of [address, address + bytes) to `to`. Returns the bytes of those that were there already.
std::uint64_t move(places& all, std::uint64_t address, std::uint64_t bytes, place to) {
    std::uint64_t there = 0;
    const std::uint64_t end = (address + bytes + page_bytes - 1) / page_bytes;
    for (std::uint64_t page = address / page_bytes; page < end;) {
        auto& block = all[page / block_pages];
        for (std::uint64_t i = page % block_pages; i < block_pages && page < end; ++i, ++page) {
            there += block[i] == to ? page_bytes : 0;
            block[i] = to;
        }
    }
    return there;
}

}  // namespace

ledger_findings check_pages(std::span<const unified_record> records) {
    std::vector<const unified_record*> moves;
    ledger_findings found;
    for (const unified_record& r : records) {
        if (r.kind != unified_kind::to_device && r.kind != unified_kind::to_host) {
            continue;
        }
        if (r.value > most_bytes || r.address + r.value < r.address) {
            ++found.not_checked;
        } else {
            moves.push_back(&r);
        }
    }
    std::stable_sort(moves.begin(), moves.end(), [](auto* a, auto* b) { return a->start_ns < b->start_ns; });
    places all;
    for (const unified_record* r : moves) {
        const bool to_device = r->kind == unified_kind::to_device;
        (to_device ? found.missing_to_host : found.missing_to_device) +=
            move(all, r->address, r->value, to_device ? place::device : place::host);
    }
    for (const auto& [number, block] : all) {
        found.on_device_at_end +=
            page_bytes * static_cast<std::uint64_t>(std::count(block.begin(), block.end(), place::device));
    }
    return found;
}

}  // namespace orchard::profiling
