// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The managed backing: its calls to the UVM driver, and their times.

#include <string>
#include <thread>
#include <vector>

#include "host/growth.hpp"
#include "tests/backing/elastic_fixture.hpp"
#include "uvm/memory/managed_memory.hpp"

namespace orchard {
namespace {

/// The recorded calls, in order: "advise cpu_resident [0, +32)"; segments from the base.
struct managed_script {
    std::vector<std::string> calls;
    bool discards = true;
    absl::Status prefetches;  ///< how the calls that begin a move end
    absl::Status discarded;   ///< and discards
    int moving = 0;           ///< moves under way: none ends before it is waited for
    int waits = 0;            ///< calls of `finish`
};

class fake_managed_memory final : public managed_memory {
public:
    explicit fake_managed_memory(managed_script& script) : script_{script} {}
    ~fake_managed_memory() override { EXPECT_EQ(script_.moving, 0) << "the memory ends under a move"; }

    absl::StatusOr<char*> allocate(std::size_t bytes) override {
        auto made = real_->allocate(bytes);
        base_ = made.ok() ? *made : nullptr;
        return made;
    }
    absl::Status advise(char* at, std::size_t bytes, managed_advice what) override {
        note(absl::StrFormat("advise %d", static_cast<int>(what)), at, bytes);
        return absl::OkStatus();
    }
    absl::Status begin_prefetch(char* at, std::size_t bytes, memory_tier to) override {
        note(to == memory_tier::device ? "to device" : "to host", at, bytes);
        script_.moving += script_.prefetches.ok() ? 1 : 0;
        return script_.prefetches;
    }
    [[nodiscard]] bool is_moving() const override { return script_.moving != 0; }
    absl::Status finish() override {
        script_.moving = 0;
        ++script_.waits;
        return absl::OkStatus();
    }
    [[nodiscard]] bool can_discard() const override { return script_.discards; }
    absl::Status discard(char* at, std::size_t bytes) override {
        note("discard", at, bytes);
        script_.moving = 0;  // it waits for itself, and comes after them
        return script_.discarded.ok() ? real_->discard(at, bytes) : script_.discarded;
    }

private:
    void note(const std::string& what, const char* at, std::size_t bytes) {
        const auto offset = static_cast<std::uint64_t>(at - base_);
        EXPECT_EQ(offset % segment_bytes, 0u) << what << ": a VA block would be truncated";
        EXPECT_EQ(bytes % segment_bytes, 0u) << what << ": a VA block would be truncated";
        script_.calls.push_back(absl::StrFormat("%s [%d, +%d)", what, offset / segment_bytes, bytes / segment_bytes));
    }

    managed_script& script_;
    std::unique_ptr<managed_memory> real_ = make_emulated_managed_memory();
    char* base_ = nullptr;
};

class ManagedBacking : public testing::Test {
protected:
    absl::StatusOr<std::unique_ptr<backing>> make(const managed_shape& shape) {
        return make_managed_backing(std::make_unique<fake_driver>(driver), std::make_unique<fake_managed_memory>(told),
                                    shape);
    }
    /// Returns a backing of 16 segments that may be oversubscribed, otherwise as `shape`.
    std::unique_ptr<backing> make_16(managed_shape shape = {}) {
        shape.bytes = 16 * segment_bytes + 5;
        shape.allow_oversubscription = true;
        auto made = make(shape);
        EXPECT_TRUE(made.ok()) << made.status();
        return *std::move(made);
    }

