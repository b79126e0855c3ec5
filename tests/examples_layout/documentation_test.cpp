// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The examples that docs/layouts.md shows are the ones that are compiled.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <checkout.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace orchard::examples {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path root = ORCHARD_SOURCE_DIR;

std::string text_of_file(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

/// The marked lines of an example.
std::string shown_part(const std::string& name) {
    const std::string source = text_of_file(root / "examples/layout" / absl::StrCat(name, ".cu"));
    const std::string begin_mark = absl::StrCat("// [example: ", name, "]\n");
    const std::size_t begin = source.find(begin_mark);
    const std::size_t end = source.find("// [end of example]\n");
    EXPECT_NE(begin, std::string::npos) << name;
    EXPECT_NE(end, std::string::npos) << name;
    const std::size_t first = begin + begin_mark.size();
    return begin < end && end != std::string::npos ? source.substr(first, end - first) : "";
}

TEST(layout_examples_documentation, shows_what_is_compiled) {
    const std::string page = text_of_file(root / "docs/layouts.md");
    for (const char* name : {"per_thread_arrays", "hand_over"}) {
        const std::string part = shown_part(name);
        ASSERT_GT(part.size(), 500u) << name;
        EXPECT_THAT(page, HasSubstr(absl::StrCat("```cpp\n", part, "```\n")));
    }
}

TEST(layout_examples_documentation, names_every_example) {
    const std::string page = text_of_file(root / "docs/layouts.md");
    int examples = 0;
    for (const auto& entry : std::filesystem::directory_iterator(root / "examples/layout")) {
        if (entry.path().extension() == ".cu") {
            EXPECT_THAT(page, HasSubstr(absl::StrCat("| `", entry.path().filename().string(), "` |")));
            ++examples;
        }
    }
    EXPECT_EQ(examples, 4);
}

}  // namespace
}  // namespace orchard::examples
