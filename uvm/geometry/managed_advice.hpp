// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The advice to the UVM driver about memory, and how a request names it.

#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard {

/// The advice to the driver about a heap's memory, or about an array.
enum class managed_advice : std::uint8_t {
    first_touch_gpu,  ///< preferred location: the GPU; the first touch populates a whole VA block there
    cpu_resident,     ///< preferred location: the host, accessed by the GPU over the bus; nothing moves
    none,             ///< memory moves to the processor that faults
    read_mostly,      ///< a processor that reads gets a copy; a write ends all others
};

/// The advice that a request asks for, in two bits: how many enumerators it lies behind that of the heap's option,
/// modulo four. 0 is the heap's own, which no one need give.
///
///     of the heap       asked for       code
///     cpu_resident      cpu_resident    0        (1 - 1) mod 4
///     cpu_resident      none            1        (2 - 1) mod 4
///     cpu_resident      first_touch_gpu 3        (0 - 1) mod 4
using advice_code = std::uint8_t;
inline constexpr std::uint32_t advice_codes = 4;
static_assert(static_cast<std::uint32_t>(managed_advice::read_mostly) == advice_codes - 1);

/// Returns the code of `what` in a heap with the option `of_heap`, and back.
ORCHARD_FN constexpr advice_code code_of(managed_advice what, managed_advice of_heap) {
    return static_cast<advice_code>((static_cast<std::uint32_t>(what) - static_cast<std::uint32_t>(of_heap)) %
                                    advice_codes);
}
ORCHARD_FN constexpr managed_advice advice_of(advice_code code, managed_advice of_heap) {
    return static_cast<managed_advice>((static_cast<std::uint32_t>(of_heap) + code) % advice_codes);
}

}  // namespace orchard
