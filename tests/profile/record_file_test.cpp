// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/profile/record_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/profile/records.hpp"

namespace orchard::profiling {
namespace {

using testing::HasSubstr;

/// Returns a file with one of each block.
std::string whole_file() {
    return test::file_with([](record_writer& w) {
        w.write(std::vector{test::kernel(w.name("_Z1av"), 10, 20), test::kernel(w.name("b"), 30, 50)});
        w.write(std::vector{test::unified(unified_kind::to_device, 5, 0x1000, 4096)});
        w.write(std::vector{memory_record{1, 2, 3, memory_operation::copy, 1, 0, 0}});
        w.write(std::vector{sample_record{9, w.name("_Z1av"), 0}});
        w.write_problem(problem_code::note, "a word");
        w.write_heap({0x200000, 0x400000, 3, 0, 0x200000});
        const std::uint8_t owners[] = {2, 17};
        w.write_owners({8, 0, 2}, owners);
        w.add_dropped(4);
    });
}

TEST(record_file, reads_what_was_written) {
    const auto read = parse_records(whole_file());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->pid, 7u);
    EXPECT_EQ(read->cupti_version, 130001u);
    EXPECT_THAT(read->names, testing::ElementsAre("_Z1av", "b"));
    ASSERT_EQ(read->kernels.size(), 2u);
    EXPECT_EQ(read->kernels[1].name, 1u);
    EXPECT_EQ(read->kernels[1].end_ns, 50u);
    EXPECT_EQ(read->kernels[1].registers, 40u);
    ASSERT_EQ(read->unified.size(), 1u);
    EXPECT_EQ(read->unified[0].value, 4096u);
    ASSERT_EQ(read->memory.size(), 1u);
    ASSERT_EQ(read->samples.size(), 1u);
    ASSERT_EQ(read->problems.size(), 1u);
    EXPECT_EQ(read->problems[0].text, "a word");
    ASSERT_EQ(read->heaps.size(), 1u);
    EXPECT_THAT(read->heaps[0].owners, testing::ElementsAre(2, 17));
    EXPECT_EQ(read->heaps[0].closed_ns, 8u);
    ASSERT_TRUE(read->end.has_value());
    EXPECT_EQ(read->end->dropped, 4u);
}

TEST(record_file, of_a_process_that_was_killed_has_no_end) {
    const auto read = parse_records(
        test::file_with([](record_writer& w) { w.write(std::vector{test::kernel(w.name("a"), 1, 2)}); }, false));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_FALSE(read->end.has_value());
    EXPECT_EQ(read->kernels.size(), 1u);
}

TEST(record_file, cut_off_anywhere_is_an_error_or_a_file_without_end) {
    const std::string file = whole_file();
    std::size_t without_end = 0;
    for (std::size_t length = 0; length < file.size(); ++length) {
        const auto read = parse_records(std::string_view(file).substr(0, length));
        if (read.ok()) {
            ++without_end;
            EXPECT_FALSE(read->end.has_value()) << length;
        } else {
            EXPECT_TRUE(absl::IsDataLoss(read.status())) << length << ": " << read.status();
        }
    }
    EXPECT_EQ(without_end, 10u);  // behind the header, and behind each block but the last
}

TEST(record_file, with_any_byte_changed_is_an_error) {
    const std::string file = whole_file();
    for (std::size_t i = 0; i < file.size(); ++i) {
        // These carry no meaning, or any value of them is right.
        const bool any_value = i >= 12 && i < sizeof(file_header);
        std::string changed = file;
        changed[i] = static_cast<char>(changed[i] ^ 0x40);
        const auto read = parse_records(changed);
        if (!any_value && read.ok()) {
            // Only the reserved words of block headers are left.
            EXPECT_EQ(read->end->kernels, 2u);
            EXPECT_EQ(read->unified[0].value, 4096u);
        }
        if (i < sizeof(file_magic)) {
            EXPECT_FALSE(read.ok()) << i;
        }
    }
    std::string flipped = file;
    flipped[file.size() - 1] ^= 1;  // in the end's payload
    EXPECT_THAT(std::string(parse_records(flipped).status().message()), HasSubstr("another checksum"));
}

TEST(record_file, names_a_later_version) {
    std::string file = whole_file();
    file[sizeof(file_magic)] = 2;
    const absl::Status status = parse_records(file).status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("version 2 of the records"));
}

TEST(record_file, names_what_it_is_not) {
    EXPECT_THAT(std::string(parse_records("").status().message()), HasSubstr("0 bytes are no file of records"));
    EXPECT_THAT(std::string(parse_records(std::string(64, 'x')).status().message()),
                HasSubstr("begins with \"xxxxxxxx"));
    EXPECT_THAT(std::string(parse_records("\x7f"
                                          "ELF\n" +
                                          std::string(60, '\0'))
                                .status()
                                .message()),
                HasSubstr("\\177ELF\\n"));
    const absl::Status missing = read_records("/nonexistent/a").status();
    EXPECT_TRUE(absl::IsNotFound(missing));
    EXPECT_THAT(std::string(missing.message()), HasSubstr("/nonexistent/a: cannot be read"));
    EXPECT_THAT(std::string(read_records("/").status().message()), HasSubstr("/: cannot be read"));  // a folder
}

