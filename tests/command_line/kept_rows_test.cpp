// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Rows that a command keeps for its next call.

#include "runtime/cli/kept_rows.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace orchard::command_line {
namespace {

using nlohmann::ordered_json;

device_choice choice_of(simt::device_kind kind) {
    device_choice choice;
    choice.kind = kind;
    return choice;
}

class KeptRows : public testing::Test {
protected:
    void SetUp() override { std::filesystem::remove(file_); }
    void TearDown() override { std::filesystem::remove(file_); }
    void write(const std::string& text) const { std::ofstream(file_) << text; }
    [[nodiscard]] absl::StatusOr<ordered_json> read(const std::string& member = "") const {
        return kept_rows(file_, device_, member);
    }

    const std::string file_ = testing::TempDir() + "kept_rows_test.json";
    const device_choice device_ = choice_of(simt::device_kind::emulated);
};

TEST_F(KeptRows, AreThoseThatWereWritten) {
    const ordered_json rows{{{"a", 1}}, {{"a", 2}}};
    ASSERT_TRUE(keep_rows({true, file_}, device_, {{"rows", rows}, {"more", 3}}).ok());
    EXPECT_EQ(*read(), rows);
    EXPECT_EQ(*read("more"), rows);
    EXPECT_TRUE(absl::IsDataLoss(read("other").status()));
    EXPECT_TRUE(absl::IsInvalidArgument(kept_rows(file_, choice_of(simt::device_kind::cuda)).status()));
}

TEST_F(KeptRows, ThereAreNoneWithoutAFile) {
    EXPECT_EQ(*read(), ordered_json::array());
    EXPECT_EQ(*kept_rows("", device_), ordered_json::array());
    EXPECT_TRUE(keep_rows({true, ""}, device_, {}).ok()) << "standard output is written at the end";
}

TEST_F(KeptRows, AnotherDocumentIsRefused) {
    for (const char* text :
         {"", "3", "{}", R"({"rows": 1, "device": {"kind": "emulated"}})", R"({"rows": [], "device": "x"})",
          R"({"rows": [1], "device": {"kind": "emulated"}})", R"({"rows": []})"}) {
        write(text);
        EXPECT_TRUE(absl::IsDataLoss(read().status())) << text;
    }
    write(R"({"rows": [], "device": {"kind": 7}})");
    EXPECT_TRUE(absl::IsInvalidArgument(read().status()));
}

}  // namespace
}  // namespace orchard::command_line
