// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A mailbox in managed memory. Each heap has 2 MiB of it; the tests hold the lock for managed memory.

#include <set>
#include <vector>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// Both devices, with all slots and with four, which each request has to wait for.
std::vector<heap_case> managed_mailbox_cases() {
    std::vector<heap_case> cases;
    for (const heap_case& c : heap_cases()) {
        if (c.where == lies_in::its_own && c.backing == backing_option::automatic && c.capacity == segments(32)) {
            cases.push_back(c);
            cases.back().mailbox_memory = mailbox_memory_option::managed;
        }
    }
    return cases;
}

class heap_managed_mailbox : public heap_contract {};
INSTANTIATE_TEST_SUITE_P(all, heap_managed_mailbox, ::testing::ValuesIn(managed_mailbox_cases()), case_name);

TEST_P(heap_managed_mailbox, begins_at_a_va_block) {
    const device::heap_view view = h().ref().view();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.mailbox.host.requests) % segment_bytes, 0u);
    EXPECT_EQ(h().configuration().mailbox_memory, mailbox_memory_option::managed);
}

TEST_P(heap_managed_mailbox, serves_requests_of_many_warps) {
    for (int round = 0; round < 3; ++round) {
        std::vector<std::uint64_t> sizes;
        for (std::uint64_t i = 0; i < 512; ++i) {
            sizes.push_back(i % 64 == 0 ? segments(1) : 1024 + 16 * i);
        }
        const std::vector<block> blocks = allocate(sizes);
        expect_disjoint(blocks);
        stamp(blocks);
        expect_stamped(blocks);
        free_all(blocks);
        ASSERT_TRUE(h().trim().ok());
    }
    expect_empty();
    EXPECT_GT(settled_stats().host_requests, 0u);
}

TEST_P(heap_managed_mailbox, fails_with_a_reason_where_memory_is_exhausted) {
    const block all = allocate_one(largest_chunk());
    ASSERT_NE(all.address, 0u);
    EXPECT_EQ(allocate_one(segments(1)).address, 0u);
    ASSERT_TRUE(h().last_failure().has_value());
    free_all({all});
    EXPECT_NE(allocate_one(segments(1)).address, 0u);
}

TEST_P(heap_managed_mailbox, several_heaps_have_mailboxes_of_their_own) {
    std::set<const void*> places{h().ref().view().mailbox.host.requests};
    std::vector<heap> others;
    for (int i = 0; i < 3; ++i) {
        auto other = make_another(GetParam().values());
        ASSERT_TRUE(other.ok()) << other.status();
        EXPECT_TRUE(places.insert(other->ref().view().mailbox.host.requests).second);
        others.push_back(*std::move(other));
    }
    EXPECT_TRUE(others.front().close().ok());
    free_all({allocate_one(segments(2))});
}

}  // namespace
}  // namespace orchard::test
