// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>

#include "runtime/heap/live_fields.hpp"
#include "tests/live/pages.hpp"

namespace orchard::live {
namespace {

using live_test::page_words;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<field_description> few_fields() {
    return {{"axis", "", "", "names", field_kind::text, 2, label_words},
            {"level", "bytes", "", "a level", field_kind::gauge},
            {"each", "count", "axis", "one for each", field_kind::counter, 2}};
}
std::vector<std::uint64_t> few_values() {
    std::vector<std::uint64_t> v(2 * label_words);
    put_text(std::span(v).first(label_words), "first");
    put_text(std::span(v).last(label_words), "second");
    v.insert(v.end(), {7, 8, 9});
    return v;
}
std::vector<std::uint64_t> few_words() { return page_words(few_fields(), few_values()); }

void set(std::vector<std::uint64_t>& words, header h, std::uint64_t value) {
    words[static_cast<std::uint32_t>(h)] = value;
}
std::uint64_t get(const std::vector<std::uint64_t>& words, header h) { return words[static_cast<std::uint32_t>(h)]; }

TEST(live_snapshot, has_the_fields_of_the_table) {
    const auto s = parse(few_words());
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->name.pid, ::getpid());
    EXPECT_EQ(s->start_ticks, *start_ticks_of(::getpid()));
    EXPECT_EQ(s->state, page_state::live);
    ASSERT_EQ(s->fields.size(), 3u);
    EXPECT_EQ(s->number("level"), 7u);
    EXPECT_EQ(s->find("level")->unit, "bytes");
    EXPECT_EQ(s->find("level")->help, "a level");
    EXPECT_THAT(s->find("each")->values, ElementsAre(8, 9));
    EXPECT_THAT(s->labels_of(*s->find("each")), ElementsAre("first", "second"));
    EXPECT_EQ(s->find("none"), nullptr);
    EXPECT_EQ(s->number("none"), 0u);
}

TEST(live_snapshot, is_read_from_a_later_minor_version) {
    // Rows of 40 words, a field that this program does not know, and a larger header: what a minor version may add.
    auto words = few_words();
    const auto table = get(words, header::table_first);
    const auto values = get(words, header::values_first);
    std::vector<std::uint64_t> later(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(table));
    later.resize(table + 100);
    for (int r = 0; r < 3; ++r) {
        const auto* row = &words[table + static_cast<std::uint64_t>(r) * row::words];
        later.insert(later.end(), row, row + row::words);
        later.resize(later.size() + 8, 0xdead);
    }
    later.insert(later.end(), words.begin() + static_cast<std::ptrdiff_t>(values), words.end());
    set(later, header::version, version_word + 5);
    set(later, header::table_first, table + 100);
    set(later, header::row_words, row::words + 8);
    set(later, header::values_first, table + 100 + 3 * (row::words + 8));
    set(later, header::page_bytes, later.size() * 8);
    const auto s = parse(later);
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->minor, 5u);
    EXPECT_THAT(s->find("each")->values, ElementsAre(8, 9));
}

TEST(live_snapshot, of_another_major_version_is_an_error) {
    auto words = few_words();
    set(words, header::version, std::uint64_t{major_version + 1} << 32);
    const auto s = parse(words);
    EXPECT_EQ(s.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(s.status().message()), HasSubstr("the page has layout 2.0, and this program reads 1.0"));
}

