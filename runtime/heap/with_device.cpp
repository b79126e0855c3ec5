// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/heap/with_device.hpp"

#if ORCHARD_HAS_CUDA
#include "device/simt/current_device.hpp"
#endif

namespace orchard {

void with_device(const simt::executor& on, const std::function<void()>& call) {
#if ORCHARD_HAS_CUDA
    const simt::current_device here(on.kind == simt::device_kind::cuda ? on.device : -1);
#else
    (void)on;
#endif
    call();
}

}  // namespace orchard
