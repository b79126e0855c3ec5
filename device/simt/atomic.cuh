// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The SIMT seam, part 2: shared data. A word that more than one thread may touch has type `atomic` (or `plain`, where
/// something else orders its accesses), so that the emulated device sees every access.

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "device/simt/config.cuh"
#if ORCHARD_CUDA_SOURCE
#include <cuda/atomic>
#endif
#include "device/simt/emulated/hooks.hpp"
#include "device/simt/mutation.cuh"

#if defined(__SANITIZE_THREAD__)
#define ORCHARD_THREAD_SANITIZER 1
#else
#define ORCHARD_THREAD_SANITIZER 0
#endif

namespace orchard::simt {

namespace detail {

#if ORCHARD_CUDA_PASS
template <scope S>
inline constexpr cuda::thread_scope cuda_scope = S == scope::block    ? cuda::thread_scope_block
                                                 : S == scope::device ? cuda::thread_scope_device
                                                                      : cuda::thread_scope_system;
template <order O>
inline constexpr cuda::memory_order cuda_order = O == order::relaxed   ? cuda::memory_order_relaxed
                                                 : O == order::acquire ? cuda::memory_order_acquire
                                                 : O == order::release ? cuda::memory_order_release
                                                                       : cuda::memory_order_acq_rel;
#endif

template <order O>
constexpr std::memory_order host_order() {
    switch (O) {
        case order::relaxed: return std::memory_order_relaxed;
        case order::acquire: return std::memory_order_acquire;
        case order::release: return std::memory_order_release;
        default: return std::memory_order_acq_rel;
    }
}

/// The order of a failed compare-and-swap: `O` without its release half.
template <order O>
inline constexpr order failure_order = (O == order::acquire || O == order::acq_rel) ? order::acquire : order::relaxed;

}  // namespace detail

/// A shared word of 32 or 64 bits. Every access states its order. Trivially copyable, so that the host can copy whole
/// arrays of them between memories; zero bytes are the value 0.
///
/// Cost on CUDA: one instruction each; what returns a value and is not used becomes a reduction (no round trip).
template <class T, scope S>
class atomic {
    static_assert(std::is_unsigned_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));

public:
    atomic() = default;
    ORCHARD_FN explicit constexpr atomic(T value) : value_{value} {}

    template <order O>
    [[nodiscard]] ORCHARD_INLINE T load([[maybe_unused]] site where = site::here()) const {
#if ORCHARD_CUDA_PASS
        return ref().load(detail::cuda_order<O>);
#else
        if (simulated()) {
            return static_cast<T>(emulated::current_simulation->load(access(O, where)));
        }
        emulated::on_access(emulated::access::load, S);
        return ref().load(detail::host_order<O>());
#endif
    }
    template <order O>
    ORCHARD_INLINE void store(T value, [[maybe_unused]] site where = site::here()) {
#if ORCHARD_CUDA_PASS
        ref().store(value, detail::cuda_order<O>);
#else
        if (simulated()) {
            return emulated::current_simulation->store(access(O, where), value);
        }
        emulated::on_access(emulated::access::store, S);
        ref().store(value, detail::host_order<O>());
#endif
    }

#define ORCHARD_ATOMIC_FETCH(name, what)                                                                               \
    template <order O>                                                                                                 \
    ORCHARD_INLINE T name(T value, site where = site::here()) {                                                        \
        if (simulated()) {                                                                                             \
            return simulate(emulated::modification::what, O, value, where);                                            \
        }                                                                                                              \
        touch();                                                                                                       \
        return ref().name(value, rmw_order<O>());                                                                      \
    }
    ORCHARD_ATOMIC_FETCH(fetch_add, add)
    ORCHARD_ATOMIC_FETCH(fetch_sub, subtract)
    ORCHARD_ATOMIC_FETCH(fetch_or, bit_or)
    ORCHARD_ATOMIC_FETCH(fetch_and, bit_and)
    ORCHARD_ATOMIC_FETCH(exchange, exchange)
#undef ORCHARD_ATOMIC_FETCH

    /// Stores `desired` where the value is `expected`; otherwise writes the value found to `expected`.
    template <order O>
    ORCHARD_INLINE bool compare_exchange(T& expected, T desired, site where = site::here()) {
        if (simulated()) {
            return simulate_compare(O, detail::failure_order<O>, expected, desired, where);
        }
        touch();
        return ref().compare_exchange_strong(expected, desired, rmw_order<O>(), rmw_order<detail::failure_order<O>>());
    }

