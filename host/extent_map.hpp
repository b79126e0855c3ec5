// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The committed extents of a heap, by which the service decides what to decommit.

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "host/run_ring.hpp"
#include "host/word_runs.hpp"

namespace orchard {

/// The set of committed extents. An extent is decommitted exactly as it was committed, because a backing maps it as one
/// piece and can only unmap the whole piece. The map therefore remembers where each extent begins, how long it is and
/// on which tier it lies.
///
///     segment     0   1   2   3   4   5   6   7
///     begins_     1   0   0   0   1   0   0   0      extents [0, 4) on the device and [4, 7) on the host
///     extents_    8   -   -   -   7   -   -   -      count << 1 | on the host: 4 << 1 | 0 and 3 << 1 | 1
///                                                    -: left over from earlier extents, never read
///
/// Not thread-safe: only the service uses it. Nothing is allocated after construction. 4.1 bytes for each segment.
class extent_map {
public:
    /// Creates an empty set for a heap of `segments` segments.
    explicit extent_map(std::uint32_t segments) : begins_(detail::words_for(segments)), extents_(segments) {}

    /// Adds `e`, which has been committed; the service calls it when it takes over what growth has committed. No
    /// segment of `e` may be in another extent. Cost: two words.
    void add(const extent& e) {
        const std::uint32_t first = to_underlying(e.run.first);
        begins_[first / detail::word_bits] |= detail::bit_of(first);
        extents_[first] = e.run.count << 1 | (e.tier == memory_tier::host ? 1u : 0u);
        count_of(e.tier) += e.run.count;
    }
    /// Removes `e`, which must be in the set, exactly as it was added. Cost: one word; the word of its count is left as
    /// it is.
    void remove(const extent& e) {
        const std::uint32_t first = to_underlying(e.run.first);
        begins_[first / detail::word_bits] &= ~detail::bit_of(first);
        count_of(e.tier) -= e.run.count;
    }
    /// Returns the highest extent of `tier` that begins below segment `end`; nothing if there is none. The highest ones
    /// are given up first, because segments are handed out lowest first, so that the memory in use stays dense. Called
    /// with the first segment of each result as the next `end`, it visits the extents of a tier from the highest to the
    /// lowest. Cost: a word for each 64 segments, and a step for each extent of the other tier.
    [[nodiscard]] std::optional<extent> last_before(std::uint32_t end, memory_tier tier) const {
        for (std::uint32_t w = detail::words_for(end); w-- != 0;) {
            const std::uint32_t used = end - w * detail::word_bits;
            // Only the first word looked at can reach beyond `end`; in all words below it `used` is 64 or more.
            std::uint64_t bits = begins_[w] & (used < detail::word_bits ? detail::bit_of(used) - 1 : ~std::uint64_t{0});
            for (; bits != 0; bits &= ~std::bit_floor(bits)) {
                const std::uint32_t first =
                    w * detail::word_bits + static_cast<std::uint32_t>(std::bit_width(bits)) - 1;
                if (const extent e = at(first); e.tier == tier) {
                    return e;
                }
            }
        }
        return std::nullopt;
    }
    /// Calls `f(extent)` for each extent, from the lowest to the highest. Cost: a word for each 64 segments.
    template <class F>
    void for_each(F f) const {
        for (std::uint32_t w = 0; w < begins_.size(); ++w) {
            for (std::uint64_t bits = begins_[w]; bits != 0; bits &= bits - 1) {
                f(at(w * detail::word_bits + static_cast<std::uint32_t>(std::countr_zero(bits))));
            }
        }
    }
    /// Returns the number of segments in all extents of a tier.
    [[nodiscard]] std::uint32_t segments(memory_tier tier) const {
        return tier == memory_tier::host ? on_host_ : on_device_;
    }

private:
    /// Returns the extent that begins at `first`.
    [[nodiscard]] extent at(std::uint32_t first) const {
        return {{segment_index{first}, extents_[first] >> 1},
                (extents_[first] & 1) != 0 ? memory_tier::host : memory_tier::device};
    }
    std::uint32_t& count_of(memory_tier tier) { return tier == memory_tier::host ? on_host_ : on_device_; }

    std::vector<std::uint64_t> begins_;   ///< 1 for each segment at which an extent begins
    std::vector<std::uint32_t> extents_;  ///< there: the count, shifted left by one, plus 1 if on the host
    std::uint32_t on_device_ = 0;         ///< segments in all extents of the tier
    std::uint32_t on_host_ = 0;           ///< likewise
};

}  // namespace orchard
