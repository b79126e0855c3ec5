// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The SIMT seam, part 2: shared data. A word that several threads may access has type `atomic`, or `plain` if
/// something else orders its accesses. The emulated device thereby sees every access.
///
/// | type             | memory              | its accesses are ordered by                                          |
/// |------------------|---------------------|----------------------------------------------------------------------|
/// | `device_word<T>` | device memory       | the order that each access states, among all threads of the device   |
/// | `host_word<T>`   | host-visible memory | the same, also among host threads; the device only loads and stores  |
/// | `plain<T>`       | either              | other accesses around them: a barrier, or a release and an acquire   |
///
/// Example of a release that pairs with an acquire:
///
///     writer:  value.set(7);                            reader:  if (ready.load<order::acquire>() == 1) {
///              ready.store<order::release>(1);                       use(value.get());    // 7
///                                                                }
///
/// On the host, each access first asks whether its thread runs in a simulation, which then performs it on weak memory.
/// Otherwise the access is counted and recorded if a lane makes it, and is performed by the compiler's `__atomic`
/// functions: `std::atomic_ref` is the same in C++20, but sources of kernels may be C++17, and `<atomic>` takes longer
/// to compile than the rest of what they include.

#include <cstdint>
#include <type_traits>

#include "device/simt/config.cuh"
#include "device/simt/emulated/hooks.hpp"
#include "device/simt/mutation.cuh"
#include "device/simt/ptx.cuh"

#if defined(__SANITIZE_THREAD__)
#define ORCHARD_THREAD_SANITIZER 1
#else
#define ORCHARD_THREAD_SANITIZER 0
#endif

namespace orchard::simt {

namespace detail {

/// Returns the order in the terms of the compiler's `__atomic` functions.
template <order O>
constexpr int host_order() {
    switch (O) {
        case order::relaxed: return __ATOMIC_RELAXED;
        case order::acquire: return __ATOMIC_ACQUIRE;
        case order::release: return __ATOMIC_RELEASE;
        default: return __ATOMIC_ACQ_REL;
    }
}

/// The order of a failed compare-and-swap: `O` without its release part.
template <order O>
inline constexpr order failure_order = (O == order::acquire || O == order::acq_rel) ? order::acquire : order::relaxed;

}  // namespace detail

/// A shared word of 32 or 64 bits. Every access states its order. It is trivially copyable, so that the host can copy
/// whole arrays between memories; zero bytes have the value 0.
///
/// On CUDA, the word must lie in global memory (device memory, or host memory that the device can access), neither in
/// shared memory nor on a thread's stack. Cost on CUDA: one instruction for each access. An atomic whose result is not
/// used becomes a reduction, without a round trip.
template <class T, scope S>
class atomic {
    static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>);
    // Only tests of the weak memory have words of a block.
    static_assert(S == scope::device || S == scope::system || !ORCHARD_CUDA_PASS);

public:
    using records_itself = void;  // see touch.cuh

    /// Leaves the value as the memory has it.
    atomic() = default;
    ORCHARD_FN explicit constexpr atomic(T value) : value_{value} {}

    /// Returns the value. `O` is relaxed or acquire. `where` is the caller's place, for traces and errors, here and in
    /// all functions below.
    template <order O>
    [[nodiscard]] ORCHARD_INLINE T load([[maybe_unused]] site where = site::here()) const {
#if ORCHARD_CUDA_PASS
        return ptx::load<S, O>(&value_);
#else
        if (simulated()) {
            return static_cast<T>(emulated::current_simulation->load(access(O, where)));
        }
        emulated::on_access(emulated::access::load, S, &value_);
        return __atomic_load_n(&value_, detail::host_order<O>());
#endif
    }
    /// As a relaxed load, but on CUDA the L1 cache may answer, with a value that the word had some time ago. Nothing
    /// says how long ago; each acquire of a thread of the multiprocessor empties the cache. For hints that many warps
    /// read and few change: relaxed loads of one word by all warps are limited by the slice of the L2 cache that holds
    /// the word.
    [[nodiscard]] ORCHARD_INLINE T load_cached([[maybe_unused]] site where = site::here()) const {
#if ORCHARD_CUDA_PASS
        return ptx::load<scope::block, order::relaxed>(&value_);
#else
        return load<order::relaxed>(where);
#endif
    }
    /// Sets the value. `O` is relaxed or release.
    template <order O>
    ORCHARD_INLINE void store(T value, [[maybe_unused]] site where = site::here()) {
#if ORCHARD_CUDA_PASS
        ptx::store<S, O>(&value_, value);
#else
        if (simulated()) {
            return emulated::current_simulation->store(access(O, where), value);
        }
        emulated::on_access(emulated::access::store, S, &value_);
        __atomic_store_n(&value_, value, detail::host_order<O>());
#endif
    }

