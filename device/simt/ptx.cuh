// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The accesses of `atomic` on CUDA, written in PTX for `.global` addresses.
///
/// `cuda::atomic_ref` uses generic addresses: each access checks whether the word lies in shared memory, and includes a
/// second path for that case. Here an access is one instruction (LDG, STG, ATOMG). ptxas turns an atomic whose result
/// is not used into a reduction (REDG), for which no thread waits.
///
///     ld   .acquire .gpu .global     .b64    load                  order: relaxed, acquire
///     st   .release .sys .global     .b32    store                 order: relaxed, release
///     atom .acq_rel .gpu .global.add .u64    read-modify-write     order: any
///          order    scope            type: u for arithmetic without sign, b for bits
///
/// Every statement is `volatile` and names "memory" as changed, so that the compiler neither removes it nor moves
/// another access across it. The functions are for `atomic` alone, which checks the scope.

#include <cstdint>

#include "device/simt/config.cuh"

#if ORCHARD_CUDA_PASS

namespace orchard::simt::ptx {

// Calls X with the PTX texts of an order and a scope. An `asm` statement needs a literal, so that the text cannot be a
// value that depends on a template argument: each order and scope has a statement of its own, of which `if constexpr`
// keeps one.
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
    } else if constexpr ((S) == scope::block) {                                                                        \
        ORCHARD_PTX_ORDER(O, "cta", X)                                                                                 \
    } else {                                                                                                           \
        ORCHARD_PTX_ORDER(O, "sys", X)                                                                                 \
    }

/// Returns the value of a word. PTX has no load that releases.
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

/// Loads two words of device memory side by side, aligned to 16 B; relaxed.
__device__ __forceinline__ void load_pair(const std::uint64_t* words, std::uint64_t& first, std::uint64_t& second) {
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(first), "=l"(second)
                 : "l"(__cvta_generic_to_global(words))
                 : "memory");
}

/// Stores a value. PTX has no store that acquires.
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

// Defines one read-modify-write, which returns the old value: ORCHARD_PTX_OLD is its statement, ORCHARD_PTX_MODIFY its
// two functions, which take the statements of 32 and of 64 bits by the names ORCHARD_PTX_32 and ORCHARD_PTX_64. `type`
// is u or b with the number of bits; `constraint` names a register of that size: "r" has 32 bits, "l" has 64.
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

/// Subtracts by adding the two's complement: PTX has no atomic that subtracts.
template <scope S, order O, class T>
__device__ __forceinline__ T fetch_sub(T* word, T value) {
    return fetch_add<S, O>(word, T{0} - value);
}

/// Stores `desired` if the word is `expected`; returns the old value, which is `expected` exactly if the store was
/// made.
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

/// The same if `wanted`; otherwise does nothing, and returns `expected`. It has no branch: the instruction has a
/// predicate, so that several calls in a row overlap. `old` is an operand that is read and written ("+"), since it
/// keeps its value if the instruction is not executed.
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

/// Orders this thread's accesses before it before those after it (acquire and release) among the threads of the scope.
template <scope S>
__device__ __forceinline__ void fence(){
#define ORCHARD_PTX(o, s) asm volatile("fence." o "." s ";" ::: "memory")
    ORCHARD_PTX_EACH(S, order::acq_rel, ORCHARD_PTX)
#undef ORCHARD_PTX
}

/// Asks for the line at `address` in the L2 cache. Nothing waits for it.
__device__ __forceinline__ void prefetch(const void* address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(address)));
}

#undef ORCHARD_PTX_EACH
#undef ORCHARD_PTX_ORDER

}  // namespace orchard::simt::ptx

#endif