    /// Host threads only: waits until the value is not `old`, as `std::atomic::wait`.
    void wait(T old, site where = site::here()) const {
#if !ORCHARD_CUDA_PASS
        if (simulated()) {
            emulated::current_simulation->wait_while(access(order::acquire, where), old);
        } else {
            ref().wait(old, std::memory_order_acquire);
        }
#endif
    }
    /// Host threads only: wakes those that wait for this word.
    void notify_all() {
#if !ORCHARD_CUDA_PASS
        if (simulated()) {
            emulated::current_simulation->notify(&value_);
        } else {
            ref().notify_all();
        }
#endif
    }

private:
#if ORCHARD_CUDA_PASS
    [[nodiscard]] __device__ __forceinline__ cuda::atomic_ref<T, detail::cuda_scope<S>> ref() const {
        return cuda::atomic_ref<T, detail::cuda_scope<S>>(const_cast<T&>(value_));
    }
    template <order O>
    static __device__ constexpr cuda::memory_order rmw_order() {
        return detail::cuda_order<O>;
    }
    static __device__ __forceinline__ void touch() {}
    static __device__ constexpr bool simulated() { return false; }
    static __device__ constexpr T simulate(emulated::modification, order, T value, site) { return value; }
    static __device__ constexpr bool simulate_compare(order, order, T&, T, site) { return false; }
#else
    [[nodiscard]] std::atomic_ref<T> ref() const { return std::atomic_ref<T>(const_cast<T&>(value_)); }
    template <order O>
    static constexpr std::memory_order rmw_order() {
        return detail::host_order<O>();
    }
    static void touch() { emulated::on_access(emulated::access::read_modify_write, S); }
    static bool simulated() { return emulated::current_simulation != nullptr; }
    [[nodiscard]] emulated::shared_access access(order o, site where) const {
        return {&value_, sizeof(T), mutation::applied(o), S, false, where};
    }
    T simulate(emulated::modification what, order o, T value, site where) {
        return static_cast<T>(emulated::current_simulation->modify(access(o, where), what, value));
    }
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

/// A word of host-visible memory that host and device share. The device never reads-modifies-writes one.
template <class T>
using host_word = atomic<T, scope::system>;

/// A value whose accesses are ordered by something else (a sync of the mask, an acquire of another word).
template <class T>
class plain {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);

public:
    [[nodiscard]] ORCHARD_INLINE T get([[maybe_unused]] site where = site::here()) const {
#if !ORCHARD_CUDA_PASS
        if (emulated::current_simulation != nullptr) {
            return static_cast<T>(emulated::current_simulation->load(access(where)));
        }
        emulated::on_access(emulated::access::load, scope::device);
#endif
        return value_;
    }
    ORCHARD_INLINE void set(T value, [[maybe_unused]] site where = site::here()) {
#if !ORCHARD_CUDA_PASS
        if (emulated::current_simulation != nullptr) {
            return emulated::current_simulation->store(access(where), static_cast<std::uint64_t>(value));
        }
        emulated::on_access(emulated::access::store, scope::device);
#endif
        value_ = value;
    }

private:
    [[nodiscard]] emulated::shared_access access(site where) const {
        return {&value_, sizeof(T), order::relaxed, scope::device, true, where};
    }

    T value_;
};

/// The orders of accesses that `fence` makes acquiring or releasing: relaxed. The thread sanitizer does not follow
/// fences; for it the accesses say themselves what the fence says for them.
inline constexpr order load_before_fence = ORCHARD_THREAD_SANITIZER != 0 ? order::acquire : order::relaxed;
inline constexpr order store_after_fence = ORCHARD_THREAD_SANITIZER != 0 ? order::release : order::relaxed;

/// Orders this thread's accesses before it with those after it, at scope `S`: one instruction for many words, where an
/// acquiring load or a releasing store would each wait for itself.
template <scope S>
ORCHARD_INLINE void fence([[maybe_unused]] site where = site::here()) {
#if ORCHARD_CUDA_PASS
    cuda::atomic_thread_fence(cuda::memory_order_acq_rel, detail::cuda_scope<S>);
#else
    if (emulated::current_simulation != nullptr) {
        return emulated::current_simulation->fence(S, where);
    }
#if !ORCHARD_THREAD_SANITIZER
    std::atomic_thread_fence(std::memory_order_acq_rel);
#endif
#endif
}

}  // namespace orchard::simt
