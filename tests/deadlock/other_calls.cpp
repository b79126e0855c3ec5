// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/deadlock/calls.hpp"
#include "uvm/memory/cuda_memory.hpp"

namespace orchard::test {
namespace {

using detail::to_status;

absl::StatusOr<void*> make_stream() {
    cudaStream_t made = nullptr;
    const absl::Status status = to_status(cudaStreamCreate(&made), "cudaStreamCreate");
    return status.ok() ? absl::StatusOr<void*>(made) : status;
}

absl::Status make_and_end_event() {
    cudaEvent_t made = nullptr;
    absl::Status status = to_status(cudaEventCreate(&made), "cudaEventCreate");
    if (status.ok()) {
        status.Update(to_status(cudaEventDestroy(made), "cudaEventDestroy"));
    }
    return status;
}

absl::Status copy(const bed& on, const void* from) {
    return to_status(cudaMemcpy(on.device, from, mib_bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

absl::Status copy_async(const bed& on, const void* from) {
    return to_status(cudaMemcpyAsync(on.device, from, mib_bytes, cudaMemcpyHostToDevice, on.other), "cudaMemcpyAsync");
}

absl::Status ask_for_memory() {
    std::size_t free = 0;
    std::size_t total = 0;
    return to_status(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
}

/// Sets a limit of the device to another value, back, and to the value that it has.
absl::Status set_limit(cudaLimit which) {
    std::size_t value = 0;
    absl::Status status = to_status(cudaDeviceGetLimit(&value, which), "cudaDeviceGetLimit");
    for (const std::size_t next : {value * 2, value, value}) {
        if (status.ok()) {
            status.Update(to_status(cudaDeviceSetLimit(which, next), "cudaDeviceSetLimit"));
        }
    }
    return status;
}

absl::Status check_peer() {
    int devices = 0;
    int possible = 0;
    absl::Status status = to_status(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    if (status.ok() && devices > 1) {
        status.Update(to_status(cudaDeviceCanAccessPeer(&possible, 0, 1), "cudaDeviceCanAccessPeer"));
    }
    return status.ok() && possible == 0
               ? absl::UnavailableError(absl::StrCat("needs two GPUs that reach each other; there are ", devices))
               : status;
}

absl::Status enable_and_disable_peer() {
    absl::Status status = to_status(cudaDeviceEnablePeerAccess(1, 0), "cudaDeviceEnablePeerAccess");
    if (status.ok()) {
        status.Update(to_status(cudaDeviceDisablePeerAccess(1), "cudaDeviceDisablePeerAccess"));
    }
    return status;
}

}  // namespace

call_list stream_calls(bed* on) {
    call_list calls;
    calls.push_back(making("cudaStreamCreate", 512, make_stream));
    calls.push_back(ending("cudaStreamDestroy", 256, on, make_stream, [](void* made) {
        return to_status(cudaStreamDestroy(static_cast<cudaStream_t>(made)), "cudaStreamDestroy");
    }));
    calls.push_back({"cudaEventCreate, cudaEventDestroy", unlimited, make_and_end_event});
    calls.push_back({"cudaDeviceSynchronize", unlimited,
                     [] { return to_status(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }});
    calls.push_back({"cudaStreamSynchronize", unlimited,
                     [] { return to_status(cudaStreamSynchronize(default_stream), "cudaStreamSynchronize"); }});
    return calls;
}

call_list copying_calls(bed* on) {
    call_list calls;
    calls.push_back({"cudaMemcpy pageable", unlimited, [on] { return copy(*on, on->pageable.data()); }});
    calls.push_back(
        {"cudaMemcpy pageable, another stream", unlimited, [on] { return copy(*on, on->pageable.data()); }});
    calls.back().apart = true;
    calls.push_back({"cudaMemcpy pinned", unlimited, [on] { return copy(*on, on->pinned); }});
    calls.push_back({"cudaMemcpyAsync pageable", unlimited, [on] { return copy_async(*on, on->pageable.data()); }});
    calls.push_back(
        {"cudaMemset", unlimited, [on] { return to_status(cudaMemset(on->device, 0, mib_bytes), "cudaMemset"); }});
    return calls;
}

call_list setting_calls(bed*) {
    call_list calls;
    calls.push_back({"cudaMemGetInfo", unlimited, ask_for_memory});
    calls.push_back({"cudaDeviceSetLimit printf buffer", unlimited, [] { return set_limit(cudaLimitPrintfFifoSize); }});
    calls.push_back({"cudaDeviceSetLimit malloc heap", unlimited, [] { return set_limit(cudaLimitMallocHeapSize); }});
    calls.push_back({"cudaDeviceEnablePeerAccess", unlimited, enable_and_disable_peer, check_peer});
    return calls;
}

}  // namespace orchard::test
