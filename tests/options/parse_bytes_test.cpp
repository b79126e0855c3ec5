// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "runtime/options/byte_size.hpp"

namespace orchard {
namespace {

using testing::HasSubstr;

TEST(parse_bytes, reads_every_unit) {
    EXPECT_EQ(parse_bytes("0").value(), 0u);
    EXPECT_EQ(parse_bytes("4096").value(), 4096u);
    EXPECT_EQ(parse_bytes("7B").value(), 7u);
    EXPECT_EQ(parse_bytes("3KiB").value(), 3ull << 10);
    EXPECT_EQ(parse_bytes("512MiB").value(), 512ull << 20);
    EXPECT_EQ(parse_bytes("4GiB").value(), 4ull << 30);
    EXPECT_EQ(parse_bytes("32TiB").value(), 32ull << 40);
    EXPECT_EQ(parse_bytes("3KB").value(), 3'000u);
    EXPECT_EQ(parse_bytes("5MB").value(), 5'000'000u);
    EXPECT_EQ(parse_bytes("2GB").value(), 2'000'000'000u);
    EXPECT_EQ(parse_bytes("1TB").value(), 1'000'000'000'000u);
}

TEST(parse_bytes, ignores_case_and_blanks) {
    EXPECT_EQ(parse_bytes("  2 gib ").value(), 2 * gib);
    EXPECT_EQ(parse_bytes("2gB").value(), 2'000'000'000u);
}

TEST(parse_bytes, reads_fractions_exactly_and_drops_parts_of_a_byte) {
    EXPECT_EQ(parse_bytes("1.5KiB").value(), 1536u);
    EXPECT_EQ(parse_bytes("0.3KiB").value(), 307u);
    EXPECT_EQ(parse_bytes("0.1").value(), 0u);
    EXPECT_EQ(parse_bytes("2.000000001GB").value(), 2'000'000'001u);
    EXPECT_EQ(parse_bytes("1.25TiB").value(), tib + tib / 4);
    EXPECT_EQ(parse_bytes("1." + std::string(100, '0') + "KiB").value(), 1024u);
}

TEST(parse_bytes, reads_up_to_the_last_64_bit_number) {
    EXPECT_EQ(parse_bytes("18446744073709551615").value(), std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(parse_bytes("16777215TiB").value(), 16777215 * tib);
    for (const std::string text : {"18446744073709551616", "16777216TiB", "18446744073709551615.999999999TiB",
                                   "18446744073709551616KiB", "99999999999999999999999999999999999999999999999999"}) {
        const auto bytes = parse_bytes(text);
        EXPECT_TRUE(absl::IsInvalidArgument(bytes.status())) << text;
        EXPECT_THAT(std::string(bytes.status().message()), HasSubstr("it is 2^64 bytes or more")) << text;
    }
}

TEST(parse_bytes, says_what_is_wrong_and_what_to_write) {
    const std::pair<const char*, const char*> cases[] = {
        {"", "\"\" is not a size in bytes: it does not start with a number"},
        {"many", "\"many\" is not a size in bytes: it does not start with a number"},
        {".5GiB", "\".5GiB\" is not a size in bytes: it does not start with a number"},
        {"+5", "\"+5\" is not a size in bytes: it does not start with a number"},
        {"-4GiB", "\"-4GiB\" is not a size in bytes: it is negative"},
        {"4G", "\"4G\" is not a size in bytes: \"G\" is not a unit"},
        {"1.2.3KiB", "\"1.2.3KiB\" is not a size in bytes: \".3KiB\" is not a unit"},
        {"1e9", "\"1e9\" is not a size in bytes: \"e9\" is not a unit"},
        {"0x10", "\"0x10\" is not a size in bytes: \"x10\" is not a unit"},
        {"4 Gi\nB", "\"4 Gi\\nB\" is not a size in bytes: \"Gi\\nB\" is not a unit"},
    };
    for (const auto& [text, message] : cases) {
        const auto bytes = parse_bytes(text);
        EXPECT_TRUE(absl::IsInvalidArgument(bytes.status())) << text;
        EXPECT_THAT(std::string(bytes.status().message()), HasSubstr(message));
        EXPECT_THAT(std::string(bytes.status().message()), HasSubstr("such as 512MiB or 4GB"));
    }
}

TEST(format_bytes, uses_the_largest_unit_that_fits) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1), "1 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1024), "1 KiB");
    EXPECT_EQ(format_bytes(1536), "1.50 KiB");
    EXPECT_EQ(format_bytes(64 * mib), "64 MiB");
    EXPECT_EQ(format_bytes(1'500'000'000), "1.40 GiB");
    EXPECT_EQ(format_bytes(32 * tib), "32 TiB");
    EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16777216.00 TiB");
}

TEST(format_bytes, whole_numbers_of_a_unit_are_read_back) {
    for (const std::uint64_t bytes :
         {std::uint64_t{0}, std::uint64_t{1023}, kib, 3 * kib, 64 * mib, 5 * gib, 32 * tib}) {
        EXPECT_EQ(parse_bytes(format_bytes(bytes)).value(), bytes);
    }
}

}  // namespace
}  // namespace orchard
