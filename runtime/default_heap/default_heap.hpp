// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The default heaps: one for each GPU, made when it is first needed, and used by device code that was given no heap.
///
///     default_heap()                      the host asks for it
///     detail::before_launch()             a kernel is about to be launched (orchard::replace_malloc)
///       make the heap of this GPU
///       bind_root                         for each module of the program: its symbol orchard_root gets the heap's view
///     orchard_add_module                  a module of the program announces its symbol, before main or in dlopen

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/default_heap/module_registration.cuh"
#include "runtime/heap/heap.hpp"

namespace orchard {

/// Returns the default heap of the calling thread's current GPU; makes it if there is none yet, with the options of the
/// environment (`options::from_environment`) and the device `cuda`. It lives until `end_default_heaps` or the end of
/// the process, where its threads end, and its memory is left to the driver.
///
/// Errors: those of `from_environment` and `heap::create`; those of `bind_root`. A failure is returned again by later
/// calls until `init_default_heap` succeeds. Cost: some 10 ms for the first call on each GPU.
absl::StatusOr<heap*> default_heap();

/// The same, but tries again if an earlier call failed.
absl::StatusOr<heap*> retry_default_heap();

/// Makes the default heap of the calling thread's current GPU with the options `values`, whose `device` may be
/// `emulated`: the heap then is that of the emulated device, stands for those of all GPUs, and no module is bound to
/// it. Errors: as `default_heap`; FailedPrecondition if the heap is there already.
absl::StatusOr<heap*> init_default_heap(const options& values);

/// Returns the default heap of the calling thread's current GPU. Errors: FailedPrecondition if there is none, with the
/// reason.
absl::StatusOr<heap*> existing_default_heap();

/// Ends all default heaps, after their modules were unbound, so that requests of later kernels return null. No kernel
/// may use them. Errors: those of the device.
absl::Status end_default_heaps();

/// Writes the view of `of` into a module's symbol `orchard_root`, `bytes` bytes at the device address `root`; null
/// takes the heap away. No kernel of the module may run.
///
/// Errors: InvalidArgument if `bytes` is another size than that of `heap_root`; FailedPrecondition if the module was
/// compiled for another layout, or the heap is not on a GPU; Internal with the runtime's text. Cost: three copies.
absl::Status bind_root(const heap* of, void* root, std::size_t bytes);

/// Takes the heap away from the module whose symbol `orchard_root` was bound to it at `root`, if the module is still
/// loaded and still bound to this heap; otherwise changes nothing. It reports no error: there is nothing that the
/// caller could do. No kernel of the module may run. Cost: three copies.
void unbind_root(const heap& of, void* root) noexcept;

namespace detail {

/// Prepares the launch of a kernel: makes the default heap of the current GPU, and binds the modules that are not bound
/// yet. Does nothing if the variable `ORCHARD_INIT` is "manual", or if an earlier call failed on this GPU:
/// `existing_default_heap` says why. Does nothing either while `stream` is captured: nothing runs then, and the launch
/// of the graph prepares it. Cost, if there is nothing to do: a `cudaGetDevice` and two loads.
/// @param stream  the `cudaStream_t` of the launch
void before_launch(void* stream) noexcept;

/// Ends the default heap of the current GPU, before `cudaDeviceReset` takes its memory away. A later launch makes a new
/// one.
void before_reset() noexcept;

}  // namespace detail
}  // namespace orchard
