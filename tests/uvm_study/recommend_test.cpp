// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The table that heaps use equals the model's current results.

#include "profiling/uvm/recommend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <checkout.hpp>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "runtime/heap/recommended_layouts.hpp"
#include "uvm/model/patterns.hpp"

namespace orchard::uvm_study {
namespace {

grid of_h200() {
    grid g;
    g.machine = *uvm_model::calibration_of("h200");
    return g;
}

/// A grid that takes no time.
grid small() {
    grid g = of_h200();
    g.patterns = {access_pattern::same_index, access_pattern::graph_walk};
    g.bytes_per_thread = {16 << 10, 128 << 10};
    g.bytes = 8 << 20;
    g.accesses = 10;
    return g;
}

std::size_t index_of(layout how, portion_policy placed) {
    return static_cast<std::size_t>(std::ranges::find(candidates, candidate{how, placed}) - candidates.begin());
}

void expect_as_in_the_table(const verdict& v) {
    const recommendation& r = recommended_layouts[static_cast<std::size_t>(v.pattern)];
    const recommended_layout& expected = v.fits ? r.fits : r.oversubscribed;
    EXPECT_EQ(candidates[v.best].how, expected.arrays) << name_of(v.pattern) << (v.fits ? ", fits" : "");
    EXPECT_EQ(candidates[v.best].placed, expected.portions) << name_of(v.pattern) << (v.fits ? ", fits" : "");
}

TEST(uvm_recommend, has_all_patterns_of_the_model) {
    std::vector<std::string_view> ours(access_pattern_names.begin() + 1, access_pattern_names.end());
    std::vector<std::string_view> models;
    for (const auto& p : uvm_model::patterns()) {
        models.push_back(p.name);
    }
    std::ranges::sort(ours);
    std::ranges::sort(models);
    EXPECT_EQ(ours, models);
    EXPECT_EQ(grid{}.patterns.size(), models.size());
}

TEST(uvm_recommend, takes_the_simplest_of_what_is_equally_fast) {
    scores s;
    s.fill(2.0);
    EXPECT_EQ(choose(s), index_of(layout::linear(), portion_policy::packed));
    s[index_of(layout::interleaved(tile::k64), portion_policy::padded)] = 1.0;
    EXPECT_EQ(choose(s), index_of(layout::interleaved(tile::k64), portion_policy::padded));
    s[index_of(layout::interleaved(tile::k64), portion_policy::packed)] = 1.019;
    EXPECT_EQ(choose(s), index_of(layout::interleaved(tile::k64), portion_policy::packed));
    s[index_of(layout::automatic(), portion_policy::packed)] = 1.019;
    EXPECT_EQ(choose(s), index_of(layout::automatic(), portion_policy::packed)) << "the smaller tile";
    s[index_of(layout::linear(), portion_policy::packed)] = 1.021;
    EXPECT_EQ(choose(s), index_of(layout::automatic(), portion_policy::packed)) << "more than 2 %";
}

TEST(uvm_recommend, scores_are_geometric_means_of_the_studys_times) {
    grid g = small();
    std::size_t told = 0;
    const auto verdicts = recommend(g, [&](std::size_t done, std::size_t all) {
        EXPECT_EQ(done, told++);
        EXPECT_EQ(all, 2 * 2 * candidates.size());
    });
    ASSERT_TRUE(verdicts.ok()) << verdicts.status();
    EXPECT_EQ(told, 2 * 2 * candidates.size());
    ASSERT_EQ(verdicts->size(), 6u);
    const std::size_t padded = index_of(layout::interleaved(tile::k4), portion_policy::padded);
    double product = 1;
    for (const std::uint64_t bytes : g.bytes_per_thread) {
        study s;
        s.patterns = {"same-index"};
        s.layouts = {{layout::interleaved(tile::k4), lane_order::ascending}};
        s.placements = {portion_policy::padded};
        s.capacities = {*parse_capacity("75%"), *parse_capacity("50%")};
        s.threads = g.bytes / bytes;
        s.bytes_per_thread = bytes;
        s.element_bytes = grid_element_bytes;
        s.accesses = g.accesses;
        s.machine = g.machine;
        const auto cells = run(s);
        ASSERT_TRUE(cells.ok()) << cells.status();
        product *= (*cells)[0].counts.seconds * (*cells)[1].counts.seconds;
    }
    const verdict& oversubscribed = (*verdicts)[3];
    EXPECT_EQ(oversubscribed.pattern, access_pattern::same_index);
    EXPECT_FALSE(oversubscribed.fits);
    EXPECT_NEAR(oversubscribed.seconds[padded] / std::pow(product, 0.25), 1, 1e-9)
        << "also where padded or a tile makes no difference, and nothing of its own is run";
    EXPECT_EQ((*verdicts)[1].pattern, access_pattern::unknown);
    EXPECT_NEAR(
        (*verdicts)[1].seconds[padded] / std::sqrt((*verdicts)[3].seconds[padded] * (*verdicts)[5].seconds[padded]), 1,
        1e-9);
}

TEST(uvm_recommend, is_reported_in_full) {
    const auto verdicts = recommend(small());
    ASSERT_TRUE(verdicts.ok()) << verdicts.status();
    const std::string table = to_table(*verdicts);
    EXPECT_NE(table.find("same-index  fits"), std::string::npos) << table;
    EXPECT_NE(table.find("unknown     oversubscribed"), std::string::npos) << table;
    const std::string json = json_of(small(), *verdicts).dump();
    for (const char* key : {"\"recommendations\"", "\"times_as_long\"", "\"placement\"", "\"tile\"", "batch_ns"}) {
        EXPECT_NE(json.find(key), std::string::npos) << key;
    }
    EXPECT_NE(to_header(*verdicts, "titan_v").find("machine titan_v;"), std::string::npos);
}

// The header is held to the project's format as every source is.
TEST(uvm_recommend, the_header_has_no_line_that_is_too_long) {
    verdict fits{
        access_pattern::same_index, true, {}, index_of(layout::interleaved(tile::k64), portion_policy::packed)};
    verdict oversubscribed = fits;
    oversubscribed.fits = false;
    const std::string both = to_header({fits, oversubscribed}, "h200");
    EXPECT_NE(both.find("{{layout::interleaved(tile::k64), portion_policy::packed},\n"
                        "     {layout::interleaved(tile::k64), portion_policy::packed}},\n"),
              std::string::npos)
        << both;
    fits.best = index_of(layout::automatic(), portion_policy::packed);
    EXPECT_NE(to_header({fits, oversubscribed}, "h200")
                  .find("{{layout::automatic(), portion_policy::packed}, {layout::interleaved(tile::k64), "
                        "portion_policy::packed}},\n"),
              std::string::npos);
}

TEST(uvm_recommend, says_what_it_cannot_run) {
    grid g = small();
    g.bytes = 1 << 10;  // less than a thread has
    EXPECT_TRUE(absl::IsInvalidArgument(recommend(g).status()));
}

// Only a part of the table, because the whole takes a minute.
TEST(uvm_recommend, patterns_that_run_fast_are_as_in_the_table) {
    grid g = of_h200();
    g.patterns = {access_pattern::same_index, access_pattern::strided};
    const auto verdicts = recommend(g);
    ASSERT_TRUE(verdicts.ok()) << verdicts.status();
    for (const verdict& v : *verdicts) {
        if (v.pattern != access_pattern::unknown) {
            expect_as_in_the_table(v);
        }
    }
}

TEST(uvm_recommend, slow_the_whole_table_is_what_the_grid_gives) {
    const auto verdicts = recommend(of_h200());
    ASSERT_TRUE(verdicts.ok()) << verdicts.status();
    std::ranges::for_each(*verdicts, expect_as_in_the_table);
    const std::string path = ORCHARD_SOURCE_DIR "/runtime/heap/recommended_layouts.hpp";
    std::ifstream file(path);
    ASSERT_TRUE(file) << path << " cannot be read";
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(text.str(), to_header(*verdicts, "h200"))
        << "run `orchard uvm --recommend --header > runtime/heap/recommended_layouts.hpp`";
}

}  // namespace
}  // namespace orchard::uvm_study
