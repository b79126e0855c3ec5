// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Hardened heaps on each device, for tests of what they find and report.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "runtime/heap/heap.hpp"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {

inline options hardened_options(device_option device, hardening level) {
    options o;
    o.device = device;
    o.capacity = segments(32);
    o.hardened = level;
    return o;
}

inline heap make_heap(device_option device, hardening level) {
    auto h = heap::create(hardened_options(device, level));
    EXPECT_TRUE(h.ok()) << h.status();
    return *std::move(h);
}

/// Its tests run on the device that is their parameter, and are skipped without a GPU if that is `cuda`.
class on_each_device : public testing::TestWithParam<device_option> {
protected:
    void SetUp() override {
        const auto choice = choose_device(GetParam());
        if (!choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
    }
};

inline std::string name_of_device(const testing::TestParamInfo<device_option>& info) {
    return info.param == device_option::cuda ? "cuda" : "emulated";
}

}  // namespace orchard::test
