// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A user's program: a kernel on the emulated device whose threads allocate, write, check and free.

#include <cstdint>
#include <cstdio>
#include <orchard/device.cuh>
#include <orchard/heap.hpp>
#include <string>

namespace {

struct allocate_write_free {
    orchard::heap_ref heap;
    orchard::simt::device_word<std::uint32_t>* passed;

    ORCHARD_FN void operator()(orchard::simt::thread_position at) const {
        const auto mine = static_cast<std::uint32_t>(at.global_thread());
        auto* p = static_cast<std::uint32_t*>(heap.malloc(100));
        if (p == nullptr) {
            return;
        }
        p[0] = p[24] = mine;
        if (p[0] == mine && p[24] == mine && heap.owns(p)) {
            passed->fetch_add<orchard::simt::order::relaxed>(1);
        }
        heap.free(p);
    }
};

int fail(const std::string& what) {
    std::fprintf(stderr, "consumer: %s\n", what.c_str());
    return 1;
}

}  // namespace

int main() {
    orchard::options options;
    options.device = orchard::device_option::emulated;
    options.capacity = 64u << 20;
    absl::StatusOr<orchard::heap> heap = orchard::heap::create(options);
    if (!heap.ok()) {
        return fail(heap.status().ToString());
    }
    orchard::simt::device_word<std::uint32_t> passed{0};
    const orchard::simt::launch_result result =
        orchard::simt::launch(heap->executor(), {4, 64}, allocate_write_free{heap->ref(), &passed});
    if (!result.ok) {
        return fail(result.error);
    }
    const std::uint32_t count = passed.load<orchard::simt::order::relaxed>();
    const absl::Status valid = heap->validate();
    if (!valid.ok()) {
        return fail(valid.ToString());
    }
    return count == 256 ? 0 : fail(std::to_string(count) + " of 256 threads passed");
}