/// Returns the error of a file with one block of `kind`, whose checksum is right.
std::string error_of(block_kind kind, const std::string& payload) {
    std::string file = test::file_with([](record_writer&) {}, false);
    const block_header header{kind, static_cast<std::uint32_t>(payload.size()), checksum_of(payload), 0};
    file.append(reinterpret_cast<const char*>(&header), sizeof(header)).append(payload);
    const absl::Status status = parse_records(file).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
}

template <class T>
std::string bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

TEST(record_file, checks_each_block) {
    EXPECT_THAT(error_of(block_kind{0}, ""), HasSubstr("no block of kind 0"));
    EXPECT_THAT(error_of(block_kind{99}, "x"), HasSubstr("no block of kind 99"));
    EXPECT_THAT(error_of(block_kind::kernels, "abc"), HasSubstr("within a record"));
    EXPECT_THAT(error_of(block_kind::kernels, bytes_of(test::kernel(0, 1, 2))), HasSubstr("a name or a kind"));
    EXPECT_THAT(error_of(block_kind::unified, bytes_of(test::unified(unified_kind{9}, 1, 2, 3))),
                HasSubstr("a name or a kind"));
    EXPECT_THAT(error_of(block_kind::memory, bytes_of(memory_record{1, 2, 3, memory_operation{5}, 0, 0, 0})),
                HasSubstr("a name or a kind"));
    EXPECT_THAT(error_of(block_kind::samples, bytes_of(sample_record{1, 0, 0})), HasSubstr("a name or a kind"));
    EXPECT_THAT(error_of(block_kind::name, bytes_of(std::uint32_t{1}) + "a"), HasSubstr("not the next one"));
    EXPECT_THAT(error_of(block_kind::name, "a"), HasSubstr("not the next one"));
    EXPECT_THAT(error_of(block_kind::problem, "a"), HasSubstr("no code"));
    EXPECT_THAT(error_of(block_kind::problem, bytes_of(std::uint32_t{7})), HasSubstr("a code that there is not"));
    EXPECT_THAT(error_of(block_kind::heap, "a"), HasSubstr("another size"));
    EXPECT_THAT(error_of(block_kind::heap, bytes_of(heap_record{0, 4096, 0, 0, 0})), HasSubstr("a range"));
    EXPECT_THAT(error_of(block_kind::heap, bytes_of(heap_record{0, 4097, 0, 0, 4096})), HasSubstr("a range"));
    EXPECT_THAT(error_of(block_kind::heap, bytes_of(heap_record{~0ull, 4096, 0, 0, 4096})), HasSubstr("a range"));
    EXPECT_THAT(error_of(block_kind::heap, bytes_of(heap_record{0, 4096, 0, 1, 4096})), HasSubstr("not the next one"));
    EXPECT_THAT(error_of(block_kind::owners, "a"), HasSubstr("no header"));
    EXPECT_THAT(error_of(block_kind::owners, bytes_of(owners_header{1, 0, 0})), HasSubstr("of no heap"));
    EXPECT_THAT(error_of(block_kind::end, "a"), HasSubstr("another size"));
    end_record end{};
    end.kernels = 1;
    EXPECT_THAT(error_of(block_kind::end, bytes_of(end)), HasSubstr("not as many records as the end counts"));
}

TEST(record_file, ends_with_its_end) {
    std::string file = whole_file();
    EXPECT_THAT(std::string(parse_records(file + "x").status().message()), HasSubstr("follows the end"));
}

TEST(record_writer, counts_what_is_beyond_the_limit) {
    const auto read = parse_records(test::file_with(
        [](record_writer& w) {
            w.write(std::vector{test::kernel(w.name("a"), 1, 2)});
            w.write(std::vector{test::kernel(w.name("b"), 1, 2), test::kernel(0, 3, 4)});
            w.write_problem(problem_code::note, "still written");
        },
        true, sizeof(kernel_record)));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->kernels.size(), 1u);
    EXPECT_EQ(read->end->left_out, 2u);
    EXPECT_EQ(read->problems.size(), 1u);
}

TEST(record_writer, replaces_no_file) {
    const test::folder in;
    record_writer first;
    record_writer second;
    EXPECT_EQ(first.open(in / "a", test::header(), 0), 0);
    EXPECT_EQ(second.open(in / "a", test::header(), 0), EEXIST);
    EXPECT_EQ(second.open("/nonexistent/a", test::header(), 0), ENOENT);
    EXPECT_EQ(std::filesystem::status(in / "a").permissions(), std::filesystem::perms{0600});
}

}  // namespace
}  // namespace orchard::profiling
