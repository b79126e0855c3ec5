// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The state of one lane in a random walk: its random numbers, its bound and, if wanted, its count of steps.

#include <cstdint>

#include "device/state/heap_state.cuh"

namespace orchard::device::random_walk {

/// The pseudo-random numbers of one lane: a mixed counter, so that a number costs no memory access. Lanes with
/// different seeds draw unrelated sequences. Number k is mix(mix(k * 0x9e3779b9) ^ key), where the key depends on the
/// seed alone: the outer mixing separates lanes, the inner one the numbers of a lane.
class random_bits {
public:
    random_bits() = default;
    ORCHARD_INLINE explicit random_bits(std::uint64_t seed)
        : key_{mix(static_cast<std::uint32_t>(seed) ^ mix(static_cast<std::uint32_t>(seed >> 32) + 0x7f4a7c15u))} {}

    /// Returns the next number, all 32 bits. The counter repeats after 2^32 numbers.
    ORCHARD_INLINE std::uint32_t next() {
        count_ += 0x9e3779b9u;
        return mix(mix(count_) ^ key_);
    }
    /// Returns a number from 0 to n - 1; `n` is at least 1. Probabilities differ by less than n / 2^32 of their value.
    ORCHARD_INLINE std::uint32_t below(std::uint32_t n) { return fraction_of(n, next()); }

private:
    std::uint32_t key_ = 0;
    std::uint32_t count_ = 0;
};

/// Counts nothing, at no cost.
struct uncounted {
    ORCHARD_INLINE void step() {}
    ORCHARD_INLINE void lost() {}
};

/// Counts the steps of one lane. TAS is the mean of `steps` over all lanes. WAS is the mean, over all warps, of the
/// greatest `steps` of their lanes (section 3.2.1 of the paper). A sweep is not a step, except in RW_malloc, where it
/// counts as one.
struct counted {
    std::uint32_t steps = 0;   ///< number of pages (RW), words (RW-BM, CoRW) or regions (RW_malloc) looked at
    std::uint32_t losses = 0;  ///< claims of free pages that another lane took first
    ORCHARD_INLINE void step() { ++steps; }
    ORCHARD_INLINE void lost() { ++losses; }
};

/// The walk of one lane: its random numbers, its bound and its count. `Count` is `uncounted` or `counted`. Each lane
/// has its own, made for one request.
template <class Count = uncounted>
struct walker {
    random_bits random;
    std::uint32_t max_steps = 0;  ///< number of steps after which a sweep decides; 0: `steps_before_sweep`
    Count count;

    /// Returns the number of steps after which a sweep decides, for a space of `words` words. In that many steps' time,
    /// a warp could sweep the whole space, so that a longer walk would cost more than certainty. A slab of 64 B pages
    /// has 512 words: 512 / 32 + 32 = 48 steps. The second 32 keep small spaces from being swept at once.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t steps_before_sweep(std::uint32_t words) const {
        return max_steps != 0 ? max_steps : words / simt::warp_size + simt::warp_size;
    }
};

/// The most sweeps of a request. Each sweep except the last has seen free pages that another lane took first. Hence
/// only a request that loses this often in a row fails although pages were free.
inline constexpr int max_sweeps = 64;

}  // namespace orchard::device::random_walk