    // The read-modify-writes, by one macro: `name` is the function, `what` its `modification` in a simulation,
    // `builtin` the compiler's function on the host. Each returns the value before it. Arithmetic is modulo 2^32 or
    // 2^64.
    //
    //     fetch_add   fetch_sub   fetch_or   fetch_and   exchange (stores `value` itself)
#if ORCHARD_CUDA_PASS
#define ORCHARD_ATOMIC_FETCH(name, what, builtin)                                                                      \
    template <order O>                                                                                                 \
    __device__ __forceinline__ T name(T value, site = site::here()) {                                                  \
        return ptx::name<S, O>(&value_, value);                                                                        \
    }
#else
#define ORCHARD_ATOMIC_FETCH(name, what, builtin)                                                                      \
    template <order O>                                                                                                 \
    ORCHARD_INLINE T name(T value, site where = site::here()) {                                                        \
        if (simulated()) {                                                                                             \
            return simulate(emulated::modification::what, O, value, where);                                            \
        }                                                                                                              \
        touch();                                                                                                       \
        return builtin(&value_, value, detail::host_order<O>());                                                       \
    }
#endif
    ORCHARD_ATOMIC_FETCH(fetch_add, add, __atomic_fetch_add)
    ORCHARD_ATOMIC_FETCH(fetch_sub, subtract, __atomic_fetch_sub)
    ORCHARD_ATOMIC_FETCH(fetch_or, bit_or, __atomic_fetch_or)
    ORCHARD_ATOMIC_FETCH(fetch_and, bit_and, __atomic_fetch_and)
    ORCHARD_ATOMIC_FETCH(exchange, exchange, __atomic_exchange_n)
#undef ORCHARD_ATOMIC_FETCH

    /// Sets the word to `value` if the word is less (`raise`) or greater (`lower`). Callers may rely on the order `O`
    /// only if the word changes. On CUDA this is one atomic, which has the order in any case; on the host it is a
    /// relaxed load and, only if the word has to change, a compare-and-swap.
    template <order O>
    ORCHARD_INLINE void raise(T value, [[maybe_unused]] site where = site::here()) {
#if ORCHARD_CUDA_PASS
        ptx::fetch_max<S, O>(&value_, value);
#else
        T found = load<order::relaxed>(where);
        while (found < value && !compare_exchange<O>(found, value, where)) {
        }
#endif
    }
    template <order O>
    ORCHARD_INLINE void lower(T value, [[maybe_unused]] site where = site::here()) {
#if ORCHARD_CUDA_PASS
        ptx::fetch_min<S, O>(&value_, value);
#else
        T found = load<order::relaxed>(where);
        while (found > value && !compare_exchange<O>(found, value, where)) {
        }
#endif
    }

    /// Stores `desired` and returns true if the value is `expected`; otherwise stores the value found in `expected` and
    /// returns false. It never fails while the value is `expected` (strong). A failure has at least the order `O`
    /// without its release part.
    template <order O>
    ORCHARD_INLINE bool compare_exchange(T& expected, T desired, [[maybe_unused]] site where = site::here()) {
#if ORCHARD_CUDA_PASS
        const T old = ptx::compare_exchange<S, O>(&value_, expected, desired);
        const bool done = old == expected;
        expected = old;
        return done;
#else
        if (simulated()) {
            return simulate_compare(O, detail::failure_order<O>, expected, desired, where);
        }
        touch();
        return __atomic_compare_exchange_n(&value_, &expected, desired, false, detail::host_order<O>(),
                                           detail::host_order<detail::failure_order<O>>());
#endif
    }

    /// Performs a compare-and-swap if `wanted`. Returns the value found; `expected` if not `wanted`. Cost on CUDA:
    /// several calls in a row overlap, as long as no result is used. On CUDA for words of 64 bits only.
    template <order O>
    ORCHARD_INLINE T compare_exchange_if(bool wanted, T expected, T desired,
                                         [[maybe_unused]] site where = site::here()) {
#if ORCHARD_CUDA_PASS
        return ptx::compare_exchange_if<S, O>(wanted, &value_, expected, desired);
#else
        T found = expected;
        if (wanted) {
            compare_exchange<O>(found, desired, where);
        }
        return found;
#endif
    }

