// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What all programs of this folder have in common: arguments, repetitions, times, checks, memory, one line of results.
/// The programs differ in the allocator that the two kernels get, and in its set-up. Ranges of NVTX mark their phases,
/// without a domain, as some of the programs know nothing of Orchard: `ncu --nvtx --nvtx-include "free/" PROGRAM`.

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifndef RANDOM_SIZES
#define RANDOM_SIZES 0  // 1: the kernel that allocates knows --below; it takes more registers
#endif

struct arguments {
    unsigned n = 1000000;                   // --n: threads, each of which allocates one block
    unsigned bytes = 64;                    // --bytes: of each block
    unsigned below = 0;                     // --below: sizes are random from --bytes to less than this, else all alike
    unsigned repetitions = 30;              // --repetitions: of allocate and release
    unsigned long long limit = 0;           // --limit: cudaLimitMallocHeapSize; 0 leaves the driver's default (8 MiB)
    unsigned long long pool = 16ull << 30;  // --pool: what Gallatin sets aside
};

struct counters {
    unsigned nulls;  // requests that returned null
    unsigned wrong;  // blocks that did not hold their thread's index any more
};

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        const cudaError_t error_ = (call);                                                                             \
        if (error_ != cudaSuccess) {                                                                                   \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));                       \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (false)

/// The kernels of all programs, over an allocator that kernels get by value, with `malloc` and `free`.
template <class Heap>
__global__ void allocate_blocks(Heap heap, unsigned** blocks, counters* counts, unsigned n, unsigned bytes) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    auto* block = static_cast<unsigned*>(heap.malloc(bytes));
    if (block != nullptr) {
        *block = i;
    } else {
        atomicAdd(&counts->nulls, 1u);
    }
    blocks[i] = block;
}

#if RANDOM_SIZES
/// Returns the bytes that thread `i` asks for in a repetition: uniform, from `bytes` to less than `below`.
__device__ inline unsigned random_bytes(unsigned i, unsigned repetition, unsigned bytes, unsigned below) {
    unsigned x = i + repetition * 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    x ^= x >> 16;
    return below <= bytes ? bytes : bytes + x % (below - bytes);
}

/// As `allocate_blocks`. The last word of a block is written, too, so that blocks that overlap are found.
template <class Heap>
__global__ void allocate_of_random_size(Heap heap, unsigned** blocks, counters* counts, unsigned n, unsigned bytes,
                                        unsigned below, unsigned repetition) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    const unsigned mine = random_bytes(i, repetition, bytes, below);
    auto* block = static_cast<unsigned*>(heap.malloc(mine));
    if (block != nullptr) {
        block[mine / 4 - 1] = i;
        *block = i;
    } else {
        atomicAdd(&counts->nulls, 1u);
    }
    blocks[i] = block;
}

/// Counts blocks whose last word does not hold their thread's index any more. Not timed.
__global__ void check_ends(unsigned** blocks, counters* counts, unsigned n, unsigned bytes, unsigned below,
                           unsigned repetition) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && blocks[i] != nullptr && blocks[i][random_bytes(i, repetition, bytes, below) / 4 - 1] != i) {
        atomicAdd(&counts->wrong, 1u);
    }
}
#endif

template <class Heap>
__global__ void release_blocks(Heap heap, unsigned** blocks, counters* counts, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || blocks[i] == nullptr) {
        return;
    }
    if (*blocks[i] != i) {
        atomicAdd(&counts->wrong, 1u);
    }
    heap.free(blocks[i]);
}

