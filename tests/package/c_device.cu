// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A program in C++17, and in C++20, whose kernels call the device functions of orchard/orchard.h. Built twice: with
// separable compilation and orchard::device, and without it, where orchard/replace_malloc.cuh brings the functions.
// Exit codes: 0 right; 1 wrong; 77 there is no GPU to run it on.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#if defined(C_DEVICE_IN_SOURCE)
#include <orchard/replace_malloc.cuh>
#else
#include <orchard/orchard.h>
#endif

static_assert((__cplusplus >= 202002L) == (C_DEVICE_STANDARD >= 20), "this source is compiled as another C++");

namespace {

constexpr unsigned threads = 4096;
constexpr unsigned edge_threads = 32;

/// What a thread can find wrong. The kernels count the threads by this number.
enum fault : unsigned {
    memory_without_heap,
    no_memory,
    usable_too_small,
    not_zeroed,
    lost_by_growing,
    lost_by_shrinking,
    misaligned,
    memory_for_nothing,
    memory_for_overflow,
    overwritten,
    faults
};
constexpr const char* names[faults] = {"get memory, or a size, without a heap",
                                       "get null",
                                       "have a block whose usable size is less than was asked for",
                                       "have a block of calloc that is not zero",
                                       "have a block that changed when it was enlarged",
                                       "have a block that changed when it was made smaller",
                                       "have a block that is not aligned",
                                       "get memory for 0 bytes, or for null a size",
                                       "get memory for a product that overflows",
                                       "have a block that another thread wrote to"};

__device__ void expect(bool right, fault what, unsigned* wrong) {
    if (!right) {
        atomicAdd(wrong + what, 1u);
    }
}

__device__ void fill(void* block, size_t begin, size_t end, unsigned char value) {
    auto* const p = static_cast<volatile unsigned char*>(block);
    for (size_t i = begin; i < end; ++i) {
        p[i] = value;
    }
}

/// Returns whether bytes `begin` to `end` of a block are `value`.
__device__ bool holds(const void* block, size_t begin, size_t end, unsigned char value) {
    const auto* const p = static_cast<const volatile unsigned char*>(block);
    bool right = true;
    for (size_t i = begin; i < end; ++i) {
        right = right && p[i] == value;
    }
    return right;
}

/// Expects that there is no memory: no heap was made yet, or the heap has ended.
__global__ void without_heap(unsigned* wrong) {
    void* const blocks[] = {orchard_malloc(100), orchard_calloc(4, 25), orchard_realloc(nullptr, 100),
                            orchard_aligned_alloc(256, 100)};
    bool right = orchard_usable_size(wrong) == 0;
    for (void* const block : blocks) {
        right = right && block == nullptr;
        orchard_free(block);
    }
    orchard_free(nullptr);
    orchard_note_access(wrong);
    expect(right, memory_without_heap, wrong);
}

/// Enlarges a block of 1 to 3,000 B, makes it smaller and frees it.
__device__ void resize(unsigned i, unsigned* wrong) {
    const size_t bytes = 1 + i * 37 % 3000;
    const size_t more = 4 * bytes + 5;
    const size_t less = 1 + bytes / 3;
    const auto value = static_cast<unsigned char>(1 + i % 255);
    void* block = orchard_malloc(bytes);
    expect(block != nullptr, no_memory, wrong);
    if (block == nullptr) {
        return;
    }
    expect(orchard_usable_size(block) >= bytes, usable_too_small, wrong);
    orchard_note_access(block);  // nothing of this heap moves: no effect
    fill(block, 0, bytes, value);
    void* const larger = orchard_realloc(block, more);
    expect(larger != nullptr, no_memory, wrong);
    if (larger != nullptr) {
        block = larger;
        expect(orchard_usable_size(block) >= more, usable_too_small, wrong);
        expect(holds(block, 0, bytes, value), lost_by_growing, wrong);
        fill(block, bytes, more, value);
        void* const smaller = orchard_realloc(block, less);
        expect(smaller != nullptr, no_memory, wrong);
        block = smaller != nullptr ? smaller : block;
        expect(orchard_usable_size(block) >= less, usable_too_small, wrong);
        expect(holds(block, 0, less, value), lost_by_shrinking, wrong);
    }
    orchard_free(block);
}

/// The blocks that `resize` freed are not zero, so that memory is used again here that is not.
__device__ void zeroed(unsigned i, unsigned* wrong) {
    const size_t count = 1 + i % 7;
    const size_t size = 1 + i % 301;
    void* const block = orchard_calloc(count, size);
    expect(block != nullptr, no_memory, wrong);
    if (block != nullptr) {
        expect(orchard_usable_size(block) >= count * size, usable_too_small, wrong);
        expect(holds(block, 0, count * size, 0), not_zeroed, wrong);
        fill(block, 0, count * size, 0xff);
    }
    orchard_free(block);
}

__device__ void aligned(unsigned i, unsigned* wrong) {
    const size_t bytes = 1 + i % 300;
    for (size_t alignment = 16; alignment <= 4096; alignment *= 2) {
        void* const block = orchard_aligned_alloc(alignment, bytes);
        expect(block != nullptr, no_memory, wrong);
        if (block != nullptr) {
            expect(reinterpret_cast<unsigned long long>(block) % alignment == 0, misaligned, wrong);
            expect(orchard_usable_size(block) >= bytes, usable_too_small, wrong);
            fill(block, 0, bytes, static_cast<unsigned char>(i));
            expect(holds(block, 0, bytes, static_cast<unsigned char>(i)), overwritten, wrong);
        }
        orchard_free(block);
    }
}

__global__ void calls(unsigned* wrong) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    resize(i, wrong);
    zeroed(i, wrong);
    aligned(i, wrong);
}

