// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The functions of a cubin, found by their place.

#include "profiling/profile/cubin_symbols.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/profile/programs/cubin.hpp"

namespace orchard::profiling {
namespace {

const std::string cubin =
    test::make_cubin("walk", {{"walk", 0, 0x400}, {"$walk$_Z1fv", 0x200, 0x100}, {"_Z1gv", 0x300, 0x80}});

TEST(cubin_symbols, a_sample_is_in_the_function_at_its_place) {
    cubin_symbols all;
    all.add(7, cubin);
    EXPECT_EQ(all.function_at(7, "walk", 0), "walk");
    EXPECT_EQ(all.function_at(7, "walk", 0x1ff), "walk");
    EXPECT_EQ(all.function_at(7, "walk", 0x200), "_Z1fv");
    EXPECT_EQ(all.function_at(7, "walk", 0x2ff), "_Z1fv");
    EXPECT_EQ(all.function_at(7, "walk", 0x310), "_Z1gv");
    EXPECT_EQ(all.function_at(7, "walk", 0x3f0), "walk");
}

TEST(cubin_symbols, what_is_not_known_counts_as_the_kernel) {
    cubin_symbols all;
    all.add(7, cubin);
    EXPECT_EQ(all.function_at(7, "walk", 0x1000), "walk");
    EXPECT_EQ(all.function_at(7, "run", 0x200), "run");
    EXPECT_EQ(all.function_at(8, "walk", 0x200), "walk");
}

TEST(cubin_symbols, modules_are_told_apart_and_may_be_loaded_again) {
    cubin_symbols all;
    all.add(7, cubin);
    all.add(8, test::make_cubin("walk", {{"walk", 0, 0x200}, {"$walk$_Z1hv", 0x200, 0x100}}));
    all.add(7, cubin);
    EXPECT_EQ(all.function_at(7, "walk", 0x200), "_Z1fv");
    EXPECT_EQ(all.function_at(8, "walk", 0x200), "_Z1hv");
}

// Run with the address sanitizer, too: no byte outside of the file is read.
TEST(cubin_symbols, a_file_that_is_cut_off_or_changed_does_no_harm) {
    for (std::size_t bytes = 0; bytes < cubin.size(); ++bytes) {
        cubin_symbols all;
        all.add(1, std::string(cubin, 0, bytes));
        EXPECT_EQ(all.function_at(1, "walk", 0x200), "walk") << bytes;
    }
    for (std::size_t at = 0; at < cubin.size(); ++at) {
        for (const char change : {'\x01', '\x7f', '\xff'}) {
            std::string changed = cubin;
            changed[at] = static_cast<char>(changed[at] ^ change);
            cubin_symbols all;
            all.add(1, changed);
            EXPECT_FALSE(all.function_at(1, "walk", 0x200).empty());
        }
    }
}

}  // namespace
}  // namespace orchard::profiling
