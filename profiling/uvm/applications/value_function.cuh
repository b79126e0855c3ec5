// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The initial numbers of the applications, as a function of seed and position: kernels and host compute the same ones,
/// in any order. Whole numbers are used everywhere, so that results do not depend on the order of sums.

#include <cstdint>

#include "device/simt/random.hpp"
#include "profiling/uvm/applications/parts.cuh"

namespace orchard::applications {

/// Returns number `i` of `stream`, from 0 to `bound` - 1.
ORCHARD_INLINE std::int64_t value(std::uint64_t seed, std::uint64_t stream, std::uint64_t i, std::uint64_t bound) {
    return static_cast<std::int64_t>(high_product(simt::random_bits(seed, stream, i), bound));
}
/// Returns such a number from -8 to 8.
ORCHARD_INLINE std::int64_t signed_value(std::uint64_t seed, std::uint64_t stream, std::uint64_t i) {
    return value(seed, stream, i, 17) - 8;
}

}  // namespace orchard::applications