TEST(live_snapshot, of_no_page_is_an_error) {
    EXPECT_EQ(parse({}).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(parse(std::vector<std::uint64_t>(31, magic_word)).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(parse(std::vector<std::uint64_t>(512, 0)).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(parse(std::vector<std::uint64_t>(512, 77)).status().message()),
                HasSubstr("it is no live page"));
}

TEST(live_snapshot, that_is_cut_off_is_an_error_at_every_length) {
    const auto words = few_words();
    for (std::size_t n = 0; n < words.size(); n += 7) {
        EXPECT_FALSE(parse(std::span(words).first(n)).ok()) << n;
    }
}

struct wrong_number {
    header where;
    std::uint64_t value;
};

TEST(live_snapshot, with_places_outside_the_page_is_an_error) {
    constexpr std::uint64_t huge = ~std::uint64_t{0};
    for (const auto& [where, value] : {wrong_number{header::page_bytes, huge},
                                       {header::page_bytes, 0},
                                       {header::table_first, huge},
                                       {header::table_first, 100'000},
                                       {header::table_rows, huge},
                                       {header::table_rows, huge / 32 + 1},
                                       {header::row_words, 0},
                                       {header::row_words, 31},
                                       {header::row_words, huge},
                                       {header::values_first, huge},
                                       {header::values_words, huge},
                                       {header::values_words, 3}}) {
        auto words = few_words();
        set(words, where, value);
        EXPECT_EQ(parse(words).status().code(), absl::StatusCode::kDataLoss)
            << static_cast<std::uint32_t>(where) << " = " << value;
    }
    for (const auto& [where, value] : {std::pair<std::uint32_t, std::uint64_t>{row::kind, 4},
                                       {row::kind, huge},
                                       {row::first, huge},
                                       {row::first, 10},
                                       {row::count, 0},
                                       {row::count, huge},
                                       {row::cell_words, 0},
                                       {row::cell_words, huge},
                                       {row::name, 0},
                                       {row::name, 0x20},
                                       {row::unit, 0x22},
                                       {row::axis, 0x30}}) {
        auto words = few_words();
        words[get(words, header::table_first) + 2 * row::words + where] = value;
        EXPECT_EQ(parse(words).status().code(), absl::StatusCode::kDataLoss) << where << " = " << value;
    }
}

TEST(live_snapshot, with_a_name_twice_is_an_error) {
    auto fields = few_fields();
    fields[1].name = "each";
    EXPECT_THAT(std::string(parse(page_words(fields, few_values())).status().message()),
                HasSubstr("field each occurs twice"));
}

TEST(live_snapshot, has_texts_of_printable_characters_alone) {
    auto values = few_values();
    values[0] = 0x0a1b'ff'41;
    const auto s = parse(page_words(few_fields(), values));
    ASSERT_TRUE(s.ok());
    EXPECT_EQ(s->find("axis")->texts[0].front(), 'A');
    for (const char c : s->find("axis")->texts[0]) {
        EXPECT_TRUE(c >= 0x20 && c < 0x7f);
    }
}

TEST(live_table, has_each_statistic_and_fits_the_rows) {
    std::vector<std::string> names;
    std::uint64_t words = 0;
    for (const field_description& f : live_table()) {
        names.push_back(f.name);
        words += f.words();
        EXPECT_LT(f.name.size(), row::name_bytes) << f.name;
        EXPECT_LT(f.unit.size(), row::unit_bytes) << f.name;
        EXPECT_LT(f.axis.size(), row::axis_bytes) << f.name;
        EXPECT_LT(f.help.size(), row::help_bytes) << f.name;
        EXPECT_FALSE(f.help.empty()) << f.name;
    }
    EXPECT_EQ(live_words({}).size(), words);
    for (const statistic_info& info : statistic_table()) {
        EXPECT_THAT(names, testing::Contains(std::string(info.name)));
    }
    for (const class_statistic_info& info : class_statistic_table()) {
        if (info.name != "page_bytes") {
            EXPECT_THAT(names, testing::Contains("class_" + std::string(info.name)));
        }
    }
    EXPECT_TRUE(parse(page_words(live_table(), live_words({}))).ok());
}

TEST(statistic_kinds, are_those_of_the_help) {
    for (const statistic_info& info : statistic_table()) {
        // A level says "now", or is a limit or a peak; everything else only grows, and says so.
        const bool level = info.help.find("now") != std::string_view::npos || info.name.starts_with("peak_") ||
                           info.name == "capacity_bytes" || info.name == "range_bytes" || info.name == "host_bytes";
        EXPECT_EQ(info.kind(), level ? statistic_kind::gauge : statistic_kind::counter) << info.name;
    }
}

TEST(live_process, begins_when_its_stat_says) {
    EXPECT_EQ(start_ticks_in("12 (a b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 1234 20"), 1234u);
    EXPECT_EQ(start_ticks_in("12 (a) b) c) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 77 20"), 77u);
    EXPECT_EQ(start_ticks_in("12 (a) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 77 20"), std::nullopt);
    EXPECT_EQ(start_ticks_in("12 (a) S 1 2"), std::nullopt);
    EXPECT_EQ(start_ticks_in(""), std::nullopt);
    EXPECT_TRUE(start_ticks_of(::getpid()));
    EXPECT_FALSE(start_ticks_of(0x7ffffff0));
}

/// A process may end between the opening and the reading of its file, which then fails: no exception, and no value.
TEST(live_process, that_ends_meanwhile_has_no_start) {
    for (int i = 0; i < 300; ++i) {
        const pid_t ends = ::fork();
        if (ends == 0) {
            ::usleep(static_cast<useconds_t>(5 * i));
            ::_exit(0);
        }
        ASSERT_GT(ends, 0);
        while (start_ticks_of(ends)) {
        }
        int status = 0;
        ASSERT_EQ(::waitpid(ends, &status, 0), ends);
        EXPECT_FALSE(start_ticks_of(ends));
    }
}

TEST(live_page_name, is_read_as_it_is_written) {
    EXPECT_EQ(page_name::from(page_name{12, 3}.text()), (page_name{12, 3}));
    for (const char* other : {"", "orchard", "orchard.1", "orchard.1.2.3", "orchard.01.2", "orchard.1.+2",
                              "orchard.-1.2", "orchard.0.0", "orchard.1.-2", "orchard.99999999999.1", "other.1.2"}) {
        EXPECT_FALSE(page_name::from(other)) << other;
    }
}

}  // namespace
}  // namespace orchard::live
