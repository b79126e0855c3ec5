// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The SIMT seam: accesses to elements of user memory. Those by a reference that a kernel gets are recorded on the
/// emulated device, and cost nothing on CUDA.

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

/// Brings the memory at `address`, which must be committed, nearer to the multiprocessors: into the L2 cache on CUDA.
/// It waits for nothing, and is no access. Cost: an instruction; nothing on the emulated device.
ORCHARD_INLINE void prefetch([[maybe_unused]] const void* address) {
#if ORCHARD_CUDA_PASS
    ptx::prefetch(address);
#endif
}

}  // namespace orchard::simt
