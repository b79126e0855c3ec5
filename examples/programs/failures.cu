// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A program of docs/programs.md: a kernel requests more than the heap may have, and the host learns why it got null.
///
///     kernel      256 threads ask for 1 MiB each     capacity 64 MiB: at most 64 of them get a block
///                 the others get null, and go on
///     host        on_failure      a line soon after the first failure, from a thread of the heap's
///                 last_failure    the newest failure, after the kernel
///
/// - Null is not an error of CUDA: the kernel ends normally, and `cudaMemcpy` returns success. A kernel that needs all
///   of its requests must say so itself, here by a counter.
/// - `on_failure` reports while kernels run; a program that is only interested in the end needs `last_failure` alone.
/// - A heap of this capacity fails on purpose. The failure says which budget is spent.
///
/// The program succeeds if at least 192 requests got null. docs/programs.md shows the text between the marks, and a
/// test holds the two together: a change here is made there as well.

// [program: failures]
#include <cstdio>
#include <optional>

#include <orchard/device.cuh>
#include <orchard/heap.hpp>
// [end of part]

#if ORCHARD_CUDA_SOURCE
namespace orchard::examples::failures {
// [program: failures]

/// Each thread takes a block of 1 MiB, and keeps it.
__global__ void take_all(orchard::heap_ref heap, unsigned* nulls) {
    if (heap.malloc(1 << 20) == nullptr) {
        atomicAdd(nulls, 1u);  // the kernel goes on
    }
}

int main() {
    orchard::options options;
    options.device = orchard::device_option::cuda;
    options.capacity = 64ull << 20;
    absl::StatusOr<orchard::heap> heap = orchard::heap::create(options);
    if (!heap.ok()) {
        std::fprintf(stderr, "%s\n", heap.status().ToString().c_str());
        return 1;
    }
    // In a thread of the heap's: soon after the first failure of each reason, then at most once a second.
    const auto print = [](const orchard::failure& f) { std::fprintf(stderr, "%s\n", orchard::to_text(f).c_str()); };
    if (!heap->on_failure(print).ok()) {
        return 1;
    }

    unsigned* nulls = nullptr;
    cudaMalloc(&nulls, sizeof(*nulls));
    cudaMemset(nulls, 0, sizeof(*nulls));
    take_all<<<1, 256>>>(heap->ref(), nulls);
    unsigned result = 0;
    const cudaError_t error = cudaMemcpy(&result, nulls, sizeof(result), cudaMemcpyDeviceToHost);
    cudaFree(nulls);

    const std::optional<orchard::failure> last = heap->last_failure();
    if (error != cudaSuccess || !last.has_value()) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        return 1;
    }
    std::printf("%u of 256 requests got null; the last: %s\n", result, orchard::to_text(*last).c_str());
    return result >= 192 ? 0 : 1;  // 64 blocks at most fit
}
// [end of part]
}  // namespace orchard::examples::failures
#endif
