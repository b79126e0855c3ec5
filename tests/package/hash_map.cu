// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Kernels that use hash maps and sets, and, in C++20, the host code that owns them. Compiled, not run.

#include <orchard/hash_map.cuh>

namespace {

/// A key of the program's own.
struct edge {
    unsigned from;
    unsigned to;
};

struct one_more {
    __device__ unsigned operator()(unsigned n) const { return n + 1; }
};

__global__ void count(orchard::hash_map_ref<unsigned long long, unsigned> map, orchard::hash_set_ref<edge> set,
                      unsigned* right) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    bool ok = map.upsert(i / 2, 1, one_more()) != orchard::map_result::no_memory;
    ok = ok && set.insert({i, i + 1}) == orchard::map_result::inserted && set.contains({i, i + 1});
    unsigned found = 0;
    ok = ok && map.find(i / 2, found) && found != 0 && set.erase({i, i + 1});
    map.for_each(i, gridDim.x * blockDim.x, [&](unsigned long long, unsigned n) { found += n; });
    atomicAdd(right, ok && map.size() != 0 ? 1u : found);
}

}  // namespace

void count_all(orchard::hash_map_ref<unsigned long long, unsigned> map, orchard::hash_set_ref<edge> set,
               unsigned* right) {
    count<<<16, 256>>>(map, set, right);
}

#if __cplusplus >= 202002L
unsigned long long keys_after(const orchard::heap& heap, unsigned* right) {
    auto map = orchard::hash_map<unsigned long long, unsigned>::create(heap);
    auto set = orchard::hash_set<edge>::create(heap, 80);
    if (!map.ok() || !set.ok()) {
        return 0;
    }
    count_all(map->ref(), set->ref(), right);
    const auto keys = map->size();
    return keys.ok() ? *keys : 0;
}
#endif
