// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The kernel of a module that first_kernel.cu loads while it runs. It is linked with the device library, so that the
// module has its own symbol orchard_root.

#include <orchard/orchard.h>

/// Counts the threads whose block of 16 to 2,056 B keeps what is written to it.
extern "C" __global__ void allocate_in_module(unsigned* right) {
    auto* const p = static_cast<volatile unsigned*>(orchard_malloc(16 + threadIdx.x * 8));
    if (p != nullptr) {
        *p = threadIdx.x;
        atomicAdd(right, *p == threadIdx.x ? 1u : 0u);
        orchard_free(const_cast<unsigned*>(p));
    }
}
