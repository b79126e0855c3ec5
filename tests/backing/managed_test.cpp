// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The managed backing: its calls to the UVM driver, and their times.

#include <string>
#include <vector>

#include "tests/backing/elastic_fixture.hpp"
#include "uvm/memory/managed_memory.hpp"

namespace orchard {
namespace {

/// The recorded calls, in order: "advise cpu_resident [0, +32)"; segments from the base.
struct managed_script {
    std::vector<std::string> calls;
    bool discards = true;
    absl::Status prefetches;  ///< how prefetches end
    absl::Status discarded;   ///< and discards
};

class fake_managed_memory final : public managed_memory {
public:
    explicit fake_managed_memory(managed_script& script) : script_{script} {}

    absl::StatusOr<char*> allocate(std::size_t bytes) override {
        auto made = real_->allocate(bytes);
        base_ = made.ok() ? *made : nullptr;
        return made;
    }
    absl::Status advise(char* at, std::size_t bytes, managed_advice what) override {
        note(absl::StrFormat("advise %d", static_cast<int>(what)), at, bytes);
        return absl::OkStatus();
    }
    absl::Status prefetch(char* at, std::size_t bytes, memory_tier to) override {
        note(to == memory_tier::device ? "to device" : "to host", at, bytes);
        return script_.prefetches;
    }
    [[nodiscard]] bool can_discard() const override { return script_.discards; }
    absl::Status discard(char* at, std::size_t bytes) override {
        note("discard", at, bytes);
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
    /// Returns a backing of 16 segments, otherwise as `shape`.
    std::unique_ptr<backing> make_16(managed_shape shape = {}) {
        shape.bytes = 16 * segment_bytes + 5;
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
