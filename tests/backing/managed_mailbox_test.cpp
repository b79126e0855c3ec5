// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Managed memory for a mailbox, on a driver of which a call fails: the error names the option and the way out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/heap/heap_memory.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/memory/managed_memory.hpp"

namespace orchard::test {
namespace {

/// What a heap has asked of the memory.
struct asked {
    std::size_t bytes = 0;
    std::vector<managed_advice> advice;
};

/// Managed memory of the host that lies where `room` is, and whose calls give these answers.
class scripted_managed_memory final : public managed_memory {
public:
    scripted_managed_memory(std::vector<char>& room, asked& calls, absl::Status allocates, absl::Status advises)
        : room_{room}, calls_{calls}, allocates_{std::move(allocates)}, advises_{std::move(advises)} {}

    absl::StatusOr<char*> allocate(std::size_t bytes) override {
        calls_.bytes = bytes;
        room_.assign(bytes, 'x');
        return allocates_.ok() ? absl::StatusOr<char*>(room_.data()) : allocates_;
    }
    absl::Status advise(char*, std::size_t, managed_advice what) override {
        calls_.advice.push_back(what);
        return advises_;
    }
    absl::Status begin_prefetch(char*, std::size_t, memory_tier) override { return absl::OkStatus(); }
    [[nodiscard]] bool is_moving() const override { return false; }
    absl::Status finish() override { return absl::OkStatus(); }
    [[nodiscard]] bool can_discard() const override { return false; }
    absl::Status discard(char*, std::size_t) override { return absl::OkStatus(); }

private:
    std::vector<char>& room_;
    asked& calls_;
    absl::Status allocates_;
    absl::Status advises_;
};

class managed_mailbox : public ::testing::Test {
protected:
    absl::StatusOr<host_resident_memory> make(const absl::Status& allocates, const absl::Status& advises) {
        return make_managed_mailbox(std::unique_ptr<managed_memory>(
                                        std::make_unique<scripted_managed_memory>(room_, calls_, allocates, advises)),
                                    5000);
    }
    /// Expects that it could not be had, for the driver's reason, and that the error says what to do.
    static void expect_remedy(const absl::StatusOr<host_resident_memory>& made, absl::StatusCode code) {
        EXPECT_EQ(made.status().code(), code);
        EXPECT_EQ(made.status().message(), "mailbox_memory managed: the driver's own words; use mailbox_memory pinned");
    }

    std::vector<char> room_;
    asked calls_;
};

TEST_F(managed_mailbox, is_whole_segments_of_zeros_that_stay_on_the_host) {
    const auto made = make(absl::OkStatus(), absl::OkStatus());
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->at, room_.data());
    EXPECT_EQ(calls_.bytes, segment_bytes);
    EXPECT_THAT(calls_.advice, ::testing::ElementsAre(managed_advice::cpu_resident));
    EXPECT_TRUE(std::all_of(room_.begin(), room_.end(), [](char c) { return c == 0; }));
}

TEST_F(managed_mailbox, names_the_remedy_where_the_gpu_has_no_managed_memory) {
    expect_remedy(make_managed_mailbox(absl::FailedPreconditionError("the driver's own words"), 5000),
                  absl::StatusCode::kFailedPrecondition);
}

TEST_F(managed_mailbox, names_the_remedy_where_no_memory_is_left) {
    expect_remedy(make(absl::ResourceExhaustedError("the driver's own words"), absl::OkStatus()),
                  absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(calls_.advice.empty());
}

TEST_F(managed_mailbox, names_the_remedy_where_the_driver_takes_no_advice) {
    expect_remedy(make(absl::OkStatus(), absl::InternalError("the driver's own words")), absl::StatusCode::kInternal);
    EXPECT_EQ(room_.front(), 'x') << "pages that were not advised are not touched";
}

TEST_F(managed_mailbox, is_ordinary_memory_on_the_emulated_device) {
    const auto made = make_managed_mailbox(simt::device_kind::emulated, 5000);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made->at) % segment_bytes, 0u);
    static_cast<char*>(made->at)[4999] = 1;
}

}  // namespace
}  // namespace orchard::test
