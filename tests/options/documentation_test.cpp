// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <checkout.hpp>
#include <fstream>
#include <sstream>

#include "runtime/options/options.hpp"

namespace orchard {
namespace {

TEST(options_documentation, is_what_the_table_generates) {
    const std::string path = ORCHARD_SOURCE_DIR "/docs/options.md";
    std::ifstream file(path);
    ASSERT_TRUE(file) << path << " cannot be read";
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(text.str(), options_markdown()) << "run `orchard options --markdown > docs/options.md`";
}

TEST(options_documentation, has_a_line_for_each_option) {
    const std::string text = options_markdown();
    for (const option_info& info : option_table()) {
        EXPECT_THAT(text, testing::HasSubstr("| `" + info.name + "` | `" + info.variable + "` | `" + info.flag +
                                             "` | " + info.value + " | " + info.allowed + " |"));
    }
}

TEST(options_documentation, every_option_is_described_in_one_sentence) {
    for (const option_info& info : option_table()) {
        EXPECT_GT(info.help.size(), 20u) << info.name;
        EXPECT_NE(info.help.back(), '.') << info.name;
        EXPECT_EQ(info.help.find('|'), std::string::npos) << info.name << ": it would break the table";
    }
}

}  // namespace
}  // namespace orchard
