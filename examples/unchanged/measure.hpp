// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the programs of this folder share: repetitions, their times, the memory of the GPU that the program has taken,
/// and ranges of NVTX. Nothing here knows an allocator.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define UNCHANGED_HAS_NVTX 1
#else
#define UNCHANGED_HAS_NVTX 0
#endif

namespace unchanged {

/// A range in Nsight's tools, while this object lives: `ncu --nvtx --nvtx-include "free/" PROGRAM`. It holds launches,
/// whose kernels may end behind it. Nothing where the toolkit has no NVTX.
class phase {
public:
#if UNCHANGED_HAS_NVTX
    explicit phase(const char* name) { nvtxRangePushA(name); }
    ~phase() { nvtxRangePop(); }
#else
    explicit phase(const char*) {}
    ~phase() {}
#endif
    phase(const phase&) = delete;
    phase& operator=(const phase&) = delete;
};

/// Ends the program with the runtime's text if a CUDA call has failed.
inline void check(cudaError_t error, const char* what) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        std::exit(1);
    }
}

/// The numbers that a repetition counts on the GPU.
struct counts {
    unsigned long long result;  ///< the same for any order of threads and any allocator
    unsigned long long nulls;   ///< requests that got no memory
};

/// Returns the bytes of the current GPU that are free.
inline std::size_t free_bytes() {
    std::size_t available = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    return available;
}

/// Runs `repeat(counts*)`, which launches kernels, and prints the times of the first, third, tenth and settled
/// repetition, the result, and the memory that the GPU has lost since before the first launch. Returns 0; 1 if a
/// request got null, or the result differs between repetitions.
/// @param arguments  the program's: a number sets the limit of CUDA's heap in MiB, as such programs do
template <class Repeat>
int run(const char* name, int count, char** arguments, Repeat repeat) {
    if (count > 1) {
        const std::size_t mib = std::strtoull(arguments[1], nullptr, 10);
        check(cudaDeviceSetLimit(cudaLimitMallocHeapSize, mib << 20), "cudaDeviceSetLimit");
    }
    counts* device = nullptr;
    check(cudaMalloc(&device, sizeof(*device)), "cudaMalloc");
    const std::size_t before = free_bytes();
    std::size_t least = before;
    constexpr int repetitions = 20;
    std::vector<float> times;
    counts seen{};
    unsigned long long first_result = 0;
    bool right = true;
    cudaEvent_t begin{};
    cudaEvent_t end{};
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    for (int i = 0; i < repetitions; ++i) {
        check(cudaMemset(device, 0, sizeof(*device)), "cudaMemset");
        check(cudaEventRecord(begin), "cudaEventRecord");
        repeat(device);
        check(cudaEventRecord(end), "cudaEventRecord");
        check(cudaEventSynchronize(end), name);
        float ms = 0;
        check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        times.push_back(ms);
        check(cudaMemcpy(&seen, device, sizeof(seen), cudaMemcpyDeviceToHost), "cudaMemcpy");
        least = std::min(least, free_bytes());
        first_result = i == 0 ? seen.result : first_result;
        right = right && seen.nulls == 0 && seen.result == first_result;
        if (seen.nulls != 0) {
            break;
        }
    }
    std::printf("%s: result %llu, nulls %llu", name, seen.result, seen.nulls);
    if (right) {
        std::vector<float> settled(times.begin() + repetitions / 2, times.end());
        std::sort(settled.begin(), settled.end());
        std::printf(", first %.3f ms, 3rd %.3f, 10th %.3f, settled %.3f", times[0], times[2], times[9],
                    settled[settled.size() / 2]);
    }
    std::printf(", GPU memory %zu MiB\n", (before - least) >> 20);
    return right ? 0 : 1;
}

}  // namespace unchanged
