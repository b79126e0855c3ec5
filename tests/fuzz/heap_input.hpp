// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The bytes of an input, read as a program for a heap. After their end there are zeros.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "device/state/heap_state.cuh"
#include "runtime/options/options.hpp"
#include "tests/properties/perform.hpp"

namespace orchard::fuzz {

/// Lanes of one warp that make the same kind of call.
struct burst {
    test::action what = test::action::malloc;
    std::uint32_t lanes = 1;  ///< a mask
    std::uint64_t bytes = 1;
    std::uint32_t spread = 0;
    std::uint64_t alignment = 16;

    /// Returns the size that a lane asks for: the same for all, any up to that, or that, half of it, a quarter.
    [[nodiscard]] std::uint64_t bytes_of(std::uint32_t lane) const {
        switch (spread) {
            case 1: return bytes == 0 ? 0 : 1 + device::mix(lane + static_cast<std::uint32_t>(bytes)) % bytes;
            case 2: return bytes >> lane % 3;
            default: return bytes;
        }
    }
};

class program_input {
public:
    program_input(const std::uint8_t* data, std::size_t size) : at_{data}, end_{data + size} {}

    [[nodiscard]] bool at_end() const { return at_ == end_; }
    std::uint32_t byte() { return at_end() ? 0 : *at_++; }
    bool flag() { return byte() % 2 != 0; }
    std::uint32_t word(int bytes) {
        std::uint32_t value = 0;
        for (int i = 0; i < bytes; ++i) {
            value |= byte() << (8 * i);
        }
        return value;
    }
    /// Returns a number below `n`; 0 if `n` is 0.
    std::uint32_t below(std::size_t n) {
        return n < 2 ? 0 : static_cast<std::uint32_t>((n <= 256 ? byte() : word(2)) % n);
    }

    /// Returns the options of a small heap.
    orchard::options options() {
        static constexpr std::array<std::uint64_t, 6> segments{2, 3, 4, 8, 16, 24};
        static constexpr std::array<int, 4> cached{0, 1, 4, 64};
        static constexpr std::array<int, 3> slots{4, 64, 16384};
        orchard::options o;
        o.device = device_option::emulated;
        const std::uint32_t size = byte();
        o.capacity = segments[size % segments.size()] * segment_bytes;
        o.hardened = size >= 128 ? hardening::detect : hardening::off;
        o.fill = size >= 128 ? static_cast<block_fill>(size / 8 % 3) : block_fill::unchanged;
        o.tails = size % 64 >= 32 ? tail_policy::pooled : tail_policy::adjacent;
        o.placement_seed = 1;  // not drawn, so that a program can be repeated
        o.range = o.capacity;  // so that as much memory can be used as there are addresses
        o.cached_segments = cached[below(cached.size())];
        o.mailbox_slots = slots[below(slots.size())];
        const std::uint32_t flags = byte();
        o.backing = (flags & 1) != 0 ? backing_option::fixed : backing_option::automatic;
        o.portions = (flags & 2) != 0 ? portion_policy::padded : portion_policy::packed;
        o.chunk_lanes = 1 << std::min(flags >> 2 & 7, 5u);
        o.decay = (flags & 32) != 0 ? absl::Milliseconds(1) : absl::Seconds(10);
        o.commit_ahead = (flags & 64) != 0 ? 0 : orchard::options{}.commit_ahead;
        o.emulated_workers = (flags & 128) != 0 ? 1 : 2;
        return o;
    }

    burst next_burst(std::uint64_t capacity) {
        using test::action;
        static constexpr std::array kinds{action::malloc,  action::malloc,  action::malloc,        action::calloc,
                                          action::realloc, action::realloc, action::aligned_alloc, action::free,
                                          action::free,    action::free,    action::free_inside};
        burst b;
        b.what = kinds[below(kinds.size())];
        b.lanes = next_lanes();
        if (b.what == action::free || b.what == action::free_inside) {
            return b;
        }
        b.bytes = next_bytes(capacity);
        b.spread = below(3);
        if (b.what == action::aligned_alloc) {
            static constexpr std::array<std::uint64_t, 4> wrong{0, 3, 48, 2 * segment_bytes};
            const std::uint32_t log = byte() % 26;
            b.alignment = log < 22 ? std::uint64_t{1} << log : wrong[log - 22];
        }
        return b;
    }

    std::uint64_t next_bytes(std::uint64_t capacity) {
        const std::uint32_t kind = byte() % 8;
        const std::uint64_t n = word(2);
        switch (kind) {
            case 0:
            case 1: return 1 + n % 512;
            case 2: return 1 + n % 8192;
            case 3: return 1 + n * 8;                        // up to the largest page
            case 4: return largest_page_bytes + 1 + n * 64;  // up to 4.5 MiB
            case 5: return std::max<std::uint64_t>((std::uint64_t{1} << n % 24) + n / 24 % 3, 1) - 1;
            case 6: return class_bytes(static_cast<std::uint32_t>(n % class_count)) + n / 256 % 2;
            default: {
                const std::array<std::uint64_t, 4> odd{0, ~std::uint64_t{0}, capacity, capacity + 1};
                return odd[n % odd.size()];
            }
        }
    }

    layout next_layout() {
        static constexpr std::array all{layout::automatic(),           layout::linear(),
                                        layout::interleaved(tile::b4), layout::interleaved(tile::b16),
                                        layout::interleaved(tile::k4), layout::interleaved(tile_of(64 << 10))};
        return all[below(all.size())];
    }

private:
    std::uint32_t next_lanes() {
        const std::uint32_t m = byte();
        switch (m % 4) {
            case 0: return ~0u;
            case 1: return 1u << (m >> 2 & 31);
            case 2: return ~0u >> (m >> 2 & 31);
            default: return word(4);
        }
    }

    const std::uint8_t* at_;
    const std::uint8_t* end_;
};

}  // namespace orchard::fuzz
