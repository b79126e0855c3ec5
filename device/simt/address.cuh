// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The SIMT seam: machine instructions for address arithmetic. No function accesses memory.

#include <cstdint>
#include <type_traits>

#include "device/simt/config.cuh"

namespace orchard::simt {

/// Returns `a` * `b` + `c`, with a 64-bit product of 32-bit factors. One instruction on CUDA, also if the compiler has
/// hoisted the conversion of one factor out of a loop, after which a plain expression would take four.
ORCHARD_INLINE std::uint64_t multiply_add_wide(std::int32_t a, std::int32_t b, std::uint64_t c) {
#if ORCHARD_CUDA_PASS
    std::uint64_t result;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(result) : "r"(a), "r"(b), "l"(c));
    return result;
#else
    return static_cast<std::uint64_t>(std::int64_t{a} * b) + c;
#endif
}
/// The same for factors without sign.
ORCHARD_INLINE std::uint64_t multiply_add_wide(std::uint32_t a, std::uint32_t b, std::uint64_t c) {
#if ORCHARD_CUDA_PASS
    std::uint64_t result;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(result) : "r"(a), "r"(b), "l"(c));
    return result;
#else
    return std::uint64_t{a} * b + c;
#endif
}

/// Returns `count` < 32 ones from bit `position` mod 32 on; those beyond bit 31 are dropped. `bit_range(3, 2)` is 11000
/// in binary. One instruction on CUDA.
ORCHARD_INLINE std::uint32_t bit_range(std::uint32_t position, std::uint32_t count) {
#if ORCHARD_CUDA_PASS
    std::uint32_t result;
    asm("bmsk.wrap.b32 %0, %1, %2;" : "=r"(result) : "r"(position), "r"(count));
    return result;
#else
    return ((1u << count) - 1) << (position & 31);
#endif
}

/// Returns the pointer with this address in global memory, so that the compiler need not determine the address space at
/// each access. On CUDA, the address must lie in global memory; on the host, any address does.
template <class T>
ORCHARD_INLINE T* global_pointer(std::uint64_t address) {
#if ORCHARD_CUDA_PASS
    return static_cast<T*>(__cvta_global_to_generic(address));
#else
    return reinterpret_cast<T*>(address);
#endif
}

}  // namespace orchard::simt
