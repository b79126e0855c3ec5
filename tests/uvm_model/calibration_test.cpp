// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The constants: machines by name, single constants by name=value, and rejected input.

#include "uvm/model/calibration.hpp"

#include <gtest/gtest.h>

namespace orchard::uvm_model {
namespace {

void expect_refused(std::string_view text, std::initializer_list<const char*> words) {
    const absl::StatusOr<calibration> c = parse_calibration(text);
    ASSERT_FALSE(c.ok()) << text;
    EXPECT_EQ(c.status().code(), absl::StatusCode::kInvalidArgument);
    for (const char* word : words) {
        EXPECT_NE(std::string(c.status().message()).find(word), std::string::npos) << c.status();
    }
}

TEST(calibration, every_machine_is_there_and_valid) {
    for (const std::string_view name : calibration_names()) {
        const absl::StatusOr<calibration> c = calibration_of(name);
        ASSERT_TRUE(c.ok()) << c.status();
        EXPECT_TRUE(check(*c).ok()) << check(*c);
    }
    EXPECT_EQ(calibration_of("titan_v")->utlb_faults, 56u);
    EXPECT_EQ(calibration_of("titan_v")->batch_entries, 256u);
}

TEST(calibration, text_is_read_back) {
    for (const std::string_view name : calibration_names()) {
        const calibration c = *calibration_of(name);
        const absl::StatusOr<calibration> again = parse_calibration(to_text(c), {});
        ASSERT_TRUE(again.ok()) << again.status();
        EXPECT_EQ(*again, c);
    }
}

TEST(calibration, the_text_has_every_constant_of_the_struct) {
    // 16 of 8 bytes and 14 of 4: a member that is not in the table would show here.
    std::size_t bytes = 0;
    for (const constant& entry : constants()) {
        bytes += std::holds_alternative<double calibration::*>(entry.member) ? sizeof(double) : sizeof(std::uint32_t);
        EXPECT_FALSE(entry.help.empty()) << entry.name;
    }
    EXPECT_EQ(bytes, sizeof(calibration));
}

TEST(calibration, single_constants_change_a_machine) {
    const calibration c = *parse_calibration("titan_v, batch_ns=1.5e4\n utlbs=7");
    calibration expected = *calibration_of("titan_v");
    expected.batch_ns = 15'000;
    expected.utlbs = 7;
    EXPECT_EQ(c, expected);
    EXPECT_EQ(*parse_calibration(""), *calibration_of("h200"));
    EXPECT_EQ(*parse_calibration("  ", expected), expected);
}

TEST(calibration, what_is_wrong_is_said_with_what_there_is) {
    expect_refused("a100", {"a100", "titan_v", "h200"});
    expect_refused("h200 batch=3", {"batch", "batch_ns", "utlb_faults"});
    expect_refused("batch_ns=3 titan_v", {"titan_v", "first"});
    expect_refused("batch_ns=fast", {"fast", "not a number"});
    expect_refused("batch_ns=", {"not a number"});
    expect_refused("batch_ns=-1", {"-1", "out of range"});
    expect_refused("batch_ns=nan", {"out of range"});
    expect_refused("utlbs=0", {"out of range", "1"});
    expect_refused("utlbs=1.5", {"whole"});
    expect_refused("in_bytes_per_s=0", {"out of range"});
}

}  // namespace
}  // namespace orchard::uvm_model
