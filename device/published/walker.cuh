// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What one lane brings to a random walk: its random numbers, its bound, and where asked for its count of steps.

#include <cstdint>

#include "device/heap_state.cuh"

namespace orchard::device::random_walk {

/// Pseudo-random numbers of one lane: a mixed counter, so that a number costs no memory access. Lanes of different
/// seeds draw unrelated sequences.
class random_bits {
public:
    random_bits() = default;
    ORCHARD_INLINE explicit random_bits(std::uint64_t seed)
        : key_{mix(static_cast<std::uint32_t>(seed) ^ mix(static_cast<std::uint32_t>(seed >> 32) + 0x7f4a7c15u))} {}

    ORCHARD_INLINE std::uint32_t next() {
        count_ += 0x9e3779b9u;
        return mix(mix(count_) ^ key_);
    }
    /// 0 to n - 1; `n` at least 1.
    ORCHARD_INLINE std::uint32_t below(std::uint32_t n) {
        return static_cast<std::uint32_t>(std::uint64_t{next()} * n >> 32);
    }

private:
    std::uint32_t key_ = 0;
    std::uint32_t count_ = 0;
};

/// Counts nothing and costs nothing.
struct uncounted {
    ORCHARD_INLINE void step() {}
    ORCHARD_INLINE void lost() {}
};

/// Counts what one lane does. TAS is the mean of `steps` over all lanes, WAS the mean over warps of the greatest
/// `steps` of their lanes (section 3.2.1 of the paper). A sweep is no step.
struct counted {
    std::uint32_t steps = 0;   ///< places looked at: pages (RW), words (RW-BM, CoRW), regions (RW_malloc)
    std::uint32_t losses = 0;  ///< claims of what was seen free that somebody else had taken meanwhile
    ORCHARD_INLINE void step() { ++steps; }
    ORCHARD_INLINE void lost() { ++losses; }
};

/// One lane's walk. `Count` is `uncounted` or `counted`.
template <class Count = uncounted>
struct walker {
    random_bits random;
    std::uint32_t max_steps = 0;  ///< after which a sweep decides; 0: `steps_before_sweep`
    Count count;

    /// For a space of so many words: a sweep by a warp reads them in this time, so that a longer walk would cost more
    /// than knowing.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t steps_before_sweep(std::uint32_t words) const {
        return max_steps != 0 ? max_steps : words / simt::warp_size + simt::warp_size;
    }
};

/// Sweeps that a request makes at most. Each but the last has seen free pages that another lane was quicker to take,
/// so that only a request that loses so often in a row ends although pages were free.
inline constexpr int max_sweeps = 64;

}  // namespace orchard::device::random_walk
