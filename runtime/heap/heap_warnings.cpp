// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/heap/heap_warnings.hpp"

#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/heap/heap_impl.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard {
namespace detail {
namespace {

/// Returns true if handing out or returning a segment of a managed heap issues an operation on a stream. Such an
/// operation may wait behind the first launch of a kernel that was not loaded.
bool moves_memory(const options& values) {
    return values.discard || (values.prefetch && values.advice != managed_advice::cpu_resident);
}

}  // namespace

std::vector<std::string> warnings_of(const heap_circumstances& how, const options& values) {
    std::vector<std::string> all;
    if (how.device != simt::device_kind::cuda) {
        return all;
    }
    if (values.backing == backing_option::managed && !how.loads_kernels_eagerly && moves_memory(values)) {
        all.emplace_back(
            "the backing is managed and kernels are loaded at their first launch: after such a launch the operations "
            "that move managed memory may wait until all running kernels have ended, and requests for memory with "
            "them; call heap::preload for the kernels before any of them runs, or set CUDA_MODULE_LOADING=EAGER");
    }
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

bool heap::loads_kernels_eagerly() const { return impl_->loads_kernels_eagerly(); }
std::vector<std::string> heap::warnings() const { return impl_->warnings(); }

bool heap::impl::loads_kernels_eagerly() const {
    return executor.kind == simt::device_kind::emulated || cuda_loads_kernels_eagerly();
}

/// The warnings that follow from the options, then those that the backing has found on this machine.
std::vector<std::string> heap::impl::warnings() const {
    std::vector<std::string> all =
        detail::warnings_of({executor.kind, asked_backing_, loads_kernels_eagerly()}, values);
    for (std::string& line : memory_->warnings()) {
        all.push_back(std::move(line));
    }
    return all;
}

}  // namespace orchard
