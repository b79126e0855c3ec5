// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Reuse is ordered: an owner writes to its page until it frees it, and the next owner, mostly of another block, sees
// all of that and never anything of it later. A litmus test on both devices; under the thread sanitizer the page's
// words are looked at too.

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using word = simt::device_word<std::uint64_t>;

/// The counts of a run.
struct reuse_counts {
    word owned;    ///< times that a page was owned
    word passed;   ///< pages whose last owner was in another block
    word stale;    ///< words that were not what the last owner wrote last
    word foreign;  ///< words that changed while they were owned
};

/// Each thread takes a page and gives it back, `rounds` times; there are fewer pages than threads.
struct own_in_turn {
    heap_ref heap;
    std::uint64_t bytes;
    std::uint32_t rounds;
    word* last;  ///< for each page: the value that its last owner wrote; 0: none
    reuse_counts* counts;

    static constexpr std::uint64_t late = std::uint64_t{1} << 63;
    static constexpr std::uint64_t stride = 1024;  ///< bytes between the words that are written

    /// Returns the number of the page's words that differ from `value`. Volatile, so that the compiler reads memory.
    ORCHARD_FN std::uint64_t others(const void* p, std::uint64_t value) const {
        std::uint64_t n = 0;
        for (std::uint64_t at = 0; at < bytes; at += stride) {
            n += *reinterpret_cast<const volatile std::uint64_t*>(static_cast<const char*>(p) + at) != value ? 1 : 0;
        }
        return n;
    }
    ORCHARD_FN void write(void* p, std::uint64_t value) const {
        for (std::uint64_t at = 0; at < bytes; at += stride) {
            *reinterpret_cast<volatile std::uint64_t*>(static_cast<char*>(p) + at) = value;
        }
    }
    ORCHARD_FN void own(void* p, std::uint64_t id, std::uint32_t block, std::uint32_t steps) const {
        auto& last_of_page = last[(as_number(p) - as_number(heap.view().base)) / bytes];
        const std::uint64_t before = last_of_page.load<simt::order::relaxed>();
        counts->owned.fetch_add<simt::order::relaxed>(1);
        if (before != 0) {
            counts->stale.fetch_add<simt::order::relaxed>(others(p, before));
            counts->passed.fetch_add<simt::order::relaxed>((before >> 32 & 0xffff) != block ? 1 : 0);
        }
        write(p, id);
        for (std::uint32_t i = 0; i < steps; ++i) {
            simt::pause(50);
        }
        counts->foreign.fetch_add<simt::order::relaxed>(others(p, id));
        write(p, id | late);
        last_of_page.store<simt::order::relaxed>(id | late);
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint32_t i = 0; i < rounds; ++i) {
            void* p = heap.malloc(bytes);
            if (p == nullptr) {
                simt::pause(200);  // all are owned
                continue;
            }
            const std::uint64_t id = (std::uint64_t{at.block} << 32) + at.thread * rounds + i + 1;
            own(p, id, at.block, device::mix(at.thread + i) % 4);
            heap.free(p);
        }
    }
};

class contract_reuse : public heap_contract {
protected:
    void SetUp() override {
        heap_contract::SetUp();
        options values = GetParam().values();
        if (!IsSkipped() && values.backing == backing_option::managed) {
            values.discard = false;  // otherwise freed memory may be zero and not hold the words of its last owner
            remake(values);
        }
    }
    /// Leaves the heap two segments.
    void take_the_rest() {
        const std::uint64_t rest = heap_segments() - 2;
        const auto heads = array<std::uint64_t>(1);
        const auto counts = array<std::uint64_t>(1);
        launch({1, 1}, fill_heap{h().ref(), segments(1), rest, heads.data(), counts.data()});
        ASSERT_EQ(to_host(counts).front(), rest);
    }
    /// Launches until enough pages have passed from block to block. On a loaded machine one block may own them all
    /// before another runs.
    void expect_ordered(std::uint64_t bytes, simt::grid shape, std::uint32_t rounds) {
        constexpr auto relaxed = simt::order::relaxed;
        constexpr std::uint64_t enough = 10;
        constexpr int max_launches = 10;
        std::uint64_t passed = 0;
        for (int i = 0; i < max_launches && passed < enough; ++i) {
            const auto last = array<word>(heap_segments() * class_pages(class_of(static_cast<std::uint32_t>(bytes))));
            const auto counts = array<reuse_counts>(1);
            launch(shape, own_in_turn{h().ref(), bytes, rounds, last.data(), counts.data()});
            const reuse_counts seen = to_host(counts).front();
            EXPECT_EQ(seen.stale.load<relaxed>(), 0u) << "words that were not what the last owner wrote last";
            EXPECT_EQ(seen.foreign.load<relaxed>(), 0u) << "words that changed while they were owned";
            passed += seen.passed.load<relaxed>();
        }
        EXPECT_GE(passed, enough) << "hardly any page went from block to block";
        EXPECT_EQ(settled_stats().pages_in_use, 0u);
    }
};
INSTANTIATE_TEST_SUITE_P(all, contract_reuse, ::testing::ValuesIn(heap_cases()), case_name);

// Sizes that are powers of two, so that a page's number follows from its address.
TEST_P(contract_reuse, of_a_few_large_pages_is_ordered) {
    ASSERT_NO_FATAL_FAILURE(take_the_rest());
    expect_ordered(128 << 10, {6, 64}, static_cast<std::uint32_t>(scaled(10, 4)));
}

TEST_P(contract_reuse, of_many_pages_is_ordered) {
    ASSERT_NO_FATAL_FAILURE(take_the_rest());
    expect_ordered(8 << 10, {24, 64}, static_cast<std::uint32_t>(scaled(20, 6)));
}

TEST_P(contract_reuse, across_size_classes_is_ordered) {
    // The same memory is used repeatedly for pages of another size; the next user must not see data of the previous
    // kind.
    ASSERT_NO_FATAL_FAILURE(take_the_rest());
    for (const std::uint64_t bytes : {64u << 10, 256u << 10, 32u << 10}) {
        expect_ordered(bytes, {6, 64}, static_cast<std::uint32_t>(scaled(5, 3)));
    }
}

}  // namespace
}  // namespace orchard::test
