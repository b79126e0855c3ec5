// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "tests/deadlock/calls.hpp"
#include "uvm/memory/cuda_memory.hpp"

namespace orchard::test {
namespace {

using detail::to_status;

constexpr std::uint64_t piece_bytes = 64 << 10;  ///< size that is registered at once

absl::StatusOr<void*> take(std::uint64_t bytes) {
    void* made = nullptr;
    const absl::Status status = to_status(cudaMalloc(&made, bytes), "cudaMalloc");
    return status.ok() ? absl::StatusOr<void*>(made) : status;
}

absl::StatusOr<void*> take_async(const bed& on) {
    void* made = nullptr;
    const absl::Status status = to_status(cudaMallocAsync(&made, mib_bytes, on.other), "cudaMallocAsync");
    return status.ok() ? absl::StatusOr<void*>(made) : status;
}

absl::StatusOr<void*> take_pinned() {
    void* made = nullptr;
    const absl::Status status = to_status(cudaMallocHost(&made, mib_bytes), "cudaMallocHost");
    return status.ok() ? absl::StatusOr<void*>(made) : status;
}

absl::StatusOr<void*> take_mapped() {
    void* made = nullptr;
    const absl::Status status = to_status(cudaHostAlloc(&made, mib_bytes, cudaHostAllocMapped), "cudaHostAlloc");
    return status.ok() ? absl::StatusOr<void*>(made) : status;
}

/// Registers the next piece of the pageable memory.
thing_maker registering(bed* on, int pieces) {
    return [on, pieces, next = std::uint64_t{0}]() mutable -> absl::StatusOr<void*> {
        on->pageable.resize(static_cast<std::uint64_t>(pieces + 1) * piece_bytes);  // once
        char* begin = on->pageable.data();
        begin += piece_bytes - reinterpret_cast<std::uintptr_t>(begin) % piece_bytes;
        void* piece = begin + piece_bytes * next++;
        const absl::Status status =
            to_status(cudaHostRegister(piece, piece_bytes, cudaHostRegisterDefault), "cudaHostRegister");
        return status.ok() ? absl::StatusOr<void*>(piece) : status;
    };
}

absl::Status take_and_free_managed() {
    constexpr std::uint64_t managed_bytes = 16 * mib_bytes;
    void* made = nullptr;
    absl::Status status = to_status(cudaMallocManaged(&made, managed_bytes, cudaMemAttachGlobal), "cudaMallocManaged");
    if (status.ok()) {
        status.Update(to_status(cudaFree(made), "cudaFree of managed memory"));
    }
    return status;
}

}  // namespace

call_list memory_calls(bed* on) {
    const auto free = [](void* p) { return to_status(cudaFree(p), "cudaFree"); };
    constexpr std::uint64_t bytes = 4 * mib_bytes;
    call_list calls;
    calls.push_back(making("cudaMalloc", 512, [] { return take(bytes); }));
    calls.push_back(ending(
        "cudaFree", 64, on, [] { return take(bytes); }, free));
    calls.push_back(ending(
        "cudaFree, all reserved before", 64, on, [] { return take(bytes); }, free));
    calls.back().reserved = true;
    calls.push_back(making("cudaMallocAsync", 2048, [on] { return take_async(*on); }));
    calls.push_back(ending(
        "cudaFreeAsync", 1024, on, [on] { return take_async(*on); },
        [on](void* p) { return to_status(cudaFreeAsync(p, on->other), "cudaFreeAsync"); }));
    calls.push_back({"cudaMallocManaged with its cudaFree", unlimited, take_and_free_managed});
    return calls;
}

call_list pinning_calls(bed* on) {
    const auto unpin = [](void* p) { return to_status(cudaFreeHost(p), "cudaFreeHost"); };
    constexpr int most = 256;
    call_list calls;
    calls.push_back(making("cudaMallocHost", most, take_pinned));
    calls.push_back(ending("cudaFreeHost", 64, on, take_pinned, unpin));
    calls.push_back(making("cudaHostAlloc", most, take_mapped));
    calls.push_back(making("cudaHostRegister", 1024, registering(on, 1024)));
    // Touches all pages, so that the measured call does not touch one for the first time.
    calls.back().prepare = [on] {
        on->pageable.resize(1025 * piece_bytes);
        return absl::OkStatus();
    };
    calls.push_back(ending("cudaHostUnregister", most, on, registering(on, most),
                           [](void* p) { return to_status(cudaHostUnregister(p), "cudaHostUnregister"); }));
    return calls;
}

}  // namespace orchard::test
