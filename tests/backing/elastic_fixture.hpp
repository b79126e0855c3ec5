// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Code that the tests of the elastic backing share.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/fake_driver.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

using rig::driver_call;
using rig::driver_live;
using rig::driver_script;
using rig::fake_driver;

inline segment_run run_at(std::uint32_t first, std::uint32_t count) { return {segment_index{first}, count}; }

inline void touch(const char* p) { (void)*static_cast<const volatile char*>(p); }
inline void write_to(char* p) { *static_cast<volatile char*>(p) = 1; }

inline bool all_zero(const void* memory, std::size_t bytes) {
    const auto* p = static_cast<const unsigned char*>(memory);
    return std::all_of(p, p + bytes, [](unsigned char c) { return c == 0; });
}

inline void expect_text(const absl::Status& status, std::initializer_list<std::string> parts) {
    for (const std::string& part : parts) {
        EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << part << " in: " << status;
    }
}

/// Provides backings whose driver follows `script`.
class ElasticBacking : public testing::Test {
protected:
    std::unique_ptr<backing> make(std::uint64_t device_segments, std::uint64_t host_segments,
                                  std::uint64_t range = 16) {
        auto made = make_elastic_backing(
            std::make_unique<fake_driver>(script),
            {range * segment_bytes, device_segments * segment_bytes, host_segments * segment_bytes});
        EXPECT_TRUE(made.ok()) << made.status();
        return *std::move(made);
    }

    std::shared_ptr<driver_script> script = std::make_shared<driver_script>();
};

}  // namespace orchard
