// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Orchard, C++20: a heap that the program owns, and its heap_ref as an argument of kernels.
#include <optional>
#include <orchard/device.cuh>
#include <orchard/heap.hpp>

#include <harness.hpp>

int main(int argc, char** argv) {
    std::optional<orchard::heap> owner;
    return run<orchard::heap_ref>(argc, argv, [&](const arguments&, orchard::heap_ref& heap) {
        auto made = orchard::heap::create({.device = orchard::device_option::cuda});
        if (!made.ok()) {
            std::fprintf(stderr, "%s\n", made.status().ToString().c_str());
            return false;
        }
        owner = std::move(*made);
        heap = owner->ref();
        return true;
    });
}
