// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A kernel as a function object, for a GPU and for the emulated device. docs/programs.md shows the text between the
/// marks (`orchard programs both_devices` runs it), and a test holds the two together.
///
///     heap::create(options{})     chooses the device: a GPU if one is usable, else the emulated one
///     heap->executor()            names that device; `simt::launch` runs the kernel there and waits for it
///     make_lists                  one source for both: ORCHARD_FN instead of __global__, `at` instead of threadIdx

// [program: both_devices]
#include <cstdint>
#include <cstdio>

#include <orchard/device.cuh>
#include <orchard/heap.hpp>
// [end of part]

namespace orchard::examples::both_devices {
// [program: both_devices]

struct make_lists {
    orchard::heap_ref heap;

    ORCHARD_FN void operator()(orchard::simt::thread_position at) const {
        const std::uint32_t length = 4 + at.thread % 61;
        auto* list = static_cast<std::uint32_t*>(heap.malloc(length * sizeof(std::uint32_t)));
        if (list != nullptr) {
            list[length - 1] = length;
            heap.free(list);
        }
    }
};

int main() {
    absl::StatusOr<orchard::heap> heap = orchard::heap::create(orchard::options{});
    if (!heap.ok()) {
        std::fprintf(stderr, "%s\n", heap.status().ToString().c_str());
        return 1;
    }
    const orchard::simt::launch_result done =
        orchard::simt::launch(heap->executor(), {400, 256}, make_lists{heap->ref()});
    if (!done.ok) {
        std::fprintf(stderr, "%s\n", done.error.c_str());
        return 1;
    }
    return 0;
}
// [end of part]
}  // namespace orchard::examples::both_devices
