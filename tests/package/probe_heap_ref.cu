// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// As probe_replaced.cu, for `heap_ref` with separable compilation.

#include <orchard/device.cuh>

__global__ void probe(orchard::heap_ref heap, void** block) {
    heap.free(*block);
    *block = heap.malloc(64);
}

int main() { return 0; }
