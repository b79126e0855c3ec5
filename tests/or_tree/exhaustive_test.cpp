// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Small trees, completely: every state, and every sequence of operations up to a length.

#include <gtest/gtest.h>

#include "host/or_tree.hpp"
#include "tests/or_tree/model.hpp"

namespace orchard {
namespace {

using testing::or_tree_model;

constexpr std::uint32_t segments = 8;

void expect_equal(or_tree& tree, const or_tree_model& model) {
    ASSERT_EQ(tree.free_count(), model.free_count());
    for (std::uint32_t k = 0; k <= segments + 1; ++k) {
        ASSERT_EQ(tree.find_run(k), model.find_run(k)) << k;
    }
    ASSERT_EQ(tree.longest_run(), model.longest_run());
    ASSERT_TRUE(tree.validate().ok()) << tree.validate();
}

// Each of the 256 states of 8 segments, and from each of them every take and return of every range, valid or not.
TEST(or_tree_exhaustive, every_change_from_every_state_of_8_segments) {
    for (std::uint32_t bits = 0; bits < 1u << segments; ++bits) {
        or_tree start(segments, false);
        or_tree_model model_start(segments, false);
        for (std::uint32_t i = 0; i < segments; ++i) {
            if ((bits >> i & 1) != 0) {
                ASSERT_TRUE(start.give_back({segment_index{i}, 1}));
                ASSERT_TRUE(model_start.give_back({segment_index{i}, 1}));
            }
        }
        ASSERT_NO_FATAL_FAILURE(expect_equal(start, model_start)) << bits;
        for (std::uint32_t first = 0; first <= segments + 1; ++first) {
            for (std::uint32_t count = 0; count <= segments + 1; ++count) {
                const segment_run run{segment_index{first}, count};
                or_tree tree = start;
                or_tree_model model = model_start;
                ASSERT_EQ(tree.take(run), model.take(run)) << bits << ": " << first << "+" << count;
                ASSERT_NO_FATAL_FAILURE(expect_equal(tree, model));
                tree = start;
                model = model_start;
                ASSERT_EQ(tree.give_back(run), model.give_back(run)) << bits << ": " << first << "+" << count;
                ASSERT_NO_FATAL_FAILURE(expect_equal(tree, model));
            }
        }
    }
}

// Operation `op`: 0 to 3 take the lowest run of 1, 2, 3, 5; 4 to 11 return segment 0 to 7; 12, 13 return a run of 3.
constexpr std::uint32_t operations = 14;

template <class Tree>
std::uint32_t apply(Tree& tree, std::uint32_t op) {
    constexpr std::uint32_t lengths[] = {1, 2, 3, 5};
    if (op < 4) {
        const auto first = tree.take_run(lengths[op]);
        return first ? to_underlying(*first) : segments;
    }
    const segment_run run =
        op < 12 ? segment_run{segment_index{op - 4}, 1} : segment_run{segment_index{3 * (op - 12)}, 3};
    return tree.give_back(run) ? 1 : 0;
}

void every_sequence(const or_tree& tree, const or_tree_model& model, std::uint32_t length) {
    if (length == 0) {
        or_tree last = tree;
        ASSERT_NO_FATAL_FAILURE(expect_equal(last, model));
        return;
    }
    for (std::uint32_t op = 0; op < operations; ++op) {
        or_tree next = tree;
        or_tree_model next_model = model;
        ASSERT_EQ(apply(next, op), apply(next_model, op)) << "operation " << op << ", " << length << " before the end";
        ASSERT_NO_FATAL_FAILURE(every_sequence(next, next_model, length - 1)) << "after operation " << op;
    }
}

TEST(or_tree_exhaustive, every_sequence_of_four_operations_from_all_free) {
    every_sequence(or_tree(segments, true), or_tree_model(segments, true), 4);
}

TEST(or_tree_exhaustive, every_sequence_of_four_operations_from_all_taken) {
    every_sequence(or_tree(segments, false), or_tree_model(segments, false), 4);
}

}  // namespace
}  // namespace orchard
