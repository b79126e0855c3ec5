// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Padding between warptrees and the prefetcher (docs/uvm.md, section 5, point 2): a fault of one owner never brings
/// memory of another, in a complete VA block; it does with packed portions, and it does in a truncated block.

#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"
#include "uvm/geometry/portion.hpp"
#include "uvm/model/prefetch_tree.hpp"

namespace orchard::uvm_model {
namespace {

/// One portion: leaves [first, first + count) of its owner.
struct placed {
    std::uint32_t first;
    std::uint32_t count;
};
using placement = std::vector<placed>;

/// Calls `f` with every way to place padded portions in the node of `leaves` leaves at `first`: the node is the parent
/// of one portion, which takes its left child, or it is divided, or stays free.
void each_padded(std::uint32_t first, std::uint32_t leaves, placement& so_far, const std::function<void()>& f) {
    if (leaves == 1) {
        f();
        return;
    }
    const leaf_count own = portion_leaves(portion_policy::padded, leaf_count{leaves / 2});
    ASSERT_EQ(to_underlying(reserved_for(portion_policy::padded, own)), leaves);
    so_far.push_back({first, to_underlying(own)});
    f();
    so_far.pop_back();
    each_padded(first, leaves / 2, so_far, [&] { each_padded(first + leaves / 2, leaves / 2, so_far, f); });
}

/// The leaves of `mask`'s bits.
page_mask pages_of_leaves(std::uint32_t leaves) {
    page_mask mask;
    for (; leaves != 0; leaves &= leaves - 1) {
        const auto leaf = static_cast<std::uint32_t>(std::countr_zero(leaves));
        mask.add(page_range{leaf * 16, leaf * 16 + 16});
    }
    return mask;
}

std::uint32_t leaves_of(const placed& p) { return ((1u << p.count) - 1) << p.first; }

/// Returns true if, for some resident leaves and some faults, a leaf is brought whose owner has no fault. Tries all
/// pairs of a resident set and a disjoint set of faults, at the granularity of leaves.
bool leaks(page_range block, const placement& portions) {
    std::uint32_t owned = 0;
    for (const placed& p : portions) {
        owned |= leaves_of(p);
    }
    // T is the union of both sets, so one loop over T and one over the faults in it are all pairs.
    for (std::uint32_t t = owned; t != 0; t = (t - 1) & owned) {
        for (std::uint32_t faulted = t; faulted != 0; faulted = (faulted - 1) & t) {
            std::uint32_t others = 0;
            for (const placed& p : portions) {
                others |= (leaves_of(p) & faulted) == 0 ? leaves_of(p) : 0;
            }
            if ((others & ~t) == 0) {
                continue;  // no leaf of other owners is missing
            }
            const page_mask resident = pages_of_leaves(t & ~faulted);
            const page_mask brought = prefetch_mask(block, resident, pages_of_leaves(faulted)).without(resident);
            if (!(brought & pages_of_leaves(others)).empty()) {
                return true;
            }
        }
    }
    return false;
}

TEST(padded, no_prefetch_crosses_in_any_state_of_any_placement_in_8_leaves) {
    placement portions;
    int placements = 0;
    each_padded(0, 8, portions, [&] {
        ++placements;
        EXPECT_FALSE(leaks({0, 128}, portions));
    });
    EXPECT_EQ(placements, 26);
}

TEST(padded, no_prefetch_crosses_in_any_state_of_full_placements_in_16_leaves) {
    placement portions;
    int placements = 0;
    each_padded(0, 16, portions, [&] {
        std::uint32_t owned = 0;
        for (const placed& p : portions) {
            owned += p.count;
        }
        // If room is left, the case equals a full placement in which one portion has no resident leaf.
        if (owned == 8 && portions.size() > 1) {
            ++placements;
            EXPECT_FALSE(leaks({0, 256}, portions));
        }
    });
    EXPECT_EQ(placements, 25);
}

TEST(padded, no_prefetch_crosses_in_random_states_of_32_leaves) {
    std::mt19937 random(17);
    for (int round = 0; round < 5'000; ++round) {
        // A random division of the block into parents.
        placement portions;
        const std::function<void(std::uint32_t, std::uint32_t)> place = [&](std::uint32_t first, std::uint32_t leaves) {
            if (leaves == 1) {
                return;
            }
            if (random() % 3 == 0) {
                portions.push_back({first, leaves / 2});
                return;
            }
            place(first, leaves / 2);
            place(first + leaves / 2, leaves / 2);
        };
        place(0, 32);
        page_mask owned;
        for (const placed& p : portions) {
            owned |= pages_of_leaves(leaves_of(p));
        }
        page_mask resident;
        page_mask faulted;
        for (std::uint32_t w = 0; w < words_per_segment; ++w) {
            resident.words[w] = (random() % 2 == 0 ? ~0ull : 0xffff'0000'ffffull << random() % 16) & owned.words[w];
            faulted.words[w] = 1ull << random() % 64 & owned.words[w] & ~resident.words[w];
        }
        const page_mask brought = prefetch_mask({0, 512}, resident, faulted).without(resident);
        for (const placed& p : portions) {
            const page_mask of_portion = pages_of_leaves(leaves_of(p));
            if ((of_portion & faulted).empty()) {
                ASSERT_TRUE((brought & of_portion).empty()) << round << ", leaf " << p.first;
            }
        }
    }
}

TEST(padded, packed_portions_do_leak) {
    EXPECT_TRUE(leaks({0, 128}, {{0, 2}, {2, 2}}));
    EXPECT_TRUE(leaks({0, 128}, {{0, 3}, {3, 1}}));
}

TEST(padded, touched_padding_leaks) {
    // {4, 5} of the padding of {0..3} belong to another owner: with three leaves of the owner they are 5 of 8.
    EXPECT_FALSE(leaks({0, 128}, {{0, 4}}));
    EXPECT_TRUE(leaks({0, 128}, {{0, 4}, {4, 2}}));
}

TEST(padded, a_truncated_block_leaks_where_a_complete_one_does_not) {
    // Warptrees {4}, {6} and {8..11} of 64 KiB leaves, with parents {4, 5}, {6, 7} and {8..15}. A block that begins at
    // leaf 4 has the node {4..11}, where they own 6 of 8.
    const placement portions = {{4, 1}, {6, 1}, {8, 4}};
    EXPECT_FALSE(leaks({0, 256}, portions));
    EXPECT_TRUE(leaks({64, 256}, portions));

    // One such state: {4, 8, 9, 10} are resident, and a fault on 11 brings 6 of another owner.
    const page_mask resident = testing::big_pages({4, 8, 9, 10});
    const page_mask faulted = testing::first_pages({11});
    EXPECT_EQ(prefetch_mask({0, 512}, resident, faulted).count({6 * 16, 7 * 16}), 0u);
    EXPECT_EQ(prefetch_mask({64, 512}, resident, faulted).count({6 * 16, 7 * 16}), 16u);
}

TEST(padded, the_end_of_a_block_cuts_nodes_short) {
    // In a block of 9 leaves {0..3} and {8} are 5 of 9, 55.6 %, and a fault on 8 fills the padding {4..7}.
    const page_mask faulted = testing::first_pages({8});
    const page_mask resident = testing::big_pages({0, 1, 2, 3});
    EXPECT_EQ(prefetch_mask({0, 9 * 16}, resident, faulted).count({4 * 16, 8 * 16}), 64u);
    EXPECT_EQ(prefetch_mask({0, 512}, resident, faulted).count({4 * 16, 8 * 16}), 0u);
}

}  // namespace
}  // namespace orchard::uvm_model