__global__ void edges(unsigned* wrong) {
    expect(orchard_malloc(0) == nullptr && orchard_usable_size(nullptr) == 0, memory_for_nothing, wrong);
    constexpr size_t most = ~size_t{0};
    // The products are 0, 2^64 - 3 and 2^34, each modulo 2^64.
    expect(orchard_calloc(most / 2 + 1, 2) == nullptr, memory_for_overflow, wrong);
    expect(orchard_calloc(most, 3) == nullptr, memory_for_overflow, wrong);
    expect(orchard_calloc((size_t{1} << 33) + 2, (size_t{1} << 33)) == nullptr, memory_for_overflow, wrong);
}

/// A block that a kernel leaves to the next one.
struct held_block {
    unsigned char* at;
    unsigned long long bytes;  ///< the usable ones
};

__global__ void take(held_block* held, unsigned* wrong) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    void* const block = orchard_malloc(16 + i * 61 % 2000);
    expect(block != nullptr, no_memory, wrong);
    held[i] = {static_cast<unsigned char*>(block), block != nullptr ? orchard_usable_size(block) : 0};
    fill(block, 0, held[i].bytes, static_cast<unsigned char>(i * 7));
}

__global__ void give_back(const held_block* held, unsigned* wrong) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    expect(holds(held[i].at, 0, held[i].bytes, static_cast<unsigned char>(i * 7)), overwritten, wrong);
    orchard_free(held[i].at);
}

/// Prints `text`, and what the library said last; returns false.
bool fail(const std::string& text) {
    std::fprintf(stderr, "c_device: %s; last error of the library: %s\n", text.c_str(), orchard_last_error());
    return false;
}

/// Waits for the GPU, and returns whether no kernel has failed or counted a fault.
bool right_so_far(const unsigned* wrong, const char* when) {
    unsigned counts[faults] = {};
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess || cudaMemcpy(counts, wrong, sizeof(counts), cudaMemcpyDeviceToHost) != cudaSuccess) {
        return fail(std::string(when) + ": " + cudaGetErrorString(error));
    }
    for (unsigned f = 0; f < faults; ++f) {
        if (counts[f] != 0) {
            return fail(std::string(when) + ": " + std::to_string(counts[f]) + " times threads " + names[f]);
        }
    }
    return true;
}