    /// Waits until the value is not `old`, as `std::atomic::wait`, and acquires. Host threads only: a lane that waited
    /// here would stop the other lanes of its host thread. In GPU code the function is empty.
    void wait(T old, site where = site::here()) const {
#if !ORCHARD_CUDA_PASS
        if (simulated()) {
            emulated::current_simulation->wait_while(access(order::acquire, where), old);
        } else {
            emulated::wait_while(&value_, old);
        }
#endif
    }
    /// Wakes the threads that wait for this word. Host threads only; call it after the change of the word.
    void notify_all() {
#if !ORCHARD_CUDA_PASS
        if (simulated()) {
            emulated::current_simulation->notify(&value_);
        } else {
            emulated::notify_all(&value_);
        }
#endif
    }

private:
#if !ORCHARD_CUDA_PASS
    /// Counts a read-modify-write.
    void touch() const { emulated::on_access(emulated::access::read_modify_write, S, &value_); }
    static bool simulated() { return emulated::current_simulation != nullptr; }
    /// Returns the description of an access, for the simulation. It takes up a pending `mutation::weaken_next`.
    [[nodiscard]] emulated::shared_access access(order o, site where) const {
        return {&value_, sizeof(T), mutation::applied(o), S, false, where};
    }
    T simulate(emulated::modification what, order o, T value, site where) {
        return static_cast<T>(emulated::current_simulation->modify(access(o, where), what, value));
    }
    /// The simulation passes values as 64 bits, whatever the word's size; hence the copy of `expected`.
    bool simulate_compare(order o, order on_failure, T& expected, T desired, site where) {
        std::uint64_t wide = expected;
        const bool done = emulated::current_simulation->compare_exchange(access(o, where), on_failure, wide, desired);
        expected = static_cast<T>(wide);
        return done;
    }
#endif

    T value_;
};

/// A word of device memory that device threads share.
template <class T>
using device_word = atomic<T, scope::device>;

/// A word of host-visible memory that host and device share. The device never performs a read-modify-write on it.
template <class T>
using host_word = atomic<T, scope::system>;

/// Two words side by side.
struct word_pair {
    std::uint64_t first;
    std::uint64_t second;
};

/// Returns the words at `at`, which is aligned to 16 B, and behind it by relaxed loads. Each is atomic by itself; they
/// have no order between them. Cost on CUDA: one instruction.
ORCHARD_INLINE word_pair load_pair(const device_word<std::uint64_t>* at, [[maybe_unused]] site where = site::here()) {
#if ORCHARD_CUDA_PASS
    word_pair both;
    ptx::load_pair(reinterpret_cast<const std::uint64_t*>(at), both.first, both.second);
    return both;
#else
    return {at[0].template load<order::relaxed>(where), at[1].template load<order::relaxed>(where)};
#endif
}

/// A value whose accesses something else orders: a barrier of the mask, or an acquire of another word. On CUDA, and on
/// the host outside of simulations, an access is an ordinary one of C++, which the compiler may move or leave out. In a
/// simulation, an access that nothing orders after an earlier conflicting one is a violation (a race).
///
/// `T` has 4 or 8 bytes, as the words of a simulation have, and converts to and from an integer.
template <class T>
class plain {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);

public:
    using records_itself = void;  // touch.cuh

    [[nodiscard]] ORCHARD_INLINE T get([[maybe_unused]] site where = site::here()) const {
#if !ORCHARD_CUDA_PASS
        if (emulated::current_simulation != nullptr) {
            return static_cast<T>(emulated::current_simulation->load(access(where)));
        }
        emulated::on_access(emulated::access::load, scope::device, &value_);
#endif
        return value_;
    }
    ORCHARD_INLINE void set(T value, [[maybe_unused]] site where = site::here()) {
#if !ORCHARD_CUDA_PASS
        if (emulated::current_simulation != nullptr) {
            return emulated::current_simulation->store(access(where), static_cast<std::uint64_t>(value));
        }
        emulated::on_access(emulated::access::store, scope::device, &value_);
#endif
        value_ = value;
    }

private:
    [[nodiscard]] emulated::shared_access access(site where) const {
        return {&value_, sizeof(T), order::relaxed, scope::device, true, where};
    }

    T value_;
};

/// The order of accesses to which `fence` gives acquire or release semantics: relaxed. The thread sanitizer does not
/// support fences; for it, the accesses themselves have these semantics.
inline constexpr order load_before_fence = ORCHARD_THREAD_SANITIZER != 0 ? order::acquire : order::relaxed;
inline constexpr order store_after_fence = ORCHARD_THREAD_SANITIZER != 0 ? order::release : order::relaxed;

/// Orders this thread's accesses before it before those after it, at scope `S`. One instruction suffices for many
/// words, while acquiring loads or releasing stores would each wait separately:
///
///     a.load<load_before_fence>();  b.load<load_before_fence>();  fence<scope::device>();    // acquires both
///     fence<scope::device>();  a.store<store_after_fence>(x);  b.store<store_after_fence>(y);    // releases by both
template <scope S>
ORCHARD_INLINE void fence([[maybe_unused]] site where = site::here()) {
#if ORCHARD_CUDA_PASS
    ptx::fence<S>();
#else
    if (emulated::current_simulation != nullptr) {
        return emulated::current_simulation->fence(S, where);
    }
#if !ORCHARD_THREAD_SANITIZER
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
#endif
}

}  // namespace orchard::simt
