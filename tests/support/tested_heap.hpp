// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Which heap the tests speak of as `heap` and `heap_ref`: the one that users do, or, in the folders that define
/// `ORCHARD_TEST_POLICIES` as 1 before they include a suite, one of any `page_policy` and the view that serves all.

#include "device/heap_ref.cuh"
#include "runtime/heap/heap.hpp"

#if ORCHARD_TEST_POLICIES

namespace orchard::test {

using heap_ref = any_heap_ref;

class heap : public orchard::heap {
public:
    explicit heap(orchard::heap&& h) : orchard::heap(std::move(h)) {}

    static absl::StatusOr<heap> create(const options& values) {
        return as_tested(orchard::heap::create(values, page_policies::any));
    }
    static absl::StatusOr<heap> create_in(void* memory, std::uint64_t bytes, const options& values) {
        return as_tested(orchard::heap::create_in(memory, bytes, values, page_policies::any));
    }
    [[nodiscard]] heap_ref ref() const { return any_ref(); }

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
