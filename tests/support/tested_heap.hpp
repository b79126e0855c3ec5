// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Which heap the tests speak of as `heap` and `heap_ref`: the one that users do, or, in the folders that define
/// `ORCHARD_TEST_POLICIES` as 1 before they include a suite, one of any published algorithm, and the view that serves
/// all.

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
    [[nodiscard]] heap_ref ref() const { return heap_ref(view()); }

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