inline double milliseconds() {
    using namespace std::chrono;
    return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

inline double used_mib(size_t free_before) {
    size_t free_now = 0;
    size_t total = 0;
    CHECK(cudaMemGetInfo(&free_now, &total));
    return (static_cast<double>(free_before) - static_cast<double>(free_now)) / (1 << 20);
}

/// Runs the program. `setup(arguments, heap)` makes the allocator that the kernels get, and returns false if it could
/// not.
template <class Heap, class Setup>
int run(int argc, char** argv, Setup setup) {
    Heap heap{};
    const double start = milliseconds();  // as good as the start of main: nothing is before it
    double before_main = -1;
    if (const char* exec = std::getenv("START_US")) {  // table.py: the time of day just before the program
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        before_main = std::chrono::duration<double, std::milli>(now).count() - std::strtod(exec, nullptr) / 1000;
    }
    arguments args;
    for (int i = 1; i < argc; ++i) {
        const unsigned long long value = i + 1 < argc ? std::strtoull(argv[i + 1], nullptr, 10) : 0;
        if (!std::strcmp(argv[i], "--n")) {
            args.n = static_cast<unsigned>(value);
        } else if (!std::strcmp(argv[i], "--bytes")) {
            args.bytes = static_cast<unsigned>(value);
        } else if (RANDOM_SIZES && !std::strcmp(argv[i], "--below")) {
            args.below = static_cast<unsigned>(value);
        } else if (!std::strcmp(argv[i], "--repetitions")) {
            args.repetitions = static_cast<unsigned>(value);
        } else if (!std::strcmp(argv[i], "--limit")) {
            args.limit = value;
        } else if (!std::strcmp(argv[i], "--pool")) {
            args.pool = value;
        } else {
            std::fprintf(stderr, "%s [--n N] [--bytes B]%s [--repetitions R] [--limit BYTES] [--pool BYTES]\n", argv[0],
                         RANDOM_SIZES ? " [--below B]" : "");
            return 2;
        }
        ++i;
    }
    if (args.n == 0 || args.bytes < 4 || args.repetitions == 0) {
        std::fprintf(stderr, "%s: N and R must be 1 or more, B 4 or more\n", argv[0]);
        return 2;
    }

    CHECK(cudaFree(nullptr));
    const double context = milliseconds();
    nvtxRangePushA("build");
    unsigned** blocks = nullptr;
    counters* counts = nullptr;
    CHECK(cudaMalloc(&blocks, args.n * sizeof(*blocks)));
    CHECK(cudaMalloc(&counts, sizeof(*counts)));
    CHECK(cudaMemset(counts, 0, sizeof(*counts)));
    cudaEvent_t events[3];
    for (cudaEvent_t& event : events) {
        CHECK(cudaEventCreate(&event));
    }
    size_t free_before = 0;
    size_t total = 0;
    CHECK(cudaMemGetInfo(&free_before, &total));

    const double before_setup = milliseconds();
    if (!setup(args, heap)) {
        return 1;
    }
    const double after_setup = milliseconds();
    double peak = used_mib(free_before);
    const double setup_mib = peak;
    nvtxRangePop();

    const unsigned threads = 256;
    const unsigned grid = (args.n + threads - 1) / threads;
    double start_up = 0;
    double first_host = 0;
    float allocate_ms[4] = {-1, -1, -1, -1};
    float release_ms[4] = {-1, -1, -1, -1};
    const unsigned shown[4] = {1, 3, 10, 30};
    for (unsigned repetition = 1; repetition <= args.repetitions; ++repetition) {
        nvtxRangePushA("allocate");
        const double launched = milliseconds();
        CHECK(cudaEventRecord(events[0]));
#if RANDOM_SIZES
        allocate_of_random_size<<<grid, threads>>>(heap, blocks, counts, args.n, args.bytes, args.below, repetition);
#else
        allocate_blocks<<<grid, threads>>>(heap, blocks, counts, args.n, args.bytes);
#endif
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(events[1]));
        if (repetition == 1) {
            CHECK(cudaDeviceSynchronize());
            start_up = milliseconds() - start;
            first_host = milliseconds() - launched;
        }
        CHECK(cudaDeviceSynchronize());
        nvtxRangePop();
        float time = 0;
        CHECK(cudaEventElapsedTime(&time, events[0], events[1]));
        int column = -1;
        for (int c = 0; c < 4; ++c) {
            if (shown[c] == repetition) {
                column = c;
            }
        }
        if (column >= 0) {
            allocate_ms[column] = time;
            const double used = used_mib(free_before);
            peak = used > peak ? used : peak;
        }
#if RANDOM_SIZES
        nvtxRangePushA("compute");
        check_ends<<<grid, threads>>>(blocks, counts, args.n, args.bytes, args.below, repetition);
        CHECK(cudaGetLastError());
        nvtxRangePop();
#endif
        nvtxRangePushA("free");
        CHECK(cudaEventRecord(events[1]));
        release_blocks<<<grid, threads>>>(heap, blocks, counts, args.n);
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(events[2]));
        CHECK(cudaDeviceSynchronize());
        nvtxRangePop();
        CHECK(cudaEventElapsedTime(&time, events[1], events[2]));
        if (column >= 0) {
            release_ms[column] = time;
            const double used = used_mib(free_before);
            peak = used > peak ? used : peak;
        }
    }
    counters result{};
    CHECK(cudaMemcpy(&result, counts, sizeof(result), cudaMemcpyDeviceToHost));
    std::printf(
        "name=%s n=%u bytes=%u below=%u before_main_ms=%.1f start_up_ms=%.1f context_ms=%.1f setup_ms=%.2f "
        "first_ms=%.2f",
        PROGRAM, args.n, args.bytes, args.below, before_main, start_up, context - start, after_setup - before_setup,
        first_host);
    for (int c = 0; c < 4; ++c) {
        std::printf(" allocate_%u_ms=%.4f release_%u_ms=%.4f", shown[c], allocate_ms[c], shown[c], release_ms[c]);
    }
    std::printf(" nulls=%u wrong=%u setup_mib=%.1f peak_mib=%.1f\n", result.nulls, result.wrong, setup_mib, peak);
    CHECK(cudaFree(blocks));
    CHECK(cudaFree(counts));
    return result.wrong == 0 ? 0 : 1;
}
