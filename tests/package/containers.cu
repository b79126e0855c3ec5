// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A user's program with containers that a kernel fills. Compiled as C++17, it has the kernel alone. Exit codes: 0
// right; 1 wrong; 77 there is no GPU to run it on.

#include <cstdio>
#include <orchard/array_list.cuh>
#include <orchard/monotonic_buffer.cuh>
#include <orchard/work_queue.cuh>

namespace {

struct node {
    unsigned number;
    node* next;
};

}  // namespace

/// Each thread passes its number through the queue to any thread, which makes a node of it and lists the node.
__global__ void fill(orchard::work_queue_ref<unsigned> queue, orchard::monotonic_buffer_ref nodes,
                     orchard::array_list_ref<node*> list) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    bool ok = queue.push(i);
    unsigned got = 0;
    while (ok && queue.pop(got)) {
        node* const made = nodes.make<node>(node{got, nullptr});
        ok = made != nullptr && list.push_back(made) != nullptr;
    }
}

__global__ void sum(orchard::array_list_ref<node*> list, unsigned long long* result) {
    list.for_each_grid([&](unsigned long long, node*& n) { atomicAdd(result, n->number); });
}

#if __cplusplus >= 202002L

#include <orchard/heap.hpp>

int main() {
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        std::puts("containers: no GPU, not run");
        return 77;
    }
    constexpr unsigned threads = 1 << 16;
    auto heap = orchard::heap::create({.device = orchard::device_option::cuda});
    if (!heap.ok()) {
        std::fprintf(stderr, "containers: %s\n", heap.status().ToString().c_str());
        return 1;
    }
    auto queue = orchard::work_queue<unsigned>::create(*heap);
    auto nodes = orchard::monotonic_buffer::create(*heap);
    auto list = orchard::array_list<node*>::create(*heap);
    if (!queue.ok() || !nodes.ok() || !list.ok()) {
        std::fprintf(stderr, "containers: they were not created\n");
        return 1;
    }
    unsigned long long* result = nullptr;
    cudaMalloc(&result, sizeof(*result));
    cudaMemset(result, 0, sizeof(*result));
    fill<<<threads / 256, 256>>>(queue->ref(), nodes->ref(), list->ref());
    fill<<<1, 1>>>(queue->ref(), nodes->ref(), list->ref());  // what the last threads have missed, and 0 once more
    sum<<<32, 256>>>(list->ref(), result);
    unsigned long long found = 0;
    cudaMemcpy(&found, result, sizeof(found), cudaMemcpyDeviceToHost);
    const auto size = list->size();
    constexpr unsigned long long expected = std::uint64_t{threads} * (threads - 1) / 2;
    if (!size.ok() || *size != threads + 1 || found != expected || cudaDeviceSynchronize() != cudaSuccess) {
        std::fprintf(stderr, "containers: %llu elements with the sum %llu, expected %u and %llu\n",
                     size.ok() ? static_cast<unsigned long long>(*size) : 0, found, threads + 1, expected);
        return 1;
    }
    return 0;
}

#endif
