// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Orchard's functions of orchard.h in kernels, in the default heap.
#include <orchard/orchard.h>

#include <harness.hpp>

struct default_heap {
    __device__ void* malloc(std::size_t bytes) const { return orchard_malloc(bytes); }
    __device__ void free(void* block) const { orchard_free(block); }
};

int main(int argc, char** argv) {
    return run<default_heap>(argc, argv, [](const arguments&, default_heap&) {
        if (orchard_init("device=cuda") != ORCHARD_OK) {
            std::fprintf(stderr, "%s\n", orchard_last_error());
            return false;
        }
        return true;
    });
}
