// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Heaps in the memory of resources: fakes that count and that fail, with the names of `cuda::mr` in both of its forms.

#include <orchard/neighbours/memory_resource.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "absl/strings/match.h"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {

/// What all copies of a fake resource share.
struct ledger {
    simt::executor on;
    int allocations = 0;
    int frees = 0;
    std::size_t bytes_out = 0;
    std::size_t alignment = 0;
    void* newest = nullptr;
    bool full = false;             ///< the next allocation throws `std::bad_alloc`
    bool broken = false;           ///< the next allocation throws another exception
    bool returns_null = false;     ///< the next allocation returns null
    bool heap_has_memory = false;  ///< set by a test: a free is a fault now

    void* take(std::size_t bytes, std::size_t wanted) {
        if (full) {
            throw std::bad_alloc();
        }
        if (broken) {
            throw std::runtime_error("the pool has no upstream");
        }
        if (returns_null) {
            return nullptr;
        }
        const auto memory = allocate_device_memory(on, bytes);
        if (!memory.ok()) {
            throw std::bad_alloc();
        }
        ++allocations;
        bytes_out += bytes;
        alignment = wanted;
        newest = *memory;
        return *memory;
    }
    void give_back(void* memory, std::size_t bytes, std::size_t wanted) noexcept {
        EXPECT_EQ(memory, newest);
        EXPECT_EQ(wanted, alignment);
        EXPECT_FALSE(heap_has_memory);
        free_device_memory(on, memory);
        ++frees;
        bytes_out -= bytes;
    }
};

/// With the names of CCCL 3.0 and of the standard library.
struct plain_fake {
    ledger* book;

    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) const {
        return book->take(bytes, alignment);
    }
    void deallocate(void* memory, std::size_t bytes, std::size_t alignment) const noexcept {
        book->give_back(memory, bytes, alignment);
    }
};

/// Stands for a stream of CUDA.
struct fake_stream {};

/// With the names of CCCL 3.1: `allocate` has a stream as its first argument. It cannot be copied.
struct synchronous_fake {
    explicit synchronous_fake(ledger* of) : book{of} {}
    synchronous_fake(synchronous_fake&&) = default;
    synchronous_fake& operator=(synchronous_fake&&) = default;

    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment) { return book->take(bytes, alignment); }
    void deallocate_sync(void* memory, std::size_t bytes, std::size_t alignment) noexcept {
        book->give_back(memory, bytes, alignment);
    }
    [[nodiscard]] void* allocate(fake_stream, std::size_t, std::size_t) { throw std::logic_error("with a stream"); }
    void deallocate(fake_stream, void*, std::size_t, std::size_t) noexcept { std::terminate(); }

    ledger* book;
};

