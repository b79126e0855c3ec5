// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The padded policy compared with the paper's Algorithms 1 and 2, as a plain linear scan.

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "host/portion_tree.hpp"
#include "profiling/baselines/linear_portion_tree.hpp"
#include "tests/portion_tree/model.hpp"

namespace orchard {
namespace {

using baselines::linear_portion_tree;
using baselines::portion_marking;
using testing::portion_at;
using testing::text_of;

portion_tree joined_tree(portion_shape shape) {
    portion_tree tree(shape);
    for (std::uint32_t block = 0; block < shape.segments; ++block) {
        EXPECT_TRUE(tree.join(segment_index{block}));
    }
    return tree;
}

/// Leaves of the subtree of a portion's parent.
struct parent_range {
    std::uint32_t first;
    std::uint32_t end;
};

parent_range parent_of(const portion& p) {
    const std::uint32_t width = 2 * to_underlying(p.leaves);
    const std::uint32_t leaf = to_underlying(p.block) * leaves_per_segment + to_underlying(p.first);
    return {leaf / width * width, leaf / width * width + width};
}

// Counts pairs whose parents' subtrees overlap; equation (3) allows none.
int overlaps(const std::vector<portion>& live) {
    int found = 0;
    for (std::size_t i = 0; i < live.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            const parent_range a = parent_of(live[i]);
            const parent_range b = parent_of(live[j]);
            found += a.first < b.end && b.first < a.end ? 1 : 0;
        }
    }
    return found;
}

/// Takes of 1 to 16 leaves and releases, three to two, in random order.
template <class Tree>
std::vector<portion> after_random_life(Tree& tree, std::uint32_t seed, int steps) {
    std::mt19937 random(seed);
    std::vector<portion> live;
    for (int i = 0; i < steps; ++i) {
        if (random() % 5 < 3 || live.empty()) {
            if (const auto p = tree.take(leaf_count{1 + static_cast<std::uint32_t>(random() % 16)})) {
                live.push_back(*p);
            }
        } else {
            std::swap(live[random() % live.size()], live.back());
            static_cast<void>(tree.release(live.back()));
            live.pop_back();
        }
    }
    return live;
}

// From the same state, one finds a place exactly if the other does, for every size; the linear scan follows the tree.
TEST(algorithm_2, can_place_what_the_tree_can) {
    constexpr std::uint32_t blocks = 16;
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        portion_tree tree = joined_tree({blocks, portion_policy::padded});
        linear_portion_tree linear(blocks, portion_marking::reserving);
        std::mt19937 random(seed);
        std::vector<portion> live;
        for (int step = 0; step < 400; ++step) {
            const leaf_count asked{1 + static_cast<std::uint32_t>(random() % 16)};
            if (random() % 5 < 3) {
                const auto p = tree.take(asked);
                ASSERT_EQ(p.has_value(), linear.find(asked).has_value());
                if (p) {
                    linear.occupy(*p);
                    live.push_back(*p);
                }
            } else if (!live.empty()) {
                std::swap(live[random() % live.size()], live.back());
                ASSERT_NE(tree.release(live.back()), portion_release::rejected);
                linear.release(live.back());
                live.pop_back();
            }
            for (std::uint32_t n = 0; n <= 33; ++n) {
                ASSERT_EQ(tree.find(leaf_count{n}).has_value(), linear.find(leaf_count{n}).has_value())
                    << n << " leaves, seed " << seed << ", step " << step;
            }
        }
    }
}

// Portions of one size are placed alike: from the left.
TEST(algorithm_2, places_equal_portions_as_the_tree) {
    for (const std::uint32_t n : {1u, 2u, 3u, 8u, 16u}) {
        portion_tree tree = joined_tree({4, portion_policy::padded});
        linear_portion_tree linear(4, portion_marking::reserving);
        std::uint32_t placed = 0;
        for (auto p = tree.take(leaf_count{n}); p; p = tree.take(leaf_count{n}), ++placed) {
            ASSERT_EQ(linear.take(leaf_count{n}), p);
        }
        EXPECT_EQ(linear.take(leaf_count{n}), std::nullopt);
        EXPECT_EQ(placed,
                  4 * leaves_per_segment / (2 * to_underlying(portion_leaves(portion_policy::padded, leaf_count{n}))));
    }
}

