// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Random numbers that are a function of their position (seed, stream, index) instead of a state: host and device draw
/// the same numbers in any order.

#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard::examples {

/// Maps 64-bit words to 64-bit words one to one; the output looks random. Source: Steele, Lea, Flood: Fast Splittable
/// Pseudorandom Number Generators (OOPSLA 2014), the finalizer of SplitMix.
ORCHARD_FN constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/// Returns 64 random bits for position `index` of `stream` under `seed`.
ORCHARD_FN constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    return mix(mix(mix(seed) ^ stream) ^ index);
}

/// Returns a number in [0, bound) from 64 random bits: the upper word of (upper 32 bits) x bound. The bias is at most
/// bound / 2^32. `bound` must not be 0.
ORCHARD_FN constexpr std::uint32_t below(std::uint64_t bits, std::uint32_t bound) {
    return static_cast<std::uint32_t>(((bits >> 32) * bound) >> 32);
}

}  // namespace orchard::examples