namespace {

static_assert(plain_resource<plain_fake> && !synchronous_resource<plain_fake>);
static_assert(synchronous_resource<synchronous_fake> && !plain_resource<synchronous_fake>);
static_assert(!memory_source<int>);
static_assert(std::is_nothrow_move_constructible_v<resource_heap<synchronous_fake>>);
static_assert(!std::is_copy_constructible_v<resource_heap<plain_fake>>);

class memory_resource : public ::testing::TestWithParam<device_option> {
protected:
    void SetUp() override {
        const auto choice = choose_device(GetParam());
        if (!choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
        book_.on.kind = choice->kind;
        book_.on.device = choice->gpu;
        values_.device = GetParam();
        values_.emulated_workers = 2;
    }
    void TearDown() override { EXPECT_EQ(book_.bytes_out, 0u); }

    /// Memory with exactly `n` whole segments, wherever it begins.
    static constexpr std::uint64_t room_for(std::uint64_t n) { return segments(n + 1) - 1; }

    /// Fills the heap with blocks of one segment; returns how many it got.
    static std::uint64_t fill(heap& h) {
        const auto heads = device_array<std::uint64_t>::create(h.executor(), 1);
        const auto counts = device_array<std::uint64_t>::create(h.executor(), 1);
        const auto result =
            simt::launch(h.executor(), {1, 1}, fill_heap{h.ref(), segments(1), 1000, heads->data(), counts->data()});
        EXPECT_TRUE(result.ok) << result.error;
        std::uint64_t count = 0;
        EXPECT_TRUE(counts->download({&count, 1}).ok());
        return count;
    }

    ledger book_;
    options values_;
};
std::string device_of_case(const ::testing::TestParamInfo<device_option>& info) {
    return info.param == device_option::cuda ? "cuda" : "emulated";
}
INSTANTIATE_TEST_SUITE_P(all, memory_resource, ::testing::Values(device_option::emulated, device_option::cuda),
                         device_of_case);

TEST_P(memory_resource, a_heap_has_the_memory_and_gives_it_back_at_its_end) {
    {
        auto made = create_in_resource(plain_fake{&book_}, room_for(6), values_);
        ASSERT_TRUE(made.ok()) << made.status();
        book_.heap_has_memory = true;
        EXPECT_EQ(book_.allocations, 1);
        EXPECT_EQ(book_.bytes_out, room_for(6));
        EXPECT_EQ(book_.alignment, 256u);
        EXPECT_EQ(made->memory(), book_.newest);
        EXPECT_EQ(made->bytes(), room_for(6));
        EXPECT_EQ(made->resource().book, &book_);
        heap& h = **made;
        EXPECT_EQ((*made)->configuration().capacity, segments(6));
        EXPECT_EQ(fill(h), 6u);
        EXPECT_TRUE(h.ref().owns(static_cast<char*>(book_.newest) + segments(1)));
        EXPECT_EQ(h.last_failure()->reason, failure_reason::out_of_memory_device_budget);
        EXPECT_TRUE(h.validate().ok()) << h.validate();
        EXPECT_EQ(book_.frees, 0);
        book_.heap_has_memory = false;
    }
    EXPECT_EQ(book_.frees, 1);
}

TEST_P(memory_resource, functions_without_a_stream_are_called_where_there_are_others) {
    {
        auto made = create_in_resource(synchronous_fake(&book_), room_for(4), values_);
        ASSERT_TRUE(made.ok()) << made.status();
        EXPECT_EQ(fill(**made), 4u);
    }
    EXPECT_EQ(book_.allocations, 1);
    EXPECT_EQ(book_.frees, 1);
}

TEST_P(memory_resource, a_move_takes_heap_and_memory_along) {
    auto first = create_in_resource(plain_fake{&book_}, room_for(4), values_);
    ASSERT_TRUE(first.ok()) << first.status();
    const heap_ref ref = (*first)->ref();
    ledger other_book = book_;
    other_book.allocations = 0;
    other_book.bytes_out = 0;
    auto second = create_in_resource(plain_fake{&other_book}, room_for(5), values_);
    ASSERT_TRUE(second.ok()) << second.status();
    resource_heap<plain_fake> moved = *std::move(first);
    EXPECT_EQ(moved->ref().view().base, ref.view().base);
    EXPECT_EQ(book_.frees, 0);
    moved = *std::move(second);  // the heap that lives there ends
    EXPECT_EQ(book_.frees, 1);
    EXPECT_EQ(other_book.frees, 0);
    EXPECT_EQ(fill(*moved), 5u);
    moved = *create_in_resource(plain_fake{&book_}, room_for(4), values_);
    EXPECT_EQ(other_book.frees, 1);
    EXPECT_EQ(other_book.bytes_out, 0u);
}

TEST_P(memory_resource, what_a_resource_throws_is_an_error_with_its_text) {
    book_.full = true;
    const auto refused = create_in_resource(plain_fake{&book_}, room_for(4), values_);
    EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
    EXPECT_TRUE(absl::StrContains(refused.status().message(), std::bad_alloc().what())) << refused.status();
    EXPECT_TRUE(absl::StrContains(refused.status().message(), std::to_string(room_for(4)))) << refused.status();
    book_.full = false;
    book_.broken = true;
    const auto failed = create_in_resource(plain_fake{&book_}, room_for(4), values_);
    EXPECT_TRUE(absl::IsResourceExhausted(failed.status())) << failed.status();
    EXPECT_TRUE(absl::StrContains(failed.status().message(), "the pool has no upstream")) << failed.status();
    EXPECT_EQ(book_.frees, 0);
}

TEST_P(memory_resource, null_of_a_resource_is_an_error_and_is_not_given_back) {
    book_.returns_null = true;
    const auto refused = create_in_resource(synchronous_fake(&book_), room_for(4), values_);
    EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
    EXPECT_EQ(book_.frees, 0);
}

TEST_P(memory_resource, memory_in_which_no_heap_can_be_made_is_given_back) {
    const auto too_little = create_in_resource(plain_fake{&book_}, segments(1) / 2, values_);
    EXPECT_TRUE(absl::IsInvalidArgument(too_little.status())) << too_little.status();
    EXPECT_EQ(book_.frees, 1);
    values_.mailbox_slots = 3;
    const auto wrong_option = create_in_resource(plain_fake{&book_}, room_for(4), values_);
    EXPECT_FALSE(wrong_option.ok());
    EXPECT_EQ(book_.frees, 2);
}

TEST_P(memory_resource, a_forked_process_leaves_the_memory_alone) {
    if (GetParam() == device_option::cuda) {
        GTEST_SKIP() << "CUDA does not allow calls in a forked process";
    }
    auto made = create_in_resource(plain_fake{&book_}, room_for(4), values_);
    ASSERT_TRUE(made.ok()) << made.status();
    auto owner = std::make_unique<resource_heap<plain_fake>>(*std::move(made));
    const ::pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        owner.reset();
        ::_exit(book_.frees);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    owner.reset();
    EXPECT_EQ(book_.frees, 1);
}

}  // namespace
}  // namespace orchard::test
