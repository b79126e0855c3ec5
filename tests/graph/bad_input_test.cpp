// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Every invalid input gives one line that names the file, the line and the value, and contains the remedy.

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include "examples/graph/edge_collector.hpp"
#include "examples/graph/read_graph.hpp"
#include "tests/graph/temporary_file.hpp"

namespace orchard::examples {
namespace {

using test::gzipped;
using test::temporary_file;

/// Returns the error's text. The test fails if there is no error, if it has several lines or if it does not name the
/// file.
std::string error_of(std::string_view content, absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    const temporary_file file("bad", content);
    const absl::StatusOr<edge_list> list = read_graph(file.path());
    EXPECT_EQ(list.status().code(), code) << list.status();
    const std::string message(list.status().message());
    EXPECT_TRUE(absl::StartsWith(message, file.path() + ":")) << message;
    EXPECT_FALSE(absl::StrContains(message, "\n")) << message;
    return message.substr(std::min(message.size(), file.path().size()));
}

struct wrong_text {
    const char* name;
    const char* text;
    const char* line;    ///< ":LINE:" or, for the file as a whole, ":"
    const char* value;   ///< the value that the message must name
    const char* remedy;  ///< and advise
};

class bad_text : public ::testing::TestWithParam<wrong_text> {};

TEST_P(bad_text, is_explained) {
    const wrong_text& w = GetParam();
    for (const std::string& content : {std::string(w.text), gzipped(w.text)}) {
        const std::string message = error_of(content);
        EXPECT_TRUE(absl::StartsWith(message, w.line)) << message;
        EXPECT_TRUE(absl::StrContains(message, w.value)) << message;
        EXPECT_TRUE(absl::StrContains(message, w.remedy)) << message;
    }
}

#define MM "%%MatrixMarket matrix coordinate pattern general\n"

const wrong_text wrong_texts[] = {
    {"empty", "", ":", "is empty", "give a MatrixMarket file or an edge list"},
    {"comments_only", "# nothing\n\n", ":2:", "no edge", "give two vertex numbers a line"},
    {"too_few_entries", MM "3 3 3\n1 2\n2 3\n", ":4:", "after 2 entries", "promises 3"},
    {"far_too_few_entries", MM "3 3 18446744073709551615\n1 2\n", ":3:", "18446744073709551615", "cut off"},
    {"too_many_entries", MM "3 3 1\n1 2\n2 3\n", ":4:", "'2 3'", "correct the header"},
    {"index_zero", MM "3 3 1\n0 2\n", ":3:", "0 as the row", "give 1 to 3"},
    {"index_beyond", MM "3 3 1\n1 4\n", ":3:", "4 as the column", "give 1 to 3"},
    {"negative_index", MM "3 3 1\n1 -2\n", ":3:", "'-2'", "negative"},
    {"negative_vertex", "0 1\n-5 2\n", ":2:", "'-5'", "give a number from 0"},
    {"text_for_number", "0 1\n1 two\n", ":2:", "'two'", "two vertex numbers"},
    {"text_for_count", MM "3 three 1\n1 2\n", ":2:", "'three'", "not a whole number"},
    {"fraction_for_vertex", "0 1.5\n", ":1:", "'1.5'", "not a whole number"},
    {"text_for_value", "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 heavy\n", ":3:", "'heavy'",
     "not a number"},
    {"two_signs_for_value", "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 +-5\n", ":3:", "'+-5'",
     "not a number"},
    {"nan_for_value", "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 nan\n", ":3:", "'nan'",
     "not a number"},
    {"missing_value", "%%MatrixMarket matrix coordinate integer general\n3 3 1\n1 2\n", ":3:", "the value", "'1 2'"},
    {"text_for_weight", "0 1 x\n", ":1:", "'x'", "the weight"},
    {"surplus_column", "0 1 2 3\n", ":1:", "'3'", "remove it"},
    {"surplus_column_of_pattern", MM "3 3 1\n1 2 1\n", ":3:", "'1'", "remove it"},
    {"surplus_count", MM "3 3 1 1\n1 2\n", ":2:", "'1'", "remove it"},
    {"missing_second_column", "0 1\n7\n", ":2:", "'7'", "the second vertex"},
    {"missing_count", MM "3 3\n1 2\n", ":2:", "'3 3'", "the count of entries"},
    {"missing_counts", MM "% nothing else\n", ":", "line of counts", "give 'ROWS COLUMNS ENTRIES'"},
    {"vertices_2_to_40", MM "1099511627776 1099511627776 1\n1 2\n", ":2:", "1099511627776", "give 1 to 4294967295"},
    {"vertex_2_to_40", "0 1099511627776\n", ":1:", "1099511627776", "0 to 4294967294"},
    {"no_vertices", MM "0 0 0\n", ":2:", "0 vertices", "give 1 to"},
    {"overflow", "0 1\n1 99999999999999999999999\n", ":2:", "'99999999999999999999999'", "64 bits"},
    {"not_square", MM "3 4 1\n1 2\n", ":2:", "3 rows and 4 columns", "square"},
    {"unsupported_field", "%%MatrixMarket matrix coordinate complex general\n1 1 0\n", ":1:", "'complex'",
     "pattern, integer or real"},
    {"unsupported_symmetry", "%%MatrixMarket matrix coordinate real hermitian\n1 1 0\n", ":1:", "'hermitian'",
     "general or symmetric"},
    {"dense", "%%MatrixMarket matrix array real general\n1 1\n1\n", ":1:", "'array'", "coordinate"},
    {"short_banner", "%%MatrixMarket matrix\n1 1 0\n", ":1:", "2 words", "FIELD SYMMETRY"},
    {"prose", "Dear reader,\n", ":1:", "'Dear'", "give a MatrixMarket file or an edge list"},
};

INSTANTIATE_TEST_SUITE_P(every_case, bad_text, ::testing::ValuesIn(wrong_texts),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(bad_file, missing) {
    const absl::Status status = read_graph("/nonexistent/graph.mtx").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(status.message(), "/nonexistent/graph.mtx: no such file");
}

TEST(bad_file, folder) {
    const std::string folder = std::filesystem::temp_directory_path().string();
    const absl::Status status = read_graph(folder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), folder + ": is a folder; give a file in it");
}

TEST(bad_file, noise) {
    std::string noise;
    std::uint32_t x = 1;
    for (int i = 0; i < 4096; ++i) {
        x = x * 1664525 + 1013904223;
        noise += static_cast<char>(x >> 24);
    }
    EXPECT_TRUE(absl::StrContains(error_of(noise), "not a whole number"));
}

TEST(bad_file, line_without_end) {
    const std::string message = error_of(std::string(3 << 20, '7'));
    EXPECT_TRUE(absl::StartsWith(message, ":1:")) << message;
    EXPECT_TRUE(absl::StrContains(message, "1048576 bytes")) << message;
}

TEST(bad_weights, are_one_error_with_their_line) {
    for (const auto& [text, why] :
         {std::pair{"0 1 -0.5\n", ":1: '-0.5' as the weight is no weight; give a number from 0 to 1e308"},
          std::pair{"0 1 1\n1 2 1e999\n", ":2: '1e999' as the weight is no weight"},
          std::pair{"0 1 1\n1 2\n", ":2: the line '1 2' has no weight, unlike those before"},
          std::pair{"0 1\n1 2 1\n", ":2: the line '1 2 1' has a weight, unlike those before"},
          std::pair{"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 -1\n", ":3: '-1' as the value"}}) {
        const test::temporary_file file("graph", text);
        EXPECT_TRUE(read_graph(file.path()).ok()) << text;
        const auto list = read_graph(file.path(), edge_weights::kept);
        ASSERT_FALSE(list.ok()) << text;
        EXPECT_NE(list.status().message().find(why), absl::string_view::npos) << list.status();
    }
}

TEST(edge_collector, ends_before_memory_does) {
    edge_collector some(40'000);  // 2,048 edges need 32 KiB with their copy, 4,096 need 64
    absl::Status status;
    std::uint32_t added = 0;
    for (; status.ok() && added < 10'000; ++added) {
        status = some.add(edge::between(added, added + 1));
    }
    EXPECT_EQ(added - 1, 2048u);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "the list of edges needs")) << status;
    EXPECT_EQ(some.take().size(), 2048u) << "what was there is kept";
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// A sanitizer has mapped more than any limit.
TEST(host_memory, is_at_most_the_limit_of_the_process) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    EXPECT_GT(host_memory_bytes("/nonexistent", "/nonexistent"), 1'000'000u);
    rlimit low = before;
    low.rlim_cur = 1'000'000;  // less than what is mapped: nothing may be mapped until the limit is as before
    ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
    const std::uint64_t found = host_memory_bytes("/nonexistent", "/nonexistent");
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    EXPECT_EQ(found, 1'000'000u);
}
#endif

TEST(host_memory, that_is_available_is_what_the_machine_says) {
    const std::string file = testing::TempDir() + absl::StrCat("orchard_meminfo_", ::getpid());
    std::ofstream(file) << "MemTotal:  24675276 kB\nMemFree:  1 kB\nMemAvailable:  977 kB\n";
    EXPECT_EQ(available_host_bytes(file), 977u * 1024);
    std::remove(file.c_str());
    EXPECT_EQ(available_host_bytes("/nonexistent"), host_memory_bytes());
}

TEST(host_memory, is_at_most_the_control_groups) {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("orchard_cgroup_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder / "memory");
    const std::string own = folder / "own";
    const std::uint64_t machine = host_memory_bytes(folder, own);
    std::ofstream(folder / "memory.max") << "max\n";
    EXPECT_EQ(host_memory_bytes(folder, own), machine);
    std::ofstream(folder / "memory.max") << "1000000\n";
    EXPECT_EQ(host_memory_bytes(folder, own), 1'000'000u);
    std::ofstream(folder / "memory" / "memory.limit_in_bytes") << "500000\n";
    EXPECT_EQ(host_memory_bytes(folder, own), 500'000u);
    std::filesystem::remove_all(folder);
}

TEST(host_memory, is_at_most_that_of_each_group_around_its_own) {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("orchard_cgroups_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder / "user" / "job" / "step");
    std::filesystem::create_directories(folder / "memory" / "old" / "inner");
    const std::string own = folder / "own";
    const auto limit_of = [&](const char* lines) {
        std::ofstream(own) << lines;
        return host_memory_bytes(folder, own);
    };
    std::ofstream(folder / "user" / "job" / "memory.max") << "700000\n";
    std::ofstream(folder / "user" / "job" / "step" / "memory.max") << "max\n";
    std::ofstream(folder / "memory" / "old" / "memory.limit_in_bytes") << "600000\n";
    EXPECT_EQ(limit_of("0::/user/job/step\n"), 700'000u);
    EXPECT_EQ(limit_of("0::/user/job\n"), 700'000u);
    EXPECT_GT(limit_of("0::/user\n"), 700'000u);
    EXPECT_EQ(limit_of("5:cpu,cpuacct:/\n4:hugetlb,memory:/old/inner\n0::/user/job\n"), 600'000u);
    EXPECT_GT(limit_of("0::/../elsewhere\nnonsense\n"), 700'000u) << "named from outside this namespace";
    std::filesystem::remove_all(folder);
}

std::string long_text() {
    std::string text;
    for (int v = 0; v < 20000; ++v) {
        absl::StrAppend(&text, v, " ", (v * 7919) % 20011, "\n");
    }
    return text;
}

TEST(bad_gzip, cut_anywhere) {
    const std::string packed = gzipped(long_text());
    for (const std::size_t length :
         {std::size_t{2}, std::size_t{9}, std::size_t{11}, packed.size() / 2, packed.size() - 9, packed.size() - 1}) {
        const std::string message = error_of(packed.substr(0, length), absl::StatusCode::kDataLoss);
        EXPECT_TRUE(absl::StrContains(message, absl::StrCat("after ", length, " bytes"))) << message;
        EXPECT_TRUE(absl::StrContains(message, "truncated")) << message;
    }
}

TEST(bad_gzip, followed_by_something_else) {
    const std::string packed = gzipped("0 1\n");
    const std::string message = error_of(packed + "noise", absl::StatusCode::kDataLoss);
    EXPECT_TRUE(absl::StrContains(message, absl::StrCat("byte ", packed.size(), " is 0x6e"))) << message;
    error_of(packed + '\0', absl::StatusCode::kDataLoss);
}

TEST(bad_gzip, a_changed_byte_is_found) {
    const std::string text = long_text();
    std::string packed = gzipped(text);
    packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);  // in the check value
    const std::string message = error_of(packed, absl::StatusCode::kDataLoss);
    EXPECT_TRUE(absl::StrContains(message, "incorrect data check")) << message;
}

}  // namespace
}  // namespace orchard::examples
