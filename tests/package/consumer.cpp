// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A user's program: a kernel on the emulated device whose threads allocate, write, check and free, in a heap of its own
// memory, in one in memory of a resource, and in the default heap.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory_resource>
#include <orchard/device.cuh>
#include <orchard/graph.cuh>
#include <orchard/heap.hpp>
#include <orchard/neighbours/memory_resource.hpp>
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

/// Ordinary memory, as a resource.
struct pmr_source {
    std::pmr::memory_resource* from;

    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) const {
        return from->allocate(bytes, alignment);
    }
    void deallocate(void* memory, std::size_t bytes, std::size_t alignment) const {
        from->deallocate(memory, bytes, alignment);
    }
};

/// Runs the kernel in a heap; returns what went wrong, or an empty text.
std::string use(orchard::heap& heap) {
    orchard::simt::device_word<std::uint32_t> passed{0};
    const orchard::simt::launch_result result =
        orchard::simt::launch(heap.executor(), {4, 64}, allocate_write_free{heap.ref(), &passed});
    if (!result.ok) {
        return result.error;
    }
    const std::uint32_t count = passed.load<orchard::simt::order::relaxed>();
    const absl::Status valid = heap.validate();
    if (!valid.ok()) {
        return valid.ToString();
    }
    return count == 256 ? "" : std::to_string(count) + " of 256 threads passed";
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
    const auto supplied = orchard::create_in_resource(pmr_source{std::pmr::new_delete_resource()}, 64u << 20, options);
    if (!supplied.ok()) {
        return fail(supplied.status().ToString());
    }
    for (orchard::heap* const each : {&*heap, &**supplied}) {
        if (const std::string wrong = use(*each); !wrong.empty()) {
            return fail(wrong);
        }
    }
    const auto made = orchard::init_default_heap(options);
    const auto found = orchard::default_heap();
    if (!made.ok() || !found.ok() || *made != *found) {
        return fail("the default heap: " + (made.ok() ? found.status() : made.status()).ToString());
    }
    if (const std::string wrong = use(**found); !wrong.empty()) {
        return fail(wrong);
    }
    return orchard::end_default_heaps().ok() ? 0 : fail("end_default_heaps");
}