// As printed, the sibling of a warptree keeps its 1 and is given to a smaller portion, inside the parent's subtree.
// Equation (3) forbids this, because a fault there then prefetches across both (5 of 8 leaves are more than 51 %).
TEST(algorithm_2, as_printed_breaks_equation_3) {
    linear_portion_tree printed(1, portion_marking::printed);
    const auto first = printed.take(leaf_count{4});
    const auto second = printed.take(leaf_count{2});
    ASSERT_EQ(first, portion_at(0, 0, 4));
    EXPECT_EQ(second, portion_at(0, 4, 2));
    EXPECT_EQ(overlaps({*first, *second}), 1);

    linear_portion_tree reserving(1, portion_marking::reserving);
    portion_tree tree = joined_tree({1, portion_policy::padded});
    for (const std::uint32_t n : {4u, 2u}) {
        EXPECT_EQ(tree.take(leaf_count{n}), reserving.take(leaf_count{n}));
    }
    EXPECT_TRUE(tree.holds(portion_at(0, 8, 2)));
}

TEST(algorithm_2, and_the_tree_keep_equation_3_where_whole_parents_are_reserved) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        linear_portion_tree printed(64, portion_marking::printed);
        linear_portion_tree reserving(64, portion_marking::reserving);
        portion_tree tree = joined_tree({64, portion_policy::padded});
        EXPECT_GT(overlaps(after_random_life(printed, seed, 600)), 0);
        EXPECT_EQ(overlaps(after_random_life(reserving, seed, 600)), 0);
        EXPECT_EQ(overlaps(after_random_life(tree, seed, 600)), 0);
    }
}

// Nodes of the prefetch trees that the driver would fill (more than 51 % of their leaves resident, docs/uvm.md, P3)
// when every leaf of every portion is resident, and that hold more than one portion's own leaves.
int filled_across(const std::vector<portion>& live, std::uint32_t blocks) {
    int found = 0;
    for (std::uint32_t size = 2; size <= leaves_per_segment; size *= 2) {
        for (std::uint32_t first = 0; first < blocks * leaves_per_segment; first += size) {
            std::uint32_t resident = 0;
            bool inside_one = false;
            for (const portion& p : live) {
                const std::uint32_t begin = to_underlying(p.block) * leaves_per_segment + to_underlying(p.first);
                const std::uint32_t end = begin + to_underlying(p.leaves);
                inside_one |= begin <= first && first + size <= end;
                resident += std::max(std::min(end, first + size), std::max(begin, first)) - std::max(begin, first);
            }
            found += resident * 100 > size * 51 && !inside_one ? 1 : 0;
        }
    }
    return found;
}

TEST(algorithm_2, never_lets_the_driver_fill_a_node_across_portions_where_parents_are_reserved) {
    for (std::uint32_t seed = 0; seed < 5; ++seed) {
        linear_portion_tree printed(64, portion_marking::printed);
        portion_tree padded = joined_tree({64, portion_policy::padded});
        portion_tree packed = joined_tree({64, portion_policy::packed});
        EXPECT_GT(filled_across(after_random_life(printed, seed, 300), 64), 0);
        EXPECT_EQ(filled_across(after_random_life(padded, seed, 300), 64), 0);
        EXPECT_GT(filled_across(after_random_life(packed, seed, 300), 64), 0);
    }
}

// The number of blocks that the same sequence needs. The tightest place uses no more blocks than the lowest one does.
TEST(algorithm_2, needs_no_fewer_blocks_than_the_tree) {
    std::uint64_t of_tree = 0;
    std::uint64_t of_scan = 0;
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        portion_tree tree = joined_tree({256, portion_policy::padded});
        linear_portion_tree scan(256, portion_marking::reserving);
        const auto in_use = [](const std::vector<portion>& live) {
            std::vector<bool> used(256);
            for (const portion& p : live) {
                used[to_underlying(p.block)] = true;
            }
            return static_cast<std::uint64_t>(std::count(used.begin(), used.end(), true));
        };
        of_tree += in_use(after_random_life(tree, seed, 800));
        of_scan += in_use(after_random_life(scan, seed, 800));
    }
    RecordProperty("blocks of the tree", std::to_string(of_tree));
    RecordProperty("blocks of the scan", std::to_string(of_scan));
    EXPECT_LE(of_tree, of_scan);
}

}  // namespace
}  // namespace orchard
