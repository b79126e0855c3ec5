// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "profiling/arena/worker.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/options/byte_size.hpp"

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

/// Runs cases in one worker, or in several where one ends early. On a GPU the memory is that of a full run: what frees
/// nothing needs it.
std::vector<outcome> run_cases(const std::string& allocator, const std::vector<std::string>& names,
                               absl::Duration limit = absl::Seconds(100),
                               simt::device_kind device = simt::device_kind::emulated,
                               absl::Time until = absl::InfiniteFuture()) {
    std::vector<arena_case> cases;
    cases.reserve(names.size());
    for (const std::string& name : names) {
        cases.push_back(case_named(name));
    }
    std::vector<outcome> all;
    const std::uint64_t memory = device == simt::device_kind::cuda ? default_memory(device, false) : 32 * mib;
    const conditions with{device, 2, memory, 2, limit, true, until};
    run_in_workers(allocator, cases, with, [&](const arena_case& c, const outcome& o) {
        EXPECT_EQ(c.name, names.at(all.size()));
        all.push_back(o);
        return true;
    });
    EXPECT_EQ(all.size(), names.size());
    all.resize(names.size());
    return all;
}

/// On each device; the limit also bounds a kernel that never ends, as its process is killed.
class arena_faults : public testing::TestWithParam<device_option> {
protected:
    void SetUp() override {
        if (const auto choice = choose_device(GetParam()); !choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
    }
    [[nodiscard]] static bool on_gpu() { return GetParam() == device_option::cuda; }
    static std::vector<outcome> run_cases(const std::string& allocator, const std::vector<std::string>& names,
                                          absl::Duration limit = absl::Seconds(100)) {
        return arena::run_cases(allocator, names, limit,
                                on_gpu() ? simt::device_kind::cuda : simt::device_kind::emulated);
    }
};

INSTANTIATE_TEST_SUITE_P(all, arena_faults, testing::Values(device_option::emulated, device_option::cuda),
                         [](const auto& about) { return about.param == device_option::cuda ? "cuda" : "emulated"; });

TEST_P(arena_faults, an_allocator_without_fault_passes_every_kind_of_case) {
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

TEST_P(arena_faults, what_a_view_does_not_have_is_not_offered) {
    EXPECT_EQ(run_cases("test_sound", {"orchard_realloc"})[0].ended, verdict::not_offered);
    EXPECT_EQ(run_cases("scan", {"winter_9a/64"})[0].ended, verdict::not_offered);
    EXPECT_EQ(run_cases("array_list", {"winter_9a/64"})[0].ended, verdict::not_offered);
    EXPECT_EQ(run_cases("scan", {"orchard_beside/64"})[0].ended, verdict::not_offered);
    // Its free gives nothing back; the emulated device has no registers; the floor alone runs what has no allocator.
    for (const outcome& o : run_cases("test_sound", {"rw_7/50%/1000", "align_10b", "ouroboros_3/16", "rw_1/2^10"})) {
        EXPECT_EQ(o.ended, verdict::not_offered);
    }
    EXPECT_EQ(run_cases("test_sound", {"winter_registers/malloc"})[0].ended,
              on_gpu() ? verdict::ok : verdict::not_offered);
    const auto small = run_cases("test_small", {"winter_9a/64", "winter_9a/256"});
    EXPECT_EQ(small[0].ended, verdict::ok);
    EXPECT_EQ(small[1].ended, verdict::not_offered);
}

TEST_P(arena_faults, orchard_the_floor_and_the_example_pass) {
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
    EXPECT_EQ(run_cases("scan", {"winter_11e/2^10"})[0].ended, verdict::ok);
    EXPECT_EQ(run_cases("array_list", {"kma_6.3/1024"})[0].ended, verdict::ok);
    EXPECT_EQ(run_cases("bump", {"rw_1/2^10"})[0].ended, verdict::ok);
}

TEST_P(arena_faults, slow_growth_hands_out_again_what_is_freed) {
    const outcome grown = run_cases("orchard", {"ouroboros_3/16"})[0];
    EXPECT_EQ(grown.ended, verdict::ok) << grown.detail;
    ASSERT_EQ(grown.values.size(), 1u);
    EXPECT_GT(grown.values[0], 90) << "percent of the memory";
}

struct planted_fault {
    const char* allocator;
    const char* where;
    verdict ended;
    const char* detail;
};

const planted_fault planted_faults[] = {
    {"test_null", "winter_9a/64", verdict::null, "requests gave null"},
    {"test_null", "orchard_churn/64", verdict::null, "requests gave null"},
    {"test_overlap", "winter_9a/64", verdict::overlap, "overlap another"},
    {"test_overlap", "winter_11b/8192", verdict::overlap, "overlap another"},
    {"test_lost", "winter_9b/64", verdict::overlap, "overlap another"},
    {"test_lost", "orchard_churn/64", verdict::overlap, "lost what was written"},
    {"test_misaligned", "winter_9c/64", verdict::misaligned, "not aligned to 16 B"},
    {"test_misaligned", "orchard_lists/16-64", verdict::misaligned, "not aligned"},
    {"test_null", "kma_6.3/1024", verdict::null, "requests gave null"},
    {"test_lost", "kma_6.3/1024", verdict::overlap, "overlap another"},
    {"test_lost", "orchard_streams/64", verdict::overlap, "overlap another"},
    {"test_lost", "gallatin_expansion", verdict::overlap, "lost what was written"},
    {"test_null", "orchard_beside/64", verdict::null, "requests gave null"},
    {"test_stop", "orchard_beside/64", verdict::crash, "the planted error of a kernel"},
    {"test_leak", "rw_7/50%/1000", verdict::null, "requests gave null"},
    {"test_lost_frees", "align_10b", verdict::overlap, "lost what was written"},
    {"test_leak", "winter_11b/8192", verdict::leak, "0 blocks of"},
    {"test_abort", "winter_9a/64", verdict::crash, "signal 6"},
    {"test_stop", "winter_9a/64", verdict::crash, "the planted error of a kernel"},
    {"test_refused", "winter_9a/64", verdict::crash, "the planted refusal"},
    {"test_refused", "winter_init", verdict::crash, "the planted refusal"},
    {"test_lost_frees", "ouroboros_3/16", verdict::overlap, "overlap another"},
};

TEST_P(arena_faults, each_planted_one_is_a_result) {
    for (const planted_fault& p : planted_faults) {
        const outcome o = run_cases(p.allocator, {p.where})[0];
        SCOPED_TRACE(std::string(p.allocator) + ", " + p.where);
        EXPECT_EQ(o.ended, p.ended) << word_of(o.ended) << ": " << o.detail;
        // Of a kernel on a GPU that ends with an error the driver says in its own words what happened.
        const bool by_driver = on_gpu() && p.ended == verdict::crash && p.allocator != std::string("test_refused");
        EXPECT_THAT(o.detail, HasSubstr(by_driver ? "" : p.detail));
    }
}

TEST_P(arena_faults, a_hang_ends_at_the_limit_and_the_next_case_runs) {
    // On a GPU there is time enough to begin the kernel.
    const auto all = run_cases("test_hang", {"winter_9a/64", "orchard_initialise"},
                               on_gpu() ? absl::Seconds(5) : absl::Milliseconds(300));
    EXPECT_EQ(all[0].ended, verdict::hang);
    EXPECT_EQ(all[0].detail, on_gpu() ? "no result within 5 s" : "no result within 0.3 s");
    // It asks for no memory; a slow machine may need more than the limit to start it.
    EXPECT_THAT(all[1].ended, testing::AnyOf(verdict::ok, verdict::hang));
}

TEST_P(arena_faults, the_cases_behind_a_crash_run_in_another_process) {
    const auto all = run_cases("test_abort", {"winter_init", "winter_9a/64", "orchard_initialise", "orchard_churn/64"});
    EXPECT_EQ(all[0].ended, verdict::ok);
    EXPECT_EQ(all[1].ended, verdict::crash);
    EXPECT_EQ(all[2].ended, verdict::ok);
    EXPECT_EQ(all[3].ended, verdict::crash);
    const auto stopped = run_cases("test_stop", {"winter_9a/64", "orchard_initialise"});
    EXPECT_EQ(stopped[0].ended, verdict::crash);
    EXPECT_EQ(stopped[1].ended, verdict::ok);
}

TEST(arena_workers, what_lacks_time_is_not_run) {
    const auto began = absl::Now();
    const auto all = run_cases("test_hang", {"winter_9a/64", "orchard_churn/64"}, absl::Seconds(100),
                               simt::device_kind::emulated, began + absl::Milliseconds(500));
    EXPECT_LT(absl::Now() - began, absl::Seconds(50)) << "far less than the limit of a case";
    for (const outcome& o : all) {
        EXPECT_EQ(o.ended, verdict::not_run) << o.detail;
        EXPECT_EQ(o.detail, "the time of the whole call is over");
    }
}

TEST(arena_workers, an_allocator_that_there_is_not_is_a_crash) {
    const outcome o = run_cases("test_none", {"winter_9a/64"})[0];
    EXPECT_EQ(o.ended, verdict::crash);
    EXPECT_THAT(o.detail, HasSubstr("there is no allocator 'test_none'"));
}

}  // namespace
}  // namespace orchard::arena
