// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A CUDA program of C++17 that knows nothing of Orchard: each thread builds a list by `new`, keeps values in an array
// that it enlarges by `malloc` and `free`, and deletes all. It is linked with orchard::replace_malloc. 1,048,576 nodes
// of 16 B are more than CUDA's heap holds by default (8 MiB). Exit codes: 0 right; 1 wrong; 77 there is no GPU to run
// it on.

#include <cstdio>
#include <cstring>

namespace {

constexpr unsigned threads = 65536;
constexpr unsigned nodes = 16;

struct node {
    node* next;
    unsigned value;
};

__global__ void build(node** heads, unsigned* nulls) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    node* head = nullptr;
    for (unsigned n = 0; n < nodes; ++n) {
        node* const made = new node;
        if (made == nullptr) {
            atomicAdd(nulls, 1u);
            break;
        }
        made->next = head;
        made->value = i + n;
        head = made;
    }
    heads[i] = head;
}

__global__ void add_up(node** heads, unsigned long long* sum, unsigned* nulls) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned capacity = 2;
    unsigned length = 0;
    auto* values = static_cast<unsigned*>(malloc(capacity * sizeof(unsigned)));
    for (node* at = heads[i]; at != nullptr && values != nullptr;) {
        if (length == capacity) {
            auto* const more = static_cast<unsigned*>(malloc(2 * capacity * sizeof(unsigned)));
            if (more == nullptr) {
                break;
            }
            memcpy(more, values, capacity * sizeof(unsigned));
            free(values);
            values = more;
            capacity *= 2;
        }
        values[length++] = at->value;
        node* const next = at->next;
        delete at;
        at = next;
    }
    unsigned long long mine = 0;
    for (unsigned n = 0; n < length; ++n) {
        mine += values[n];
    }
    free(values);
    atomicAdd(length == nodes ? nulls + 1 : nulls, 1u);
    atomicAdd(sum, mine);
}

/// Holds 96 values in registers across `malloc` and across `free`, and counts those that have changed: the compiler
/// expects more of these two functions than of others (runtime/device_library/replaced_functions.cu).
__global__ void keep_registers(const unsigned* values, unsigned* changed) {
    constexpr unsigned kept = 96;
    unsigned mine[kept];
#pragma unroll
    for (unsigned n = 0; n < kept; ++n) {
        mine[n] = values[n * blockDim.x + threadIdx.x];
    }
    void* const block = malloc(16 + 8 * threadIdx.x);
    unsigned wrong = block == nullptr ? 1 : 0;
#pragma unroll
    for (unsigned n = 0; n < kept; ++n) {
        wrong += mine[n] != n * blockDim.x + threadIdx.x ? 1 : 0;
    }
    free(block);
#pragma unroll
    for (unsigned n = 0; n < kept; ++n) {
        wrong += mine[n] != n * blockDim.x + threadIdx.x ? 1 : 0;
    }
    atomicAdd(changed, wrong);
}

}  // namespace

int main() {
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        std::puts("unchanged: no GPU, not run");
        return 77;
    }
    node** heads = nullptr;
    unsigned* counts = nullptr;  // nulls and short lists; lists that are complete
    unsigned long long* sum = nullptr;
    cudaMalloc(&heads, threads * sizeof(*heads));
    cudaMalloc(&counts, 2 * sizeof(*counts));
    cudaMalloc(&sum, sizeof(*sum));
    unsigned long long right = 0;
    for (unsigned i = 0; i < threads; ++i) {
        right += static_cast<unsigned long long>(i) * nodes + nodes * (nodes - 1) / 2;
    }
    unsigned values[96 * 256];
    for (unsigned i = 0; i < 96 * 256; ++i) {
        values[i] = i;
    }
    unsigned* on_device = nullptr;
    unsigned changed = 0;
    cudaMalloc(&on_device, sizeof(values));
    cudaMemcpy(on_device, values, sizeof(values), cudaMemcpyHostToDevice);
    cudaMemset(counts, 0, sizeof(*counts));
    keep_registers<<<64, 256>>>(on_device, counts);
    cudaMemcpy(&changed, counts, sizeof(changed), cudaMemcpyDeviceToHost);
    if (changed != 0 || cudaDeviceSynchronize() != cudaSuccess) {
        std::fprintf(stderr, "unchanged: %u values in registers were changed by malloc or free, %s\n", changed,
                     cudaGetErrorString(cudaGetLastError()));
        return 1;
    }
    for (int repetition = 0; repetition < 3; ++repetition) {
        unsigned counted[2] = {};
        unsigned long long total = 0;
        cudaMemset(counts, 0, sizeof(counted));
        cudaMemset(sum, 0, sizeof(total));
        build<<<threads / 256, 256>>>(heads, counts);
        add_up<<<threads / 256, 256>>>(heads, sum, counts);
        cudaMemcpy(counted, counts, sizeof(counted), cudaMemcpyDeviceToHost);
        cudaMemcpy(&total, sum, sizeof(total), cudaMemcpyDeviceToHost);
        const cudaError_t error = cudaDeviceSynchronize();
        if (error != cudaSuccess || counted[0] != 0 || counted[1] != threads || total != right) {
            std::fprintf(stderr, "unchanged: %u wrong, %u of %u lists, sum %llu of %llu, %s\n", counted[0], counted[1],
                         threads, total, right, cudaGetErrorString(error));
            return 1;
        }
    }
    return 0;
}
