// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Selects the types that the tests call `heap` and `heap_ref`. By default these are the library's. In folders that
/// define `ORCHARD_TEST_POLICIES` as 1 before they include a suite, they are a heap of any published algorithm, and a
/// view that supports all of them.

#include "device/heap_ref.cuh"
#include "runtime/heap/heap.hpp"

#if ORCHARD_TEST_POLICIES
#include "runtime/heap/published_heap.hpp"
#include "tests/support/any_published_ref.hpp"

namespace orchard::test {

using heap_ref = any_published_ref;

/// The algorithm that serves the heaps of the case under test.
inline published_settings tested_walk;

class heap : public orchard::heap {
public:
    explicit heap(orchard::heap&& h) : orchard::heap(std::move(h)) {}

    static absl::StatusOr<heap> create(const options& values) {
        return as_tested(published_heaps::create(values, tested_walk));
    }
    static absl::StatusOr<heap> create_in(void* memory, std::uint64_t bytes, const options& values) {
        return as_tested(published_heaps::create_in(memory, bytes, values, tested_walk));
    }
    [[nodiscard]] heap_ref ref() const { return heap_ref(published_heaps::view(*this)); }

private:
    static absl::StatusOr<heap> as_tested(absl::StatusOr<orchard::heap> made) {
        if (!made.ok()) {
            return made.status();
        }
        return heap(*std::move(made));
    }
};

}  // namespace orchard::test
#endif
