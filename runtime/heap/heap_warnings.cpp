// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Known problems of a heap on this machine, as lines for people: the problem, its consequence, the remedy.
///
///     warnings_of            from the options, the device and the way in which kernels are loaded
///     backing::warnings      from the backing's findings about the driver

#include "runtime/heap/heap_warnings.hpp"

#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/heap/heap_impl.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard {
namespace detail {
namespace {

/// Returns true if growth waits for an operation on a stream when a segment of a managed heap comes back. Such an
/// operation may wait behind the first launch of a kernel that was not loaded.
bool waits_for_streams(const options& values) { return values.discard && values.allow_oversubscription; }

}  // namespace

/// The emulated device moves no memory, and loads no kernels: the one warning is that it was chosen.
std::vector<std::string> warnings_of(const heap_circumstances& how, const options& values) {
    std::vector<std::string> all;
    if (!how.no_gpu.empty()) {
        all.push_back(absl::StrFormat(
            "the heap is on the emulated device, since the option device is auto, and %s: kernels that are launched by "
            "<<<>>> cannot use it; with the device cuda (ORCHARD_DEVICE=cuda), creating the heap fails instead",
            how.no_gpu));
    }
    if (how.device != simt::device_kind::cuda) {
        return all;
    }
    // An operation on a stream can wait behind the loading of a kernel, which waits for running kernels. These may wait
    // for memory that growth commits behind the operation: all of them then wait until a deadline.
    if (values.backing == backing_option::managed && !how.loads_kernels_eagerly && waits_for_streams(values)) {
        all.emplace_back(
            "the backing is managed, with discard and allow_oversubscription, and kernels are loaded at their first "
            "launch: after such a launch, the discard of freed memory may wait until all running kernels have ended, "
            "and requests for memory with it; call heap::preload for the kernels before any of them runs, or set "
            "CUDA_MODULE_LOADING=EAGER, or discard=false");
    }
    // A heap that was asked to be fixed needs no warning.
    if (how.asked == backing_option::automatic && values.backing == backing_option::fixed) {
        all.push_back(absl::StrFormat(
            "the GPU's driver does not map memory into reserved addresses, so that the backing is fixed: all %s of "
            "capacity are taken already, the heap does not grow and gives nothing back%s; the backing elastic fails "
            "with the driver's reason, the backing fixed asks for this",
            format_bytes(values.capacity), values.host_budget != 0 ? ", and host_budget is not used" : ""));
    }
    return all;
}

}  // namespace detail

// Documented in heap.hpp.
const device_choice& heap::device() const { return impl_->choice; }
bool heap::loads_kernels_eagerly() const { return impl_->loads_kernels_eagerly(); }
std::vector<std::string> heap::warnings() const { return impl_->warnings(); }

/// CUDA is asked each time; the answer does not change while the process runs.
bool heap::impl::loads_kernels_eagerly() const {
    return executor.kind == simt::device_kind::emulated || cuda_loads_kernels_eagerly();
}

/// The warnings that follow from the options, then those that the backing has found on this machine.
std::vector<std::string> heap::impl::warnings() const {
    const bool fell_back = ORCHARD_HAS_CUDA != 0 && values.device == device_option::automatic &&
                           executor.kind == simt::device_kind::emulated;
    std::vector<std::string> all = detail::warnings_of(
        {executor.kind, asked_backing_, loads_kernels_eagerly(), fell_back ? choice.reason : ""}, values);
    for (std::string& line : memory_->warnings()) {
        all.push_back(std::move(line));
    }
    if (!live_page_error_.ok()) {
        all.emplace_back(live_page_error_.message());
    }
    return all;
}

}  // namespace orchard
