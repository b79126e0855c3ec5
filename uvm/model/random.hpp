// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Random numbers that are a function of their position instead of a state: the same on every machine, in any order.
///
///     random_bits(seed, stream, index)       stream: a thread, a warp, or a purpose; index: a step
///
/// A source can therefore compute the accesses of any warp and step without those before them, and needs no memory for
/// a generator. examples/graph/random.hpp has such functions for code that also runs on a device.

#include <cstdint>

namespace orchard::uvm_model {

/// Maps 64-bit words to 64-bit words one to one; the output looks random. Source: Steele, Lea, Flood: Fast Splittable
/// Pseudorandom Number Generators (OOPSLA 2014), the finalizer of SplitMix.
constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/// Returns 64 random bits for position `index` of `stream`; `seed` belongs to the whole generator.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    return mix(mix(mix(seed) ^ stream) ^ index);
}

/// Returns a number below `bound`, which is not 0, from 64 random bits: the upper word of the product. The bias is at
/// most bound / 2^64.
constexpr std::uint64_t below(std::uint64_t bits, std::uint64_t bound) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(bits) * bound >> 64);
}

}  // namespace orchard::uvm_model
