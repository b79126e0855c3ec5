// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Orchard, C++17: the heap is made through orchard.h, and kernels get its heap_ref.
#include <orchard/orchard.h>
#include <orchard/device.cuh>

#include <harness.hpp>

int main(int argc, char** argv) {
    orchard_heap* owner = nullptr;
    const int code = run<orchard::heap_ref>(argc, argv, [&](const arguments&, orchard::heap_ref& heap) {
        if (orchard_heap_create("device=cuda", &owner) != ORCHARD_OK ||
            orchard_heap_ref(owner, &heap, sizeof(heap)) != ORCHARD_OK) {
            std::fprintf(stderr, "%s\n", orchard_last_error());
            return false;
        }
        return true;
    });
    orchard_heap_destroy(owner);
    return code;
}
