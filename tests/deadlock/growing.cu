// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "tests/deadlock/growing.hpp"

#include <new>

#include "absl/time/clock.h"
#include "device/heap_ref.cuh"
#include "device/simt/atomic.cuh"
#include "uvm/memory/cuda_memory.hpp"

namespace orchard::test {

using detail::to_status;

/// Words through which the kernel and the host communicate without any CUDA call.
struct gate_words {
    simt::host_word<std::uint32_t> runs{0};  ///< written by the device
    simt::host_word<std::uint32_t> open{0};  ///< written by the host
    simt::host_word<std::uint32_t> over{0};  ///< written by the device
};

struct growing_state {
    simt::device_word<std::uint32_t> opened;        ///< 1: the gate is open; 2: it never was
    simt::device_word<std::uint32_t> blocks_ended;  ///< thread blocks
    simt::device_word<std::uint64_t> requests;
    simt::device_word<std::uint64_t> nulls;
    simt::device_word<std::uint64_t> longest_ns;
    simt::device_word<std::uint64_t> damaged;
};

namespace {

constexpr std::uint32_t threads_per_block = 256;
constexpr std::uint64_t gate_deadline_ns = 10'000'000'000;
constexpr std::uint64_t spread_ns = 30'000'000;     ///< time over which the rounds are spread
constexpr std::uint64_t stamp_distance = 64 << 10;  ///< bytes
constexpr absl::Duration launch_deadline = absl::Seconds(5);

/// The number of threads, and of the requests of each.
struct shape {
    std::uint32_t askers;  ///< threads that make requests
    std::uint32_t rounds;  ///< requests of each
    bool one_lane;         ///< only the first lane of each warp allocates
};

constexpr shape shape_for(std::uint64_t block_bytes) {
    constexpr std::uint64_t large = 1 << 20;
    const std::uint64_t requests = grown_bytes / block_bytes;
    const std::uint32_t rounds = block_bytes < stamp_distance ? 64 : 8;  // so that all threads run at once
    return {static_cast<std::uint32_t>(requests / rounds), rounds, block_bytes >= large};
}

struct growing_order {
    std::uint64_t block_bytes;
    shape how;
    gate_words* gate;
    growing_state* state;
    void** blocks;
};

/// Returns whether the gate was opened in time; the same to all threads of a block. Only the first block reads host
/// memory, so that the other blocks do not slow down the host's writes there.
__device__ bool wait_for_gate(const growing_order& order) {
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        order.gate->runs.store<simt::order::release>(1);
        const std::uint64_t began = simt::clock_ns();
        bool open = false;
        while (!open && simt::clock_ns() - began < gate_deadline_ns) {
            simt::pause(2'000);
            open = order.gate->open.load<simt::order::acquire>() != 0;
        }
        order.state->opened.store<simt::order::release>(open ? 1 : 2);
    }
    __shared__ std::uint32_t opened;
    if (threadIdx.x == 0) {
        const std::uint64_t began = simt::clock_ns();
        do {
            opened = order.state->opened.load<simt::order::acquire>();  // pairs with the store above
            simt::pause(1'000);
        } while (opened == 0 && simt::clock_ns() - began < 2 * gate_deadline_ns);
    }
    __syncthreads();
    return opened == 1;
}

__device__ std::uint64_t* word_at(void* block, std::uint64_t offset) {
    return reinterpret_cast<std::uint64_t*>(static_cast<char*>(block) + offset);
}

__device__ void stamp(void* block, std::uint64_t bytes, std::uint64_t value) {
    for (std::uint64_t at = 0; at < bytes; at += stamp_distance) {
        *word_at(block, at) = value;
    }
    *word_at(block, bytes - sizeof(value)) = value;
}

__device__ bool is_stamped(void* block, std::uint64_t bytes, std::uint64_t value) {
    bool right = *word_at(block, bytes - sizeof(value)) == value;
    for (std::uint64_t at = 0; at < bytes; at += stamp_distance) {
        right = right && *word_at(block, at) == value;
    }
    return right;
}

/// Makes one thread's requests, one in each round.
__device__ void make_requests(const heap_ref& heap, const growing_order& order, std::uint32_t asker) {
    std::uint64_t longest = 0;
    std::uint64_t nulls = 0;
    const std::uint64_t apart = spread_ns / order.how.rounds;
    for (std::uint32_t round = 0; round < order.how.rounds; ++round) {
        const std::uint64_t index = std::uint64_t{round} * order.how.askers + asker;
        const std::uint64_t began = simt::clock_ns();
        void* block = heap.malloc(order.block_bytes);
        const std::uint64_t took = simt::clock_ns() - began;
        longest = took > longest ? took : longest;
        order.blocks[index] = block;
        if (block == nullptr) {
            ++nulls;
        } else {
            stamp(block, order.block_bytes, index + 1);
        }
        while (simt::clock_ns() - began < apart) {
            simt::pause(20'000);
        }
    }
    order.state->longest_ns.raise<simt::order::relaxed>(longest);
    order.state->nulls.fetch_add<simt::order::relaxed>(nulls);
    order.state->requests.fetch_add<simt::order::relaxed>(order.how.rounds);
}

__global__ void grow(heap_ref heap, growing_order order) {
    const bool open = wait_for_gate(order);
    const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    const bool asks = !order.how.one_lane || threadIdx.x % simt::warp_size == 0;
    if (open && asks) {
        make_requests(heap, order, order.how.one_lane ? thread / simt::warp_size : thread);
    }
    __syncthreads();
    if (threadIdx.x == 0 && order.state->blocks_ended.fetch_add<simt::order::acq_rel>(1) + 1 == gridDim.x) {
        order.gate->over.store<simt::order::release>(1);
    }
}

/// Counts blocks that do not hold what was written to them: they were handed out twice, or are no memory of one's own.
__global__ void check_blocks(growing_order order) {
    const std::uint64_t requests = std::uint64_t{order.how.askers} * order.how.rounds;
    for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < requests; i += gridDim.x * blockDim.x) {
        void* block = order.blocks[i];
        if (block != nullptr && !is_stamped(block, order.block_bytes, i + 1)) {
            order.state->damaged.fetch_add<simt::order::relaxed>(1);
        }
    }
}

}  // namespace

absl::StatusOr<std::unique_ptr<growing>> growing::make(std::uint64_t block_bytes) {
    std::unique_ptr<growing> made(new growing(block_bytes));
    if (absl::Status status = made->allocate(); !status.ok()) {
        return status;
    }
    return made;
}

absl::Status growing::allocate() {
    const shape how = shape_for(block_bytes_);
    const std::uint64_t requests = std::uint64_t{how.askers} * how.rounds;
    void* words = nullptr;
    void* state = nullptr;
    void* blocks = nullptr;
    absl::Status status = to_status(cudaHostAlloc(&words, sizeof(gate_words), cudaHostAllocMapped), "cudaHostAlloc");
    if (status.ok()) {
        gate_ = new (words) gate_words;
        status.Update(to_status(cudaMalloc(&state, sizeof(growing_state)), "cudaMalloc"));
        state_ = static_cast<growing_state*>(state);
    }
    if (status.ok()) {
        status.Update(to_status(cudaMalloc(&blocks, requests * sizeof(void*)), "cudaMalloc"));
        blocks_ = static_cast<void**>(blocks);
    }
    if (status.ok()) {
        status.Update(to_status(cudaMemset(state_, 0, sizeof(growing_state)), "cudaMemset"));
        status.Update(to_status(cudaMemset(blocks_, 0, requests * sizeof(void*)), "cudaMemset"));
        status.Update(to_status(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
    }
    return status;
}

growing::~growing() {
    cudaFree(blocks_);
    cudaFree(state_);
    cudaFreeHost(gate_);
}

absl::Status growing::launch(const heap& from, cudaStream_t stream) {
    const shape how = shape_for(block_bytes_);
    const std::uint32_t threads = how.askers * (how.one_lane ? simt::warp_size : 1);
    const growing_order order{block_bytes_, how, gate_, state_, blocks_};
    grow<<<threads / threads_per_block, threads_per_block, 0, stream>>>(from.ref(), order);
    if (absl::Status status = to_status(cudaGetLastError(), "launch of the kernel that grows the heap"); !status.ok()) {
        return status;
    }
    const absl::Time deadline = absl::Now() + launch_deadline;
    while (gate_->runs.load<simt::order::acquire>() == 0) {
        if (absl::Now() > deadline) {
            return absl::DeadlineExceededError("the kernel that grows the heap did not begin within 5 s");
        }
    }
    return absl::OkStatus();
}

void growing::open_gate() { gate_->open.store<simt::order::release>(1); }

bool growing::is_open() const { return gate_->open.load<simt::order::acquire>() != 0; }

bool growing::is_over() const { return gate_->over.load<simt::order::acquire>() != 0; }

absl::StatusOr<grown> growing::finish() {
    const growing_order order{block_bytes_, shape_for(block_bytes_), gate_, state_, blocks_};
    absl::Status status = to_status(cudaDeviceSynchronize(), "the kernel that grows the heap");
    if (status.ok()) {
        check_blocks<<<256, threads_per_block>>>(order);
        status.Update(to_status(cudaGetLastError(), "launch of the kernel that checks the blocks"));
    }
    growing_state seen{};
    if (status.ok()) {
        status.Update(to_status(cudaMemcpy(static_cast<void*>(&seen), state_, sizeof(seen), cudaMemcpyDeviceToHost),
                                "the kernel that checks the blocks"));
    }
    if (!status.ok()) {
        return status;
    }
    return grown{seen.requests.load<simt::order::relaxed>(), seen.nulls.load<simt::order::relaxed>(),
                 seen.longest_ns.load<simt::order::relaxed>(), seen.damaged.load<simt::order::relaxed>()};
}

}  // namespace orchard::test
