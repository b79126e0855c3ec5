// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The cases of `heap_cases` that are each device's defaults, for tests that bring options of their own.

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {

inline std::vector<heap_case> default_cases(backing_option backing = backing_option::automatic) {
    std::vector<heap_case> cases;
    for (heap_case c : heap_cases()) {
        const std::string name = c.name;
        if (name == "emulated" || name == "cuda") {
            c.backing = backing;
            cases.push_back(c);
        }
    }
    return cases;
}

}  // namespace orchard::test
