// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The trace file: what is written is read back, and every damage is one clear error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <random>
#include <sstream>

#include "runtime/trace/trace_reader.hpp"
#include "runtime/trace/trace_writer.hpp"
#include "runtime/trace/varint.hpp"
#include "tests/trace/trace_file.hpp"

namespace orchard::test {
namespace {

using testing::HasSubstr;

trace_info some_info() {
    return {event_mode::complete, true, 0x7f0000000000, 1 << 30, 1 << 28, 5, R"({"capacity": "1"})"};
}

constexpr trace_waits some_waits{{11, 123'456'789'012}, {0, 1}};

/// Events with all fields in use, in which neighbours are alike, or differ in anything.
std::vector<event> some_events(std::size_t count, std::uint32_t seed) {
    std::mt19937_64 random(seed);
    std::vector<event> all;
    event e;
    for (std::size_t i = 0; i < count; ++i) {
        e.kind = static_cast<event_kind>(random() % event_kinds);
        e.time_ns += random() % 1000 - 300;
        if (random() % 2 == 0) {
            e.at = random();
            e.thread = static_cast<std::uint32_t>(random());
        }
        if (random() % 3 == 0) {
            e.bytes = random() >> random() % 64;
            e.detail = random() & 0xffffff;
        }
        all.push_back(e);
    }
    return all;
}

std::string written(const std::vector<event>& events, std::uint64_t limit = 1 << 30, trace_counts* counts = nullptr) {
    const trace_file file;
    auto made = trace_writer::open(file.path(), some_info(), limit);
    EXPECT_TRUE(made.ok()) << made.status();
    for (std::size_t i = 0; i < events.size(); i += 100) {
        (*made)->take(std::span(events).subspan(i, std::min<std::size_t>(100, events.size() - i)));
    }
    EXPECT_TRUE((*made)->finish(3, some_waits, {{7, "a.cu:12"}}).ok());
    if (counts != nullptr) {
        *counts = (*made)->counts();
    }
    return file.content();
}

absl::StatusOr<whole_trace> read(const std::string& content) {
    std::istringstream in(content);
    whole_trace whole;
    auto summary = read_trace(in, "t", [&](const std::vector<event>& events) {
        whole.events.insert(whole.events.end(), events.begin(), events.end());
        return absl::OkStatus();
    });
    if (!summary.ok()) {
        return summary.status();
    }
    whole.summary = *summary;
    return whole;
}

TEST(trace_format, gives_back_what_was_written) {
    for (const std::size_t count : {0u, 1u, 20'000u}) {
        const auto events = some_events(count, 3);
        const std::string content = written(events);
        const auto whole = read(content);
        ASSERT_TRUE(whole.ok()) << whole.status();
        EXPECT_EQ(whole->events, events);
        EXPECT_EQ(whole->summary.info, some_info());
        EXPECT_EQ(whole->summary.counts.events, count);
        EXPECT_EQ(whole->summary.counts.lost_notes, 3u);
        EXPECT_EQ(whole->summary.counts.waits, some_waits);
        EXPECT_EQ(whole->summary.counts.names, (std::map<std::uint32_t, std::string>{{7, "a.cu:12"}}));
        EXPECT_EQ(whole->summary.bytes, content.size());
    }
}

/// Returns a trace in the form of an earlier version, whose footer has no waits.
std::string older(const std::string& content, char version, std::size_t events) {
    using namespace detail::trace;
    std::string footer;
    for (const std::uint64_t n : {std::uint64_t{events}, std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{0},
                                  std::uint64_t{1}, std::uint64_t{7}}) {
        detail::put_varint(footer, n);
    }
    footer += "\7a.cu:12";
    std::string text = content.substr(0, content.rfind(footer_kind)) + section(footer_kind, 0, footer);
    text[magic.size()] = version;
    return text;
}

TEST(trace_format, reads_traces_of_versions_1_and_2) {
    const auto events = some_events(300, 4);
    const std::string content = written(events);
    ASSERT_EQ(content[8], 3);
    for (const char version : {'\1', '\2'}) {
        const auto whole = read(older(content, version, events.size()));
        ASSERT_TRUE(whole.ok()) << whole.status();
        EXPECT_EQ(whole->events, events);
        EXPECT_EQ(whole->summary.counts.lost_notes, 3u);
        EXPECT_EQ(whole->summary.counts.waits, std::nullopt);
        EXPECT_EQ(whole->summary.counts.names, (std::map<std::uint32_t, std::string>{{7, "a.cu:12"}}));
    }
    // A footer of the present form is none of an earlier version.
    std::string mixed = content;
    mixed[8] = 2;
    EXPECT_TRUE(absl::IsDataLoss(read(mixed).status()));
}

TEST(trace_format, takes_few_bytes_for_blocks_of_a_size) {
    std::vector<event> events;
    for (std::uint32_t i = 0; i < 10'000; ++i) {
        events.push_back({1'000'000u + 5 * i, 64u * i, 64, i, 0, event_kind::block_allocated});
    }
    EXPECT_LT(written(events).size(), 6 * events.size());
}

TEST(trace_format, ends_at_its_limit_and_says_so) {
    trace_counts counts;
    const auto events = some_events(50'000, 5);
    const std::string content = written(events, 200 << 10, &counts);
    EXPECT_LE(content.size(), (200u << 10) + 100);
    const auto whole = read(content);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->events.size() + whole->summary.counts.beyond_limit, events.size());
    EXPECT_GT(whole->summary.counts.beyond_limit, 0u);
    EXPECT_TRUE(std::equal(whole->events.begin(), whole->events.end(), events.begin()));
    EXPECT_FALSE(can_replay(whole->summary.info, whole->summary.counts));
}

TEST(trace_format, refuses_a_trace_that_is_cut_off_anywhere) {
    const std::string content = written(some_events(300, 7));
    for (std::size_t bytes = 0; bytes < content.size(); ++bytes) {
        const auto whole = read(content.substr(0, bytes));
        ASSERT_TRUE(absl::IsDataLoss(whole.status())) << bytes << " of " << content.size() << " bytes";
    }
    const auto whole = read(content.substr(0, content.size() - 1));
    EXPECT_THAT(std::string(whole.status().message()), HasSubstr("the trace is cut off here"));
}

TEST(trace_format, refuses_a_trace_with_a_wrong_bit_anywhere) {
    const std::string content = written(some_events(300, 9));
    for (std::size_t byte = 0; byte < content.size(); ++byte) {
        std::string damaged = content;
        damaged[byte] = static_cast<char>(damaged[byte] ^ 1 << byte % 8);
        ASSERT_FALSE(read(damaged).ok()) << "byte " << byte << " of " << content.size();
    }
}

TEST(trace_format, names_what_is_wrong) {
    const std::string content = written(some_events(300, 11));
    const auto error = [](const std::string& text) { return std::string(read(text).status().message()); };
    EXPECT_EQ(error("GIF89a is no trace"), "t: at byte 0: this is no trace of Orchard; record one with --trace FILE");
    std::string newer = content;
    newer[8] = 4;
    EXPECT_EQ(error(newer),
              "t: at byte 0: the trace has version 4, and this program reads versions 1 to 3: use the program of the "
              "version that wrote it");
    EXPECT_THAT(error(content + "x"), HasSubstr("the trace is cut off here"));
    EXPECT_THAT(error(content + content.substr(12)), HasSubstr("there is more behind the footer"));
    std::string damaged = content;
    damaged[100] = static_cast<char>(damaged[100] ^ 4);
    EXPECT_THAT(error(damaged), HasSubstr("the checksum of this section is wrong"));
    EXPECT_EQ(detail::trace::crc32("123456789"), 0xcbf43926u);  // the check value of this CRC
    EXPECT_TRUE(absl::IsNotFound(read_trace("/no/such/file").status()));
    EXPECT_TRUE(absl::IsInvalidArgument(trace_writer::open("/no/such/file", some_info(), 1).status()));
}

}  // namespace
}  // namespace orchard::test
