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

/// Returns whether launches on the `cudaStream_t` `stream` are being captured into a graph.
bool is_captured(void* stream) noexcept;

/// Binds the module whose symbol `find` names to `of`, or to no heap, on the GPU `gpu`. Errors: those of `bind_root`;
/// Internal if the symbol is not found.
absl::Status bind_module(const heap* of, orchard_find_root find, int gpu);

}  // namespace orchard::detail
