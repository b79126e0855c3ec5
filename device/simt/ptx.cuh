// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The accesses of `atomic` on CUDA, written in PTX for `.global` addresses.
///
/// `cuda::atomic_ref` uses generic addresses: each access checks whether the word lies in shared memory, and includes a
/// second path for that case. Here an access is one instruction (LDG, STG, ATOMG). ptxas turns an atomic whose result
/// is not used into a reduction (REDG), for which no thread waits.

#include <cstdint>

#include "device/simt/config.cuh"

#if ORCHARD_CUDA_PASS

namespace orchard::simt::ptx {

// Calls X with the PTX texts of an order and a scope.
#define ORCHARD_PTX_ORDER(O, scope_text, X)                                                                            \
    if constexpr ((O) == order::relaxed) {                                                                             \
        X("relaxed", scope_text);                                                                                      \
    } else if constexpr ((O) == order::acquire) {                                                                      \
        X("acquire", scope_text);                                                                                      \
    } else if constexpr ((O) == order::release) {                                                                      \
        X("release", scope_text);                                                                                      \
    } else {                                                                                                           \
        X("acq_rel", scope_text);                                                                                      \
    }
#define ORCHARD_PTX_EACH(S, O, X)                                                                                      \
    if constexpr ((S) == scope::device) {                                                                              \
        ORCHARD_PTX_ORDER(O, "gpu", X)                                                                                 \
    } else {                                                                                                           \
        ORCHARD_PTX_ORDER(O, "sys", X)                                                                                 \
    }

template <scope S, order O>
__device__ __forceinline__ std::uint32_t load(const std::uint32_t* word) {
    static_assert(O == order::relaxed || O == order::acquire);
    std::uint32_t value;
#define ORCHARD_PTX(o, s)                                                                                              \
    asm volatile("ld." o "." s ".global.b32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(word)) : "memory")
    ORCHARD_PTX_EACH(S, O, ORCHARD_PTX)
#undef ORCHARD_PTX
    return value;
}
template <scope S, order O>
__device__ __forceinline__ std::uint64_t load(const std::uint64_t* word) {
    static_assert(O == order::relaxed || O == order::acquire);
    std::uint64_t value;
#define ORCHARD_PTX(o, s)                                                                                              \
    asm volatile("ld." o "." s ".global.b64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(word)) : "memory")
    ORCHARD_PTX_EACH(S, O, ORCHARD_PTX)
#undef ORCHARD_PTX
    return value;
}

template <scope S, order O>
__device__ __forceinline__ void store(std::uint32_t* word, std::uint32_t value) {
    static_assert(O == order::relaxed || O == order::release);
#define ORCHARD_PTX(o, s)                                                                                              \
    asm volatile("st." o "." s ".global.b32 [%0], %1;" ::"l"(__cvta_generic_to_global(word)), "r"(value) : "memory")
    ORCHARD_PTX_EACH(S, O, ORCHARD_PTX)
#undef ORCHARD_PTX
}
template <scope S, order O>
__device__ __forceinline__ void store(std::uint64_t* word, std::uint64_t value) {
    static_assert(O == order::relaxed || O == order::release);
#define ORCHARD_PTX(o, s)                                                                                              \
    asm volatile("st." o "." s ".global.b64 [%0], %1;" ::"l"(__cvta_generic_to_global(word)), "l"(value) : "memory")
    ORCHARD_PTX_EACH(S, O, ORCHARD_PTX)
#undef ORCHARD_PTX
}

// Defines one read-modify-write, which returns the old value. `type` is u or b.
#define ORCHARD_PTX_OLD(what, o, s, type, constraint)                                                                  \
    asm volatile("atom." o "." s ".global." what "." type " %0, [%1], %2;"                                             \
                 : "=" constraint(old)                                                                                 \
                 : "l"(__cvta_generic_to_global(word)), constraint(value)                                              \
                 : "memory")
#define ORCHARD_PTX_MODIFY(name)                                                                                       \
    template <scope S, order O>                                                                                        \
    __device__ __forceinline__ std::uint32_t name(std::uint32_t* word, std::uint32_t value) {                          \
        std::uint32_t old;                                                                                             \
        ORCHARD_PTX_EACH(S, O, ORCHARD_PTX_32)                                                                         \
        return old;                                                                                                    \
    }                                                                                                                  \
    template <scope S, order O>                                                                                        \
    __device__ __forceinline__ std::uint64_t name(std::uint64_t* word, std::uint64_t value) {                          \
        std::uint64_t old;                                                                                             \
        ORCHARD_PTX_EACH(S, O, ORCHARD_PTX_64)                                                                         \
        return old;                                                                                                    \
    }

#define ORCHARD_PTX_32(o, s) ORCHARD_PTX_OLD("add", o, s, "u32", "r")
#define ORCHARD_PTX_64(o, s) ORCHARD_PTX_OLD("add", o, s, "u64", "l")
ORCHARD_PTX_MODIFY(fetch_add)
#undef ORCHARD_PTX_32
#undef ORCHARD_PTX_64
#define ORCHARD_PTX_32(o, s) ORCHARD_PTX_OLD("or", o, s, "b32", "r")
#define ORCHARD_PTX_64(o, s) ORCHARD_PTX_OLD("or", o, s, "b64", "l")
ORCHARD_PTX_MODIFY(fetch_or)
#undef ORCHARD_PTX_32
#undef ORCHARD_PTX_64
#define ORCHARD_PTX_32(o, s) ORCHARD_PTX_OLD("and", o, s, "b32", "r")
#define ORCHARD_PTX_64(o, s) ORCHARD_PTX_OLD("and", o, s, "b64", "l")
ORCHARD_PTX_MODIFY(fetch_and)
#undef ORCHARD_PTX_32
#undef ORCHARD_PTX_64
#define ORCHARD_PTX_32(o, s) ORCHARD_PTX_OLD("exch", o, s, "b32", "r")
#define ORCHARD_PTX_64(o, s) ORCHARD_PTX_OLD("exch", o, s, "b64", "l")
ORCHARD_PTX_MODIFY(exchange)
#undef ORCHARD_PTX_32
#undef ORCHARD_PTX_64
#define ORCHARD_PTX_32(o, s) ORCHARD_PTX_OLD("max", o, s, "u32", "r")
#define ORCHARD_PTX_64(o, s) ORCHARD_PTX_OLD("max", o, s, "u64", "l")
ORCHARD_PTX_MODIFY(fetch_max)
#undef ORCHARD_PTX_32
#undef ORCHARD_PTX_64
#define ORCHARD_PTX_32(o, s) ORCHARD_PTX_OLD("min", o, s, "u32", "r")
#define ORCHARD_PTX_64(o, s) ORCHARD_PTX_OLD("min", o, s, "u64", "l")
ORCHARD_PTX_MODIFY(fetch_min)
#undef ORCHARD_PTX_32
#undef ORCHARD_PTX_64
#undef ORCHARD_PTX_MODIFY
#undef ORCHARD_PTX_OLD

template <scope S, order O, class T>
__device__ __forceinline__ T fetch_sub(T* word, T value) {
    return fetch_add<S, O>(word, T{0} - value);
}

/// Stores `desired` if the word is `expected`; returns the old value.
template <scope S, order O>
__device__ __forceinline__ std::uint32_t compare_exchange(std::uint32_t* word, std::uint32_t expected,
                                                          std::uint32_t desired) {
    std::uint32_t old;
#define ORCHARD_PTX(o, s)                                                                                              \
    asm volatile("atom." o "." s ".global.cas.b32 %0, [%1], %2, %3;"                                                   \
                 : "=r"(old)                                                                                           \
                 : "l"(__cvta_generic_to_global(word)), "r"(expected), "r"(desired)                                    \
                 : "memory")
    ORCHARD_PTX_EACH(S, O, ORCHARD_PTX)
#undef ORCHARD_PTX
    return old;
}
template <scope S, order O>
__device__ __forceinline__ std::uint64_t compare_exchange(std::uint64_t* word, std::uint64_t expected,
                                                          std::uint64_t desired) {
    std::uint64_t old;
#define ORCHARD_PTX(o, s)                                                                                              \
    asm volatile("atom." o "." s ".global.cas.b64 %0, [%1], %2, %3;"                                                   \
                 : "=l"(old)                                                                                           \
                 : "l"(__cvta_generic_to_global(word)), "l"(expected), "l"(desired)                                    \
                 : "memory")
    ORCHARD_PTX_EACH(S, O, ORCHARD_PTX)
#undef ORCHARD_PTX
    return old;
}

/// The same if `wanted`; otherwise does nothing, and returns `expected`. It has no branch, so that several calls in a
/// row overlap.
template <scope S, order O>
__device__ __forceinline__ std::uint64_t compare_exchange_if(bool wanted, std::uint64_t* word, std::uint64_t expected,
                                                             std::uint64_t desired) {
    std::uint64_t old = expected;
#define ORCHARD_PTX(o, s)                                                                                              \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0; @p atom." o "." s ".global.cas.b64 %0, [%1], %2, %3; }"        \
                 : "+l"(old)                                                                                           \
                 : "l"(__cvta_generic_to_global(word)), "l"(expected), "l"(desired), "r"(wanted ? 1u : 0u)             \
                 : "memory")
    ORCHARD_PTX_EACH(S, O, ORCHARD_PTX)
#undef ORCHARD_PTX
    return old;
}

#undef ORCHARD_PTX_EACH
#undef ORCHARD_PTX_ORDER

}  // namespace orchard::simt::ptx

#endif
