// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// As probe_replaced.cu, for the functions of orchard/orchard.h.

#include <orchard/orchard.h>

__global__ void probe(void** block) {
    orchard_free(*block);
    *block = orchard_malloc(64);
}

int main() { return 0; }
