// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Two baselines of scan_baseline.cuh:
///
///     scan                 the array is made before the time begins
///     scan_malloc_async    the host reads the sum, and makes the array by cudaMallocAsync: by the host's clock

#include "profiling/arena/allocators/scan_baseline.cuh"

namespace orchard::arena {
namespace {

outcome run_scan(const task& t) {
    device_array<char> memory;
    return run_baseline(t, [&](measurement& m, const auto& step) {
        if (memory.size() == 0) {
            memory = m.array<char>(std::uint64_t{t.what.threads} * (t.what.most + 16));
        }
        return step([&](const device_array<std::uint64_t>&) { return memory.data(); });
    });
}

#if ORCHARD_CUDA_SOURCE
/// Arrays of `cudaMallocAsync`.
struct async_arrays {
    cudaStream_t stream;

    [[nodiscard]] absl::StatusOr<void*> make(std::uint64_t bytes) const {
        void* memory = nullptr;
        const cudaError_t error = cudaMallocAsync(&memory, bytes, stream);
        return error == cudaSuccess ? absl::StatusOr<void*>(memory) : absl::InternalError(cudaGetErrorString(error));
    }
    void free(void* memory, std::uint64_t) const { cudaFreeAsync(memory, stream); }
};

const registrar async_registered{
    {{.name = "scan_malloc_async", .source = "a prefix sum and one cudaMallocAsync of all", .needs_cuda = true},
     [](const task& t) { return run_anew(t, async_arrays{static_cast<cudaStream_t>(t.on.stream)}); }}};
#endif

const registrar scan_registered{
    {{.name = "scan", .source = "a prefix sum and one array: the baseline of a work generation"}, run_scan}};

}  // namespace
}  // namespace orchard::arena
