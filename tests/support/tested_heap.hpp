// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Which heap the tests speak of as `heap` and `heap_ref`: the one that users do, or, in the folders that define
/// `ORCHARD_TEST_POLICIES` as 1 before they include a suite, one of any `page_policy` and the view that serves all.

#include "device/heap_ref.cuh"

#if ORCHARD_TEST_POLICIES
#include "runtime/heap.hpp"

namespace orchard::test {

using heap_ref = any_heap_ref;

class heap : public orchard::heap {
public:
    explicit heap(orchard::heap&& h) : orchard::heap(std::move(h)) {}

    static absl::StatusOr<heap> create(const options& values) {
        absl::StatusOr<orchard::heap> made = orchard::heap::create(values, page_policies::any);
        if (!made.ok()) {
            return made.status();
        }
        return heap(*std::move(made));
    }
    [[nodiscard]] heap_ref ref() const { return any_ref(); }
};

}  // namespace orchard::test
#endif
