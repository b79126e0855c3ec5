// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A device-side linked structure: a hash table with 65,536 chains, into which 1,048,576 threads insert one entry each
/// by `new`; a second kernel looks all keys up, and a third deletes the chains. The entries have 16 MiB, more than the
/// 8 MiB of CUDA's heap by default.

#include "examples/unchanged/measure.hpp"

namespace {

constexpr unsigned entries = 1u << 20;
constexpr unsigned chains = 1u << 16;

struct entry {
    entry* next;
    unsigned key;
    unsigned value;
};

__host__ __device__ unsigned hash(unsigned x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

__global__ void insert(entry** heads, unchanged::counts* counts) {
    const unsigned key = blockIdx.x * blockDim.x + threadIdx.x;
    entry* const made = new entry;
    if (made == nullptr) {
        atomicAdd(&counts->nulls, 1ull);
        return;
    }
    made->key = key;
    made->value = hash(key);
    entry** const head = heads + hash(key) % chains;
    entry* expected = *head;
    for (;;) {
        made->next = expected;
        __threadfence();
        auto* const found = reinterpret_cast<entry*>(atomicCAS(reinterpret_cast<unsigned long long*>(head),
                                                               reinterpret_cast<unsigned long long>(expected),
                                                               reinterpret_cast<unsigned long long>(made)));
        if (found == expected) {
            return;
        }
        expected = found;
    }
}

__global__ void look_up(entry** heads, unchanged::counts* counts) {
    const unsigned key = blockIdx.x * blockDim.x + threadIdx.x;
    for (const entry* at = heads[hash(key) % chains]; at != nullptr; at = at->next) {
        if (at->key == key && at->value == hash(key)) {
            atomicAdd(&counts->result, static_cast<unsigned long long>(at->value));
            return;
        }
    }
}

__global__ void clear(entry** heads) {
    const unsigned chain = blockIdx.x * blockDim.x + threadIdx.x;
    for (entry* at = heads[chain]; at != nullptr;) {
        entry* const next = at->next;
        delete at;
        at = next;
    }
    heads[chain] = nullptr;
}

}  // namespace

int main(int count, char** arguments) {
    entry** heads = nullptr;
    unchanged::check(cudaMalloc(&heads, chains * sizeof(*heads)), "cudaMalloc");
    unchanged::check(cudaMemset(heads, 0, chains * sizeof(*heads)), "cudaMemset");
    return unchanged::run("linked_lists", count, arguments, [&](unchanged::counts* counts) {
        {
            const unchanged::phase now("allocate");
            insert<<<entries / 256, 256>>>(heads, counts);
        }
        {
            const unchanged::phase now("compute");
            look_up<<<entries / 256, 256>>>(heads, counts);
        }
        const unchanged::phase now("free");
        clear<<<chains / 256, 256>>>(heads);
    });
}
