// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "profiling/arena/worker.hpp"

namespace orchard::arena {
namespace {

using testing::HasSubstr;

arena_case case_named(const std::string& name) {
    for (const arena_case& c : all_cases()) {
        if (c.name == name) {
            return c;
        }
    }
    ADD_FAILURE() << name;
    return {};
}

/// Runs cases in one worker, or in several where one ends early.
std::vector<outcome> run_cases(const std::string& allocator, const std::vector<std::string>& names,
                               absl::Duration limit = absl::Seconds(100)) {
    std::vector<arena_case> cases;
    cases.reserve(names.size());
    for (const std::string& name : names) {
        cases.push_back(case_named(name));
    }
    std::vector<outcome> all;
    const conditions with{simt::device_kind::emulated, 2, 32 << 20, 2, limit, true};
    run_in_workers(allocator, cases, with, [&](const arena_case& c, const outcome& o) {
        EXPECT_EQ(c.name, names.at(all.size()));
        all.push_back(o);
        return true;
    });
    EXPECT_EQ(all.size(), names.size());
    all.resize(names.size());
    return all;
}

TEST(arena_faults, an_allocator_without_fault_passes_every_kind_of_case) {
    const std::vector<std::string> names = {
        "winter_9a/64",       "winter_9b/64",         "winter_9c/64",        "winter_9d/4096",
        "winter_11a/256",     "winter_11b/8192",      "winter_11e/2^10",     "winter_init",
        "orchard_initialise", "orchard_churn/16-256", "orchard_lists/16-64", "orchard_handover/64",
        "winter_11f",         "winter_11g/uniform",   "winter_11g/pressure", "orchard_streams/64",
        "orchard_beside/64",  "rw_8/16/2^10",         "rw_8_free/512/2^20",  "rw_11/3072",
        "xmalloc_2/4",        "kma_6.1/100",          "kma_6.3/1024",        "kma_6.2/high/4608",
        "align_10a/2^15",     "align_11/8192/2^15",   "gallatin_expansion",  "gallatin_churn/16-4096"};
    const auto all = run_cases("test_sound", names);
    for (std::size_t i = 0; i < names.size(); ++i) {
        EXPECT_EQ(all[i].ended, verdict::ok) << names[i] << ": " << all[i].detail;
        EXPECT_FALSE(all[i].values.empty()) << names[i];
    }
}

TEST(arena_faults, what_a_view_does_not_have_is_not_offered) {
    EXPECT_EQ(run_cases("test_sound", {"orchard_realloc"})[0].ended, verdict::not_offered);
    EXPECT_EQ(run_cases("scan", {"winter_9a/64"})[0].ended, verdict::not_offered);
    EXPECT_EQ(run_cases("array_list", {"winter_9a/64"})[0].ended, verdict::not_offered);
    EXPECT_EQ(run_cases("scan", {"orchard_beside/64"})[0].ended, verdict::not_offered);
    // Its free gives nothing back; the emulated device has no registers; the floor alone runs what has no allocator.
    for (const outcome& o :
         run_cases("test_sound", {"rw_7/50%/1000", "align_10b", "winter_registers/malloc", "rw_1/2^10"})) {
        EXPECT_EQ(o.ended, verdict::not_offered);
    }
    const auto small = run_cases("test_small", {"winter_9a/64", "winter_9a/256"});
    EXPECT_EQ(small[0].ended, verdict::ok);
    EXPECT_EQ(small[1].ended, verdict::not_offered);
}

TEST(arena_faults, orchard_the_floor_and_the_example_pass) {
    for (const char* name : {"orchard", "bump", "mine"}) {
        for (const outcome& o : run_cases(name, {"winter_9d/256", "orchard_lists/16-64", "orchard_classes/512/malloc",
                                                 "orchard_classes/512/free"})) {
            EXPECT_EQ(o.ended, verdict::ok) << name << ": " << o.detail;
        }
    }
    for (const outcome& o : run_cases("orchard", {"orchard_realloc", "rw_7/50%/1000", "rw_7/0.5%/2500", "align_10b",
                                                  "orchard_streams/64", "orchard_beside/64"})) {
        EXPECT_EQ(o.ended, verdict::ok) << o.detail;
        EXPECT_FALSE(o.values.empty());
    }
    const outcome grown = run_cases("orchard", {"ouroboros_3/16"})[0];
    EXPECT_EQ(grown.ended, verdict::ok) << grown.detail;
    ASSERT_EQ(grown.values.size(), 1u);
    EXPECT_GT(grown.values[0], 90) << "percent of the memory: what is freed is handed out again";
    EXPECT_EQ(run_cases("scan", {"winter_11e/2^10"})[0].ended, verdict::ok);
    EXPECT_EQ(run_cases("array_list", {"kma_6.3/1024"})[0].ended, verdict::ok);
    EXPECT_EQ(run_cases("bump", {"rw_1/2^10"})[0].ended, verdict::ok);
}

struct planted_fault {
    const char* allocator;
    const char* where;
    verdict ended;
    const char* detail;
};

class arena_planted : public testing::TestWithParam<planted_fault> {};

TEST_P(arena_planted, is_a_result) {
    const outcome o = run_cases(GetParam().allocator, {GetParam().where})[0];
    EXPECT_EQ(o.ended, GetParam().ended) << word_of(o.ended) << ": " << o.detail;
    EXPECT_THAT(o.detail, HasSubstr(GetParam().detail));
}

INSTANTIATE_TEST_SUITE_P(
    all, arena_planted,
    testing::Values(planted_fault{"test_null", "winter_9a/64", verdict::null, "requests gave null"},
                    planted_fault{"test_null", "orchard_churn/64", verdict::null, "requests gave null"},
                    planted_fault{"test_overlap", "winter_9a/64", verdict::overlap, "overlap another"},
                    planted_fault{"test_overlap", "winter_11b/8192", verdict::overlap, "overlap another"},
                    planted_fault{"test_lost", "winter_9b/64", verdict::overlap, "overlap another"},
                    planted_fault{"test_lost", "orchard_churn/64", verdict::overlap, "lost what was written"},
                    planted_fault{"test_misaligned", "winter_9c/64", verdict::misaligned, "not aligned to 16 B"},
                    planted_fault{"test_misaligned", "orchard_lists/16-64", verdict::misaligned, "not aligned"},
                    planted_fault{"test_null", "kma_6.3/1024", verdict::null, "requests gave null"},
                    planted_fault{"test_lost", "kma_6.3/1024", verdict::overlap, "overlap another"},
                    planted_fault{"test_lost", "orchard_streams/64", verdict::overlap, "overlap another"},
                    planted_fault{"test_lost", "gallatin_expansion", verdict::overlap, "lost what was written"},
                    planted_fault{"test_null", "orchard_beside/64", verdict::null, "requests gave null"},
                    planted_fault{"test_stop", "orchard_beside/64", verdict::crash, "the planted error of a kernel"},
                    planted_fault{"test_leak", "rw_7/50%/1000", verdict::null, "requests gave null"},
                    planted_fault{"test_lost_frees", "align_10b", verdict::overlap, "lost what was written"},
                    planted_fault{"test_leak", "winter_11b/8192", verdict::leak, "0 blocks of"},
                    planted_fault{"test_abort", "winter_9a/64", verdict::crash, "signal 6"},
                    planted_fault{"test_stop", "winter_9a/64", verdict::crash, "the planted error of a kernel"},
                    planted_fault{"test_refused", "winter_9a/64", verdict::crash, "the planted refusal"},
                    planted_fault{"test_refused", "winter_init", verdict::crash, "the planted refusal"}),
    [](const auto& about) {
        std::string name = std::string(about.param.allocator) + "_" + about.param.where;
        std::replace_if(
            name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
        return name;
    });

TEST(arena_faults, a_hang_ends_at_the_limit_and_the_next_case_runs) {
    const auto all = run_cases("test_hang", {"winter_9a/64", "orchard_initialise"}, absl::Milliseconds(300));
    EXPECT_EQ(all[0].ended, verdict::hang);
    EXPECT_EQ(all[0].detail, "no result within 0.3 s");
    // It asks for no memory; a slow machine may need more than the limit to start it.
    EXPECT_THAT(all[1].ended, testing::AnyOf(verdict::ok, verdict::hang));
}

TEST(arena_faults, the_cases_behind_a_crash_run_in_another_process) {
    const auto all = run_cases("test_abort", {"winter_init", "winter_9a/64", "orchard_initialise", "orchard_churn/64"});
    EXPECT_EQ(all[0].ended, verdict::ok);
    EXPECT_EQ(all[1].ended, verdict::crash);
    EXPECT_EQ(all[2].ended, verdict::ok);
    EXPECT_EQ(all[3].ended, verdict::crash);
    const auto stopped = run_cases("test_stop", {"winter_9a/64", "orchard_initialise"});
    EXPECT_EQ(stopped[0].ended, verdict::crash);
    EXPECT_EQ(stopped[1].ended, verdict::ok);
}

TEST(arena_faults, an_allocator_that_there_is_not_is_a_crash) {
    const outcome o = run_cases("test_none", {"winter_9a/64"})[0];
    EXPECT_EQ(o.ended, verdict::crash);
    EXPECT_THAT(o.detail, HasSubstr("there is no allocator 'test_none'"));
}

}  // namespace
}  // namespace orchard::arena
