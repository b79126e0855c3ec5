// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A program of docs/programs.md: one heap for results, one heap for temporary memory, which is then released.
///
///     results    64 MiB    one float for each thread            stays
///     scratch    2 GiB     16 KiB for each thread, and freed    trim: unused memory goes back to the GPU
///                                                               reset: the heap is destroyed, all its memory goes back
///
/// - The kernel gets both views, and frees each block in the heap that it comes from.
/// - Each heap has a budget of its own: temporary memory cannot take the memory of the results.
/// - The optional allows one heap to end before the other, while the program goes on.
///
/// The program succeeds if no request of the scratch heap failed and every thread has allocated its result.
/// docs/programs.md shows the text between the marks, and a test holds the two together.

// [program: two_heaps]
#include <cstdio>
#include <optional>

#include <orchard/device.cuh>
#include <orchard/heap.hpp>
// [end of part]

#if ORCHARD_CUDA_SOURCE
namespace orchard::examples::two_heaps {
// [program: two_heaps]

/// Each thread works in a block of one heap and keeps its result in the other one.
__global__ void work(orchard::heap_ref results, orchard::heap_ref scratch, float** kept) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    constexpr unsigned count = 4096;
    auto* values = static_cast<float*>(scratch.malloc(count * sizeof(float)));
    auto* result = static_cast<float*>(results.malloc(sizeof(float)));
    if (values != nullptr && result != nullptr) {
        for (unsigned n = 0; n < count; ++n) {
            values[n] = static_cast<float>((i + n) % 3);
        }
        *result = values[i % count];
    }
    scratch.free(values);
    kept[i] = result;
}

int main() {
    orchard::options options;
    options.device = orchard::device_option::cuda;
    options.capacity = 64ull << 20;
    absl::StatusOr<orchard::heap> results = orchard::heap::create(options);
    options.capacity = 2ull << 30;
    absl::StatusOr<orchard::heap> made = orchard::heap::create(options);
    if (!results.ok() || !made.ok()) {
        const absl::Status why = results.ok() ? made.status() : results.status();
        std::fprintf(stderr, "%s\n", why.ToString().c_str());
        return 1;
    }
    std::optional<orchard::heap> scratch = *std::move(made);

    constexpr unsigned blocks = 128;
    constexpr unsigned threads = 256;
    float** kept = nullptr;
    cudaMalloc(&kept, blocks * threads * sizeof(float*));
    work<<<blocks, threads>>>(results->ref(), scratch->ref(), kept);
    const cudaError_t error = cudaDeviceSynchronize();

    const absl::StatusOr<orchard::statistics> before = scratch->stats();
    const absl::Status trimmed = scratch->trim();  // gives unused memory back to the GPU; the heap goes on
    const absl::StatusOr<orchard::statistics> after = scratch->stats();
    scratch.reset();  // gives everything back: no kernel uses this heap any more
    const absl::StatusOr<orchard::statistics> left = results->stats();
    cudaFree(kept);
    if (error != cudaSuccess || !before.ok() || !trimmed.ok() || !after.ok() || !left.ok()) {
        std::fprintf(stderr, "%s; %s\n", cudaGetErrorString(error), trimmed.ToString().c_str());
        return 1;
    }
    const auto mib = [](std::uint64_t bytes) { return static_cast<unsigned long long>(bytes >> 20); };
    std::printf("scratch: %llu MiB committed, %llu after trim; results: %llu blocks\n", mib(before->committed_bytes),
                mib(after->committed_bytes), static_cast<unsigned long long>(left->allocations - left->frees));
    return before->failed_allocations == 0 && left->allocations == blocks * threads ? 0 : 1;
}
// [end of part]
}  // namespace orchard::examples::two_heaps
#endif