/// Returns a number of the default heap's statistics; -1 if it is missing.
long statistic(const std::string& name) {
    const char* const text = orchard_heap_stats(orchard_default_heap());
    const char* const found = text == nullptr ? nullptr : std::strstr(text, ('"' + name + '"').c_str());
    return found == nullptr ? -1 : std::atol(std::strchr(found, ':') + 1);
}

/// Returns whether the heap counts `live` blocks, and no invalid free.
bool counts_are_right(long live, const char* when) {
    const long allocations = statistic("allocations");
    const long frees = statistic("frees");
    const long invalid = statistic("invalid_frees");
    if (allocations <= 0 || allocations - frees != live || invalid != 0) {
        return fail(std::string(when) + ": " + std::to_string(allocations) + " allocations and " +
                    std::to_string(frees) + " frees, where " + std::to_string(live) + " blocks are live, and " +
                    std::to_string(invalid) + " invalid frees");
    }
    return true;
}

/// Returns whether no two of the blocks overlap.
bool are_disjoint(const held_block* on_device) {
    std::vector<held_block> held(threads);
    cudaMemcpy(held.data(), on_device, threads * sizeof(held_block), cudaMemcpyDeviceToHost);
    std::sort(held.begin(), held.end(), [](const held_block& a, const held_block& b) { return a.at < b.at; });
    for (unsigned i = 1; i < threads; ++i) {
        if (held[i - 1].at + held[i - 1].bytes > held[i].at) {
            return fail("the blocks of two threads overlap");
        }
    }
    return true;
}

/// Returns whether the functions do what orchard.h says, with a heap of this program.
bool with_heap(unsigned* wrong) {
    held_block* held = nullptr;
    cudaMalloc(&held, threads * sizeof(*held));
    calls<<<threads / 256, 256>>>(wrong);
    if (!right_so_far(wrong, "the functions") || !counts_are_right(0, "after the functions")) {
        return false;
    }
    if (statistic("failed_allocations") != 0) {
        return fail("requests were answered with null, and no thread has seen it");
    }
    edges<<<1, edge_threads>>>(wrong);
    take<<<threads / 256, 256>>>(held, wrong);
    if (!right_so_far(wrong, "blocks that are kept") || !are_disjoint(held) ||
        !counts_are_right(threads, "while blocks are kept")) {
        return false;
    }
    give_back<<<threads / 256, 256>>>(held, wrong);
    if (!right_so_far(wrong, "blocks that were kept") || !counts_are_right(0, "at the end")) {
        return false;
    }
    if (statistic("pages_in_use") != 0 || statistic("live_chunks") != 0) {
        return fail("nothing is allocated, and pages or chunks are in use");
    }
    return orchard_heap_validate(orchard_default_heap()) == ORCHARD_OK || fail("orchard_heap_validate");
}

bool run() {
    unsigned* wrong = nullptr;
    cudaMalloc(&wrong, faults * sizeof(*wrong));
    cudaMemset(wrong, 0, faults * sizeof(*wrong));
    without_heap<<<threads / 256, 256>>>(wrong);
    if (!right_so_far(wrong, "before orchard_init")) {
        return false;
    }
    if (orchard_default_heap() != nullptr) {
        return fail("there is a default heap before orchard_init");
    }
    if (orchard_init("capacity=1GiB") != ORCHARD_OK) {
        return fail("orchard_init");
    }
    if (orchard_init("capacity=2GiB") != ORCHARD_FAILED_PRECONDITION) {
        return fail("a second orchard_init with options does not fail as it should");
    }
    if (!with_heap(wrong)) {
        return false;
    }
    if (orchard_shutdown() != ORCHARD_OK || orchard_default_heap() != nullptr) {
        return fail("orchard_shutdown");
    }
    without_heap<<<threads / 256, 256>>>(wrong);
    return right_so_far(wrong, "after orchard_shutdown");
}

}  // namespace

int main() {
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        std::puts("c_device: no GPU, not run");
        return 77;
    }
    // A program that is linked with orchard::launch_hooks would have a heap from its first launch on.
    setenv("ORCHARD_INIT", "manual", 1);
    return run() ? 0 : 1;
}
