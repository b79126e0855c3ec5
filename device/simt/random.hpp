// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Random numbers that are a function of their position instead of a state: host and device draw the same numbers, on
/// every machine and in any order.
///
///     random_bits(seed, stream, index)       stream: a thread, a warp, or a purpose; index: a step
///
/// A source can therefore compute the accesses of any warp and step without those before them, and needs no memory for
/// a generator. The heap itself uses `device::mix` of 32 bits, which is cheaper on a GPU.

#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard::simt {

/// The increment of SplitMix: 2^64 divided by the golden ratio.
inline constexpr std::uint64_t splitmix_step = 0x9e3779b97f4a7c15u;

/// Maps 64-bit words to 64-bit words one to one; the output looks random. Source: Steele, Lea, Flood: Fast Splittable
/// Pseudorandom Number Generators (OOPSLA 2014). `mix64(seed + k * splitmix_step)` is number k of SplitMix64.
ORCHARD_FN constexpr std::uint64_t mix64(std::uint64_t x) {
    x += splitmix_step;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/// Returns 64 random bits for position `index` of `stream`; `seed` belongs to the whole generator.
ORCHARD_FN constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    return mix64(mix64(mix64(seed) ^ stream) ^ index);
}

/// Returns a number below `bound`, which is not 0, from 64 random bits: the upper word of (upper 32 bits) x bound. The
/// bias is at most bound / 2^32.
ORCHARD_FN constexpr std::uint32_t below32(std::uint64_t bits, std::uint32_t bound) {
    return static_cast<std::uint32_t>(((bits >> 32) * bound) >> 32);
}

/// The same for a bound of 64 bits, from all bits. The bias is at most bound / 2^64. On the host only.
constexpr std::uint64_t below64(std::uint64_t bits, std::uint64_t bound) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(bits) * bound >> 64);
}

}  // namespace orchard::simt