    std::shared_ptr<driver_script> driver = std::make_shared<driver_script>();
    managed_script told;
};

TEST_F(ManagedBacking, IsAdvisedOnceAsAWhole) {
    const auto memory = make_16({.advice = managed_advice::none});
    EXPECT_EQ(memory->segments(), 16u);
    EXPECT_EQ(memory->committed_at_start(), 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->base()) % segment_bytes, 0u);
    EXPECT_EQ(told.calls, (std::vector<std::string>{"advise 2 [0, +16)"}));
    EXPECT_EQ(driver->live().device_bytes, 0u) << "nothing of it comes from the metadata's driver";
}

TEST_F(ManagedBacking, MovesWhatIsCommittedAndGivesUpWhatIsNot) {
    const auto memory = make_16();
    told.calls.clear();
    ASSERT_TRUE(memory->commit(run_at(3, 2)).ok());
    EXPECT_EQ(memory->use().device_bytes, 2 * segment_bytes);
    write_to(memory->base() + 3 * segment_bytes);
    EXPECT_TRUE(memory->can_decommit());
    EXPECT_TRUE(memory->decommits_at_once());
    ASSERT_TRUE(memory->decommit(run_at(3, 2)).ok());
    EXPECT_EQ(memory->use().device_bytes, 0u);
    EXPECT_TRUE(all_zero(memory->base() + 3 * segment_bytes, 16)) << "the contents are given up";
    EXPECT_EQ(told.calls, (std::vector<std::string>{"to device [3, +2)", "discard [3, +2)"}));
}

TEST_F(ManagedBacking, LeavesWhereItIsWhatStaysOnTheHost) {
    const auto memory = make_16({.advice = managed_advice::cpu_resident});
    told.calls.clear();
    ASSERT_TRUE(memory->commit(run_at(0, 16)).ok());
    EXPECT_TRUE(told.calls.empty());
    EXPECT_TRUE(memory->prefetch(memory->base(), segment_bytes, memory_tier::device).ok()) << "unless it is asked for";
    EXPECT_EQ(told.calls.size(), 1u);
}

TEST_F(ManagedBacking, DoesNeitherWhereItIsToldSo) {
    const auto memory = make_16({.prefetch = false, .discard = false});
    told.calls.clear();
    ASSERT_TRUE(memory->commit(run_at(0, 1)).ok());
    EXPECT_FALSE(memory->can_decommit());
    EXPECT_FALSE(memory->decommits_at_once());
    EXPECT_TRUE(told.calls.empty());
    told.discards = false;
    EXPECT_FALSE(make_16()->can_decommit()) << "nor where the driver has no such call";
}

TEST_F(ManagedBacking, DiscardsNothingThatIsNeverEvicted) {
    const auto memory = make({.bytes = 16 * segment_bytes});
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_FALSE((*memory)->can_decommit());
    EXPECT_FALSE((*memory)->decommits_at_once());
}

TEST_F(ManagedBacking, SaysWhatTheDriverRefuses) {
    const auto memory = make_16();
    told.prefetches = absl::InternalError("no way there");
    const commit_outcome failed = memory->commit(run_at(0, 1));
    EXPECT_EQ(failed.why, failure_reason::commit_failed);
    expect_text(failed.status, {"no way there"});
    EXPECT_EQ(memory->use().device_bytes, 0u);
    told.prefetches = absl::OkStatus();
    ASSERT_TRUE(memory->commit(run_at(0, 1)).ok()) << "it may be tried again";
    told.discarded = absl::InternalError("not now");
    expect_text(memory->decommit(run_at(0, 1)), {"not now"});
    EXPECT_EQ(memory->use().device_bytes, segment_bytes) << "it stays committed";
    told.discarded = absl::OkStatus();
    EXPECT_TRUE(memory->decommit(run_at(0, 1)).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(memory->decommit(run_at(0, 1))));
}

TEST_F(ManagedBacking, MovesARunByOneCallAndDoesNotWaitForIt) {
    const auto memory = make_16();
    told.calls.clear();
    EXPECT_FALSE(memory->is_moving());
    ASSERT_TRUE(memory->commit(run_at(2, 9)).ok());
    EXPECT_EQ(told.calls, std::vector<std::string>{"to device [2, +9)"});
    EXPECT_EQ(told.waits, 0);
    EXPECT_TRUE(memory->is_moving());
    EXPECT_TRUE(absl::IsFailedPrecondition(memory->commit(run_at(10, 2)).status)) << "a part of it is committed";
}

/// A segment is given up while the move of its run is under way: the discard is called after the move, and is complete
/// when the segment may be committed again.
TEST_F(ManagedBacking, GivesUpAnySegmentsOfARunBehindTheirMove) {
    const auto memory = make_16();
    ASSERT_TRUE(memory->commit(run_at(0, 8)).ok());
    ASSERT_TRUE(memory->commit(run_at(8, 4)).ok());
    told.calls.clear();
    write_to(memory->base() + 3 * segment_bytes);
    write_to(memory->base() + 4 * segment_bytes);
    ASSERT_TRUE(memory->decommit(run_at(3, 1)).ok());
    EXPECT_FALSE(memory->is_moving()) << "it waits";
    EXPECT_TRUE(all_zero(memory->base() + 3 * segment_bytes, 16));
    EXPECT_FALSE(all_zero(memory->base() + 4 * segment_bytes, 16)) << "not given up";
    ASSERT_TRUE(memory->commit(run_at(3, 1)).ok());
    ASSERT_TRUE(memory->decommit(run_at(7, 3)).ok()) << "of two calls";
    EXPECT_EQ(told.calls, (std::vector<std::string>{"discard [3, +1)", "to device [3, +1)", "discard [7, +3)"}));
    EXPECT_EQ(memory->use().device_bytes, 9 * segment_bytes);
    EXPECT_TRUE(absl::IsFailedPrecondition(memory->decommit(run_at(6, 2)))) << "7 is given up already";
    EXPECT_EQ(told.calls.size(), 3u);
    EXPECT_EQ(memory->use().device_bytes, 9 * segment_bytes);
}

/// 10 segments are free, so that 9 are moved: a run that would be the tenth is not, whatever was committed before.
TEST_F(ManagedBacking, MovesNothingBeyondNineTenthsOfWhatTheDeviceHadFree) {
    driver->limit(memory_tier::device, 10 * segment_bytes);
    const auto memory = make_16({.allow_oversubscription = true});
    told.calls.clear();
    ASSERT_TRUE(memory->commit(run_at(0, 8)).ok());
    ASSERT_TRUE(memory->commit(run_at(8, 2)).ok());
    EXPECT_EQ(told.calls, std::vector<std::string>{"to device [0, +8)"}) << "10 would be committed";
    ASSERT_TRUE(memory->decommit(run_at(0, 3)).ok());
    told.calls.clear();
    ASSERT_TRUE(memory->commit(run_at(0, 2)).ok());
    EXPECT_EQ(told.calls, std::vector<std::string>{"to device [0, +2)"}) << "the ninth";
    ASSERT_TRUE(memory->commit(run_at(2, 1)).ok());
    EXPECT_EQ(told.calls.size(), 1u);
    EXPECT_EQ(memory->use().device_bytes, 10 * segment_bytes) << "committed all the same";
}

/// Advice that keeps memory on the host would be undone by a move that takes place later.
TEST_F(ManagedBacking, AdvisesWhenWhatWasCommittedHasMoved) {
    const auto memory = make_16();
    ASSERT_TRUE(memory->commit(run_at(0, 4)).ok());
    EXPECT_TRUE(memory->advise(memory->base(), segment_bytes, managed_advice::cpu_resident).ok());
    EXPECT_FALSE(memory->is_moving());
}

/// Advice for segments that have no owner yet: memory that is to stay on the host moves back behind its move to the
/// GPU. Their decommit gives the heap's advice again, and to no others.
TEST_F(ManagedBacking, AdvisesSegmentsUntilTheyAreGivenUp) {
    const auto memory = make_16({.advice = managed_advice::read_mostly});
    ASSERT_TRUE(memory->commit(run_at(0, 8)).ok());
    told.calls.clear();
    const auto advise = [&](std::uint32_t first, std::uint32_t count, managed_advice what) {
        return memory->advise_segments(run_at(first, count), code_of(what, managed_advice::read_mostly));
    };
    EXPECT_TRUE(memory->takes_advice());
    EXPECT_TRUE(advise(1, 2, managed_advice::cpu_resident).ok());
    EXPECT_TRUE(advise(4, 1, managed_advice::none).ok());
    EXPECT_TRUE(advise(5, 1, managed_advice::first_touch_gpu).ok());
    EXPECT_EQ(told.calls, (std::vector<std::string>{"advise 1 [1, +2)", "to host [1, +2)", "advise 2 [4, +1)",
                                                    "advise 0 [5, +1)"}));
    EXPECT_EQ(told.waits, 0);
    EXPECT_TRUE(absl::IsFailedPrecondition(advise(7, 2, managed_advice::none))) << "8 is not committed";
    told.calls.clear();
    ASSERT_TRUE(memory->decommit(run_at(0, 6)).ok());
    EXPECT_EQ(told.calls, (std::vector<std::string>{"discard [0, +6)", "advise 3 [1, +2)", "advise 3 [4, +2)"}));
    ASSERT_TRUE(memory->commit(run_at(0, 6)).ok());
    told.calls.clear();
    ASSERT_TRUE(memory->decommit(run_at(0, 6)).ok());
    EXPECT_EQ(told.calls, std::vector<std::string>{"discard [0, +6)"});
}

TEST_F(ManagedBacking, AdvisesSegmentsAlsoWhereNothingIsMovedOrDiscarded) {
    const auto memory = make_16({.prefetch = false, .discard = false});
    ASSERT_TRUE(memory->commit(run_at(0, 2)).ok());
    told.calls.clear();
    ASSERT_TRUE(memory->advise_segments(run_at(1, 1), 1).ok());
    ASSERT_TRUE(memory->decommit(run_at(1, 1)).ok());
    EXPECT_EQ(told.calls, (std::vector<std::string>{"advise 1 [1, +1)", "advise 0 [1, +1)"}));
}

TEST_F(ManagedBacking, EndsWhenWhatWasCommittedHasMoved) {
    auto memory = make_16();
    ASSERT_TRUE(memory->commit(run_at(0, 4)).ok());
    EXPECT_EQ(told.moving, 1);
    memory.reset();  // the fake looks
    EXPECT_EQ(told.waits, 1);
}

/// The growth of a heap, by the thread of growth's own code: one move for all that is wanted.
TEST_F(ManagedBacking, GrowsByOneMoveForAllThatIsWanted) {
    const auto memory = make_16();
    growth g(*memory, {1, 8});
    told.calls.clear();
    g.want(5);
    while (g.step()) {
    }
    g.want(5 + 10);
    while (g.step()) {
    }
    EXPECT_EQ(told.calls, (std::vector<std::string>{"to device [0, +5)", "to device [5, +8)", "to device [13, +2)"}));
    EXPECT_EQ(told.waits, 0);
    for (const std::uint32_t segment : {6u, 1u}) {
        EXPECT_TRUE(g.release({run_at(segment, 1), memory_tier::device}));
    }
    told.calls.clear();
    g.want(15 + 2);
    while (g.step()) {
    }
    EXPECT_EQ(told.calls, (std::vector<std::string>{"discard [6, +1)", "discard [1, +1)", "to device [1, +1)",
                                                    "to device [6, +1)"}));
    EXPECT_EQ(g.line().taken_again.load<simt::order::relaxed>(), 0u);
}

/// Segments that come back together are given up by one call, in the order in which they came back.
TEST_F(ManagedBacking, GivesUpNeighboursByOneCall) {
    const auto memory = make_16();
    growth g(*memory, {1, 16});
    g.want(16);
    while (g.step()) {
    }
    EXPECT_EQ(g.line().ready.pop(), (extent{run_at(0, 16), memory_tier::device}));
    told.calls.clear();
    for (const std::uint32_t segment : {4u, 5u, 6u, 3u, 1u, 9u, 8u}) {
        EXPECT_TRUE(g.release({run_at(segment, 1), memory_tier::device}));
    }
    EXPECT_TRUE(g.step());
    EXPECT_EQ(told.calls, (std::vector<std::string>{"discard [3, +4)", "discard [1, +1)", "discard [8, +2)"}));
    EXPECT_EQ(g.line().decommitted.load<simt::order::acquire>(), 7u);
    // What cannot be given up goes back as it was to go.
    told.discarded = absl::InternalError("not now");
    EXPECT_TRUE(g.release({run_at(11, 1), memory_tier::device}));
    EXPECT_TRUE(g.release({run_at(12, 1), memory_tier::device}));
    EXPECT_TRUE(g.step());
    EXPECT_EQ(g.line().ready.pop(), (extent{run_at(11, 2), memory_tier::device}));
    EXPECT_EQ(g.line().taken_again.load<simt::order::acquire>(), 2u);
    EXPECT_EQ(memory->use().device_bytes, 9 * segment_bytes);
}

/// Shutdown: a heap ends with commits that no one has taken up, and with moves under way.
TEST_F(ManagedBacking, EndsBehindAGrowthThatWasNotTakenUp) {
    auto memory = make_16();
    {
        growth g(*memory, {1, 8});
        g.want(16);
        g.start();
        while (g.line().committed.load<simt::order::acquire>() < 16) {
            std::this_thread::yield();
        }
    }
    EXPECT_EQ(told.moving, 2);
    memory.reset();
    EXPECT_EQ(told.moving, 0);
}

TEST_F(ManagedBacking, RefusesMoreThanNineTenthsOfWhatIsFreeUnlessThatIsAskedFor) {
    driver->limit(memory_tier::device, 10 * segment_bytes);
    managed_shape shape{.bytes = 11 * segment_bytes};
    const auto refused = make(shape);
    EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
    expect_text(refused.status(),
                {std::to_string(11 * segment_bytes), std::to_string(10 * segment_bytes), "allow_oversubscription"});
    EXPECT_TRUE(told.calls.empty());
    shape.allow_oversubscription = true;
    EXPECT_TRUE(make(shape).ok());
    shape = {.bytes = 10 * segment_bytes};
    EXPECT_TRUE(absl::IsResourceExhausted(make(shape).status())) << "more than nine tenths";
    shape.bytes = 9 * segment_bytes;
    EXPECT_TRUE(make(shape).ok());
    shape.bytes = segment_bytes - 1;
    EXPECT_TRUE(absl::IsInvalidArgument(make(shape).status()));
}

}  // namespace
}  // namespace orchard
