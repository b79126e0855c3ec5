// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The list of the program's CUDA modules, and the CUDA calls that the default heaps need. Without CUDA in the build
/// there is no GPU, and the list stays empty.

#include "absl/status/status.h"
#include "runtime/default_heap/default_heap.hpp"

namespace orchard::detail {

/// Returns the calling thread's current GPU, or -1 if there is none.
int current_gpu() noexcept;

/// Lets the calling thread make CUDA calls that are not allowed while a stream of it is being captured, as long as this
/// object lives: a heap may have to be made then.
class unlimited_by_capture {
public:
    unlimited_by_capture() noexcept;
    ~unlimited_by_capture();
    unlimited_by_capture(const unlimited_by_capture&) = delete;
    unlimited_by_capture& operator=(const unlimited_by_capture&) = delete;

private:
    int before_ = 0;
};

/// Binds the module whose symbol `find` names to `of`, or to no heap, on the GPU `gpu`. Errors: those of `bind_root`;
/// Internal if the symbol is not found.
absl::Status bind_module(const heap* of, find_root find, int gpu);

}  // namespace orchard::detail
