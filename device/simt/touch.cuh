// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The SIMT seam: accesses to elements of user memory. Those by a reference that a kernel gets are recorded on the
/// emulated device, and cost nothing on CUDA.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "device/simt/config.cuh"
#if ORCHARD_CUDA_PASS
#include "device/simt/ptx.cuh"
#else
#include "device/simt/emulated/hooks.hpp"
#endif

namespace orchard::simt {

namespace detail {
template <class T, class Record>
struct has_record : std::false_type {};
template <class T>
struct has_record<T, typename T::records_itself> : std::true_type {};
}  // namespace detail

/// True if accesses to a `T` record themselves, as those to the seam's types do; taking a reference to such an element
/// then counts as no access. A type whose members have such types declares `using records_itself = void;`.
template <class T>
inline constexpr bool records_itself = detail::has_record<std::remove_cv_t<T>, void>::value;

/// Records a reference to `element` as an access, and returns it. Cost: one check of a thread-local variable on the
/// emulated device; none on CUDA.
template <class T>
ORCHARD_INLINE T& touched(T& element) {
#if !ORCHARD_CUDA_PASS
    if constexpr (!records_itself<T>) {
        if (emulated::current_recorder != nullptr) {
            emulated::record(&element, emulated::access::load);
        }
    }
#endif
    return element;
}

#if !ORCHARD_CUDA_PASS
namespace detail {
/// The unsigned integer that an element is in a simulation, whose words have 4 or 8 bytes; `void` for others.
template <class T>
using simulated_word = std::conditional_t<sizeof(T) == 4 && alignof(T) == 4, std::uint32_t,
                                          std::conditional_t<sizeof(T) == 8 && alignof(T) == 8, std::uint64_t, void>>;
}  // namespace detail
#endif

/// Returns a copy of an element, and writes one, by the code of a container: `touched`, and in a simulation an access
/// that something else orders, as those of `plain` are, if the element has the size of a word. `T` is trivially
/// copyable.
template <class T>
[[nodiscard]] ORCHARD_INLINE T read_element(const T& element, [[maybe_unused]] site where = site::here()) {
#if !ORCHARD_CUDA_PASS
    using word = detail::simulated_word<T>;
    if constexpr (!std::is_void_v<word>) {
        if (emulated::current_simulation != nullptr) {
            const auto bits = static_cast<word>(
                emulated::current_simulation->load({&element, sizeof(T), order::relaxed, scope::device, true, where}));
            T copy;
            std::memcpy(&copy, &bits, sizeof(T));
            return copy;
        }
    }
#endif
    return touched(element);
}
template <class T>
ORCHARD_INLINE void write_element(T& element, const T& value, [[maybe_unused]] site where = site::here()) {
#if !ORCHARD_CUDA_PASS
    using word = detail::simulated_word<T>;
    if constexpr (!std::is_void_v<word>) {
        if (emulated::current_simulation != nullptr) {
            word bits = 0;
            std::memcpy(&bits, &value, sizeof(T));
            return emulated::current_simulation->store(
                {&element, sizeof(T), order::relaxed, scope::device, true, where}, bits);
        }
    }
#endif
    touched(element) = value;
}

/// Brings the memory at `address`, which must be committed, nearer to the multiprocessors: into the L2 cache on CUDA.
/// It waits for nothing, and is no access. Cost: an instruction; nothing on the emulated device.
ORCHARD_INLINE void prefetch([[maybe_unused]] const void* address) {
#if ORCHARD_CUDA_PASS
    ptx::prefetch(address);
#endif
}

}  // namespace orchard::simt
