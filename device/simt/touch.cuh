// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The SIMT seam: elements of user memory that a kernel is given a reference to, so that the emulated device can record
/// them. Nothing at all on CUDA.

#include <type_traits>

#include "device/simt/config.cuh"
#if !ORCHARD_CUDA_PASS
#include "device/simt/emulated/hooks.hpp"
#endif

namespace orchard::simt {

/// Whether the accesses of a `T` are recorded by itself, as those of the seam's types are: then following a pointer to
/// one is none. A type whose members are of such types says so: `using records_itself = void;`.
template <class T>
inline constexpr bool records_itself = requires {
    typename std::remove_cv_t<T>::records_itself;
};

/// `element`, which is about to be accessed. Cost on the emulated device: a look at a thread's variable; on CUDA: none.
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

}  // namespace orchard::simt
