// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The warnings of a heap, and that programs print each of them once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cli/program_heap.hpp"
#include "runtime/heap/heap_warnings.hpp"
#include "tests/support/fake_driver.hpp"
#include "tests/support/heap_service_peer.hpp"

namespace orchard::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

options small_heap(backing_option backing, std::uint64_t host_budget = 0) {
    options values;
    values.device = device_option::emulated;
    values.backing = backing;
    values.capacity = 16 * segment_bytes;
    values.host_budget = host_budget;
    values.emulated_workers = 1;
    return values;
}

/// The emulated device's driver with a warning.
class warning_driver final : public memory_driver {
public:
    explicit warning_driver(std::vector<std::string> lines) : lines_{std::move(lines)} {}
    [[nodiscard]] std::vector<std::string> warnings() const override { return lines_; }

    [[nodiscard]] std::size_t granularity() const override { return real_->granularity(); }
    [[nodiscard]] bool has_host_tier() const override { return real_->has_host_tier(); }
    absl::StatusOr<amounts> device_memory() override { return real_->device_memory(); }
    absl::StatusOr<char*> reserve(std::size_t bytes, std::size_t a) override { return real_->reserve(bytes, a); }
    void unreserve(char* at, std::size_t bytes) override { real_->unreserve(at, bytes); }
    absl::StatusOr<memory_handle> create(std::size_t n, memory_tier tier) override { return real_->create(n, tier); }
    void destroy(memory_handle memory, std::size_t bytes) override { real_->destroy(memory, bytes); }
    absl::Status map(char* at, std::size_t bytes, memory_handle m) override { return real_->map(at, bytes, m); }
    absl::Status set_access(char* at, std::size_t bytes) override { return real_->set_access(at, bytes); }
    absl::Status unmap(char* at, std::size_t bytes) override { return real_->unmap(at, bytes); }
    absl::StatusOr<void*> allocate(std::size_t bytes) override { return real_->allocate(bytes); }
    absl::StatusOr<void*> allocate_host_visible(std::size_t n) override { return real_->allocate_host_visible(n); }
    [[nodiscard]] void* stream() const override { return real_->stream(); }
    absl::Status read(void* to, const void* from, std::size_t n) override { return real_->read(to, from, n); }
    absl::Status write(void* to, const void* from, std::size_t n) override { return real_->write(to, from, n); }
    absl::Status begin_copies(int q, std::vector<memory_copy> c) override {
        return real_->begin_copies(q, std::move(c));
    }
    absl::Status finish_copies(int q) override { return real_->finish_copies(q); }
    absl::Status finish_stream(void* s) override { return real_->finish_stream(s); }

private:
    std::vector<std::string> lines_;
    std::unique_ptr<memory_driver> real_ = make_emulated_driver();
};

TEST(heap_warnings, none_where_all_is_well) {
    for (const backing_option backing :
         {backing_option::automatic, backing_option::fixed, backing_option::elastic, backing_option::managed}) {
        const auto made = heap::create(small_heap(backing));
        ASSERT_TRUE(made.ok()) << made.status();
        EXPECT_THAT(made->warnings(), IsEmpty()) << "backing " << static_cast<int>(backing);
    }
}

TEST(heap_warnings, repeat_those_of_the_driver) {
    const auto made =
        heap_service_peer::make(small_heap(backing_option::elastic),
                                std::make_unique<warning_driver>(std::vector<std::string>{"the first", "the second"}));
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_THAT(made->warnings(), ElementsAre("the first", "the second"));
}

TEST(heap_warnings, a_host_budget_without_a_host_tier) {
    for (const bool host_tier : {true, false}) {
        auto script = std::make_shared<rig::driver_script>();
        script->host_tier = host_tier;
        const auto made = heap_service_peer::make(small_heap(backing_option::elastic, 8 * segment_bytes),
                                                  std::make_unique<rig::fake_driver>(script));
        ASSERT_TRUE(made.ok()) << made.status();
        if (host_tier) {
            EXPECT_THAT(made->warnings(), IsEmpty());
        } else {
            EXPECT_THAT(made->warnings(),
                        ElementsAre(AllOf(HasSubstr("host_budget is 16777216 bytes"), HasSubstr("raise the option"))));
        }
    }
}

TEST(heap_warnings, no_host_tier_matters_only_with_a_host_budget) {
    auto script = std::make_shared<rig::driver_script>();
    script->host_tier = false;
    const auto made =
        heap_service_peer::make(small_heap(backing_option::elastic), std::make_unique<rig::fake_driver>(script));
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_THAT(made->warnings(), IsEmpty());
}

