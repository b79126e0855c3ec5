// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A scenario finds each deliberate fault of `device/simt/mutation.cuh` within its budget of seeds. The same seeds find
/// no fault in the unchanged code. Each fault of the code that exploring once found is among them: docs/reliability.md.

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "device/simt/mutation.cuh"
#include "tests/explore/scenario.hpp"

static_assert(ORCHARD_MUTATIONS == 1, "this program is for code with its deliberate faults");

namespace orchard::explore {
namespace {

using simt::mutation::fault;

struct finder {
    fault planted;
    const char* scenario;
    std::uint64_t budget;  ///< seeds
};

// Budgets are at least ten times what was needed, so that a change elsewhere does not make them fail by bad luck.
constexpr finder finders[] = {
    {fault::claim_acquire, "page_claim", 100},
    {fault::free_release, "page_claim", 100},
    {fault::free_sync, "page_claim", 500},
    {fault::free_check, "slab_turnover", 500},
    {fault::claim_check, "page_retire", 500},
    {fault::retire_order, "page_retire", 500},
    {fault::retire_claim, "page_retire", 500},
    {fault::share_ballot, "page_claim", 500},
    {fault::lap_tag, "mailbox", 500},
    {fault::credit, "credits", 500},
    {fault::abandonment, "abandonment", 500},
    {fault::cursor, "mailbox", 500},
    {fault::acknowledgement, "mailbox", 500},
    {fault::epoch, "poller_handover", 500},
    {fault::response_order, "grant_return", 500},
    {fault::late_reading, "poller_stall", 20000},
    {fault::late_delivery, "poller_stall", 20000},
    {fault::takeover_mark, "poller_stall", 40000},
    {fault::live_order, "arrays", 500},
    {fault::array_room, "arrays", 500},
    {fault::array_after, "arrays", 500},
    {fault::live_look, "stale_frees", 500},
    {fault::ring_end, "host_frees", 3000},
    {fault::event_room, "event_ring", 500},
    {fault::event_sync, "event_ring", 2000},
    {fault::reclaim_age, "shortage", 500},
    {fault::reclaim_patience, "lost_refill", 500},
    {fault::one_reclaim, "slow_request", 2000},
    {fault::refill_wait, "refill_after_lack", 20000},
    {fault::refill_after_lack, "refill_after_lack", 120000},
    {fault::exhausted_size, "shortage", 500},
    {fault::look_again, "dead_service_whole_warp", 50},
    {fault::record_fence, "failure_records", 1000},
    {fault::record_turn, "failure_records", 500},
    {fault::record_sync, "portions", 5000},
    {fault::return_sync, "cache_refill", 20000},
    {fault::spare_claim, "page_claim", 500},
    {fault::lost_lease, "poller_death", 500},
    {fault::share_sum, "exact_fit", 15000},
    {fault::walk_claim, "exact_fit", 500},
    {fault::entry_swap, "slab_ahead", 60000},
    {fault::maker_pages, "last_segment", 15000},
    {fault::note_age, "service_again", 500},
    {fault::racing_free, "double_free", 500},
    {fault::store_order, "chunk_store", 500},
    {fault::store_claim, "chunk_store", 20000},
    {fault::pending_tails, "portions", 500},
    {fault::store_again, "store_takers", 100},
    {fault::store_spill, "chunk_store", 500},
    {fault::extend_undo, "extensions", 3000},
    {fault::run_across, "cache_refill", 500},
    {fault::reserved_index, "slab_ahead", 500},
    {fault::late_tail, "blocked_commit_unzeroed", 10000},
    {fault::copy_beyond, "resizes", 500},
    {fault::copy_spare, "resizes", 500},
    {fault::copy_short, "resizes", 500},
    {fault::page_alignment, "alignments", 500},
    {fault::class_alignment, "alignments", 500},
    {fault::block_alignment, "alignments", 500},
    {fault::leaf_alignment, "alignments", 500},
    {fault::scan_leave, "exact_fit_words", 1000},
    {fault::maker_deadline, "slab_maker_death", 50},
    {fault::drain_sync, "chunk_store", 500},
    {fault::numbers_kept, "array_list", 500},
    {fault::list_visit, "array_list", 5000},
    {fault::buffer_sync, "monotonic_buffer", 500},
    {fault::visit_order, "work_queue", 500},
    {fault::late_write, "work_queue", 500},
    {fault::map_split, "hash_map", 5000},
    {fault::map_recheck, "hash_map", 5000},
    {fault::map_version, "hash_map", 5000},
    {fault::map_depth, "hash_map", 5000},
    {fault::map_together, "hash_map", 5000},
    {fault::map_unlock, "hash_map_words", 5000},
    {fault::fifo_release, "xmalloc", 5000},
    {fault::area_count, "xmalloc", 5000},
    {fault::superblock_bit, "kma", 5000},
    {fault::superblock_tail, "kma", 5000},
    {fault::superblock_value, "kma", 5000},
    {fault::chunk_bit, "ouroboros", 5000},
    {fault::chunk_promised, "ouroboros", 5000},
    {fault::chunk_listed, "ouroboros", 60000},
    {fault::page_put, "ouroboros", 5000},
    {fault::link_current, "ouroboros_queues", 150000},
    // The scenario that draws its options and faults finds faults of all parts, too.
    {fault::claim_acquire, "any_options", 100},
    {fault::free_check, "any_options", 100},
    {fault::abandonment, "any_options", 100},
    {fault::acknowledgement, "any_options", 100},
    {fault::store_order, "any_options", 100},
    {fault::store_spill, "any_options", 100},
    {fault::graph_lock, "graphs", 500},
    {fault::graph_look, "graphs", 500},
    {fault::graph_in_place, "graphs", 500},
    {fault::graph_close, "graphs", 500},
    {fault::graph_retire, "graphs", 500},
    {fault::vertex_look, "graph_vertices", 500},
    {fault::vertex_order, "graph_vertices", 500},
    {fault::batch_step, "graph_batch", 500},
    {fault::batch_left, "graph_batch", 500},
    {fault::batch_property, "graph_batch_properties", 500},
    {fault::copy_spare, "any_options", 200},
    {fault::maker_deadline, "any_options", 200},
};

const char* name_of(fault f) {
    switch (f) {
#define ORCHARD_FAULT_NAME(name, help)                                                                                 \
    case fault::name: return #name;
        ORCHARD_FAULTS(ORCHARD_FAULT_NAME)
#undef ORCHARD_FAULT_NAME
    }
    return "";
}

/// Returns the finding of the run of one seed; empty if there is none.
std::string run_seed(const scenario& s, std::uint64_t seed) {
    const auto how = seed % 2 == 0 ? simt::explore::strategy::uniform : simt::explore::strategy::priority;
    const auto choices = simt::explore::choices_of(how, seed);
    simt::explore::simulation simulation(*choices);
    world w{simulation, s.size};
    s.run(w);
    return simulation.result().violation;
}

class mutant : public testing::TestWithParam<finder> {
protected:
    ~mutant() override { simt::mutation::chosen = fault::none; }
};

TEST_P(mutant, is_found) {
    const scenario* const s = find_scenario(GetParam().scenario);
    ASSERT_NE(s, nullptr) << GetParam().scenario;
    std::optional<std::uint64_t> found;
    for (std::uint64_t seed = 0; seed < GetParam().budget && !found; ++seed) {
        simt::mutation::chosen = GetParam().planted;
        const std::string violation = run_seed(*s, seed);
        if (!violation.empty()) {
            found = seed;
            std::cout << name_of(GetParam().planted) << ": found by scenario " << s->name << ", seed " << seed << ": "
                      << violation.substr(0, violation.find('\n')) << "\n";
            RecordProperty("seed", std::to_string(seed));
        }
        simt::mutation::chosen = fault::none;
        ASSERT_EQ(run_seed(*s, seed), "") << "without the fault, seed " << seed;
    }
    EXPECT_TRUE(found) << "not found within " << GetParam().budget << " seeds of " << s->name;
}

INSTANTIATE_TEST_SUITE_P(all, mutant, testing::ValuesIn(finders), [](const auto& test) {
    const std::string name = name_of(test.param.planted);
    return std::string_view(test.param.scenario) == "any_options" ? name + "_by_any_options" : name;
});

TEST(mutants, all_have_a_finder) {
    std::set<fault> covered{fault::none};
    for (const finder& f : finders) {
        covered.insert(f.planted);
    }
#define ORCHARD_FAULT_COVERED(name, help) EXPECT_TRUE(covered.contains(fault::name)) << #name << ": " << (help);
    ORCHARD_FAULTS(ORCHARD_FAULT_COVERED)
#undef ORCHARD_FAULT_COVERED
}

}  // namespace
}  // namespace orchard::explore