TEST(heap_warnings, a_managed_heap_whose_kernels_are_loaded_lazily) {
    const auto lines = [](simt::device_kind device, bool eagerly, const options& values) {
        return detail::warnings_of({device, values.backing, eagerly}, values);
    };
    options managed = small_heap(backing_option::managed);
    EXPECT_THAT(lines(simt::device_kind::cuda, false, managed), IsEmpty()) << "growth waits for no stream";
    managed.allow_oversubscription = true;
    EXPECT_THAT(lines(simt::device_kind::cuda, false, managed),
                ElementsAre(AllOf(HasSubstr("managed"), HasSubstr("heap::preload"), HasSubstr("CUDA_MODULE_LOADING"))));
    EXPECT_THAT(lines(simt::device_kind::cuda, true, managed), IsEmpty());
    EXPECT_THAT(lines(simt::device_kind::emulated, false, managed), IsEmpty());
    EXPECT_THAT(lines(simt::device_kind::cuda, false, small_heap(backing_option::elastic)), IsEmpty());
    managed.discard = false;
    EXPECT_THAT(lines(simt::device_kind::cuda, false, managed), IsEmpty());
}

TEST(heap_warnings, a_backing_that_became_fixed_by_itself) {
    const auto lines = [](backing_option asked, const options& values) {
        return detail::warnings_of({simt::device_kind::cuda, asked, false}, values);
    };
    options fixed = small_heap(backing_option::fixed);
    EXPECT_THAT(lines(backing_option::automatic, fixed),
                ElementsAre(AllOf(HasSubstr("32 MiB"), HasSubstr("does not grow"), HasSubstr("the backing elastic"))));
    EXPECT_THAT(lines(backing_option::fixed, fixed), IsEmpty());
    EXPECT_THAT(lines(backing_option::automatic, small_heap(backing_option::elastic)), IsEmpty());
    fixed.host_budget = segment_bytes;
    EXPECT_THAT(lines(backing_option::automatic, fixed), ElementsAre(HasSubstr("host_budget is not used")));
}

TEST(heap_warnings, an_emulated_device_that_was_chosen_for_want_of_a_gpu) {
    const options values = small_heap(backing_option::elastic);
    EXPECT_THAT(
        detail::warnings_of({.device = simt::device_kind::emulated, .no_gpu = "no driver was found"}, values),
        ElementsAre(AllOf(HasSubstr("no driver was found"), HasSubstr("<<<>>>"), HasSubstr("ORCHARD_DEVICE=cuda"))));
}

TEST(heap_warnings, a_heap_says_its_device_and_why) {
    const auto asked = heap::create(small_heap(backing_option::elastic));
    ASSERT_TRUE(asked.ok()) << asked.status();
    EXPECT_EQ(asked->device().kind, simt::device_kind::emulated);
    EXPECT_EQ(asked->device().reason, "it was asked for");
    options values = small_heap(backing_option::elastic);
    values.device = device_option::automatic;
    const auto chosen = heap::create(values);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const auto expected = choose_device(device_option::automatic);
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_EQ(chosen->device().kind, expected->kind);
    EXPECT_EQ(chosen->device().reason, expected->reason);
    EXPECT_EQ(chosen->device().gpu, expected->gpu);
    EXPECT_EQ(chosen->executor().kind, expected->kind);
}

TEST(heap_warnings, memory_of_the_callers_is_fixed_as_it_was_asked_for) {
    const auto memory = std::make_unique<char[]>(8 * segment_bytes);
    const auto made = heap::create_in(memory.get(), 8 * segment_bytes, small_heap(backing_option::automatic));
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_THAT(made->warnings(), IsEmpty());
}

TEST(heap_warnings, are_printed_once_by_programs) {
    const auto print = [](const char* line) {
        const auto made = heap_service_peer::make(small_heap(backing_option::elastic),
                                                  std::make_unique<warning_driver>(std::vector<std::string>{line}));
        EXPECT_TRUE(made.ok()) << made.status();
        ::testing::internal::CaptureStderr();
        if (made.ok()) {
            command_line::print_warnings(*made);
        }
        return ::testing::internal::GetCapturedStderr();
    };
    EXPECT_EQ(print("printed once by programs"), "orchard: warning: printed once by programs\n");
    EXPECT_EQ(print("printed once by programs"), "");
    EXPECT_EQ(print("another line"), "orchard: warning: another line\n");
}

TEST(heap_warnings, create_heap_makes_what_heap_create_makes) {
    ::testing::internal::CaptureStderr();
    const auto made = command_line::create_heap(small_heap(backing_option::elastic));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->configuration().capacity, 16 * segment_bytes);
    options wrong = small_heap(backing_option::elastic);
    wrong.capacity = 1;
    EXPECT_FALSE(heap::create(wrong).ok());
    EXPECT_EQ(command_line::create_heap(wrong).status(), heap::create(wrong).status());
}

}  // namespace
}  // namespace orchard::test
