// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Small spaces, completely: every sequence of operations up to a length, and every state that any sequence reaches.

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "host/portion_tree.hpp"
#include "tests/portion_tree/model.hpp"
#include "tests/portion_tree/portion_tree_peer.hpp"

namespace orchard {
namespace {

using testing::portion_at;
using testing::portion_model;
using testing::text_of;

/// One operation: for each a number, so that all can be counted off.
///     [0, L)               take 1 to L leaves
///     [L, L + B)           block b joins
///     [L + B, L + 2 B)     block b leaves
///     [.., + B * L)        take the leftmost 1 to L leaves of block b
///     [.., + B * L * L)    release each [first, + leaves), whether it is a portion or not
struct operations {
    std::uint32_t blocks;
    std::uint32_t leaves;

    [[nodiscard]] std::uint32_t count() const { return leaves + 2 * blocks + blocks * leaves * (1 + leaves); }

    void apply(std::uint32_t op, portion_tree& tree, portion_model& model) const {
        if (op < leaves) {
            return take(op + 1, tree, model);
        }
        op -= leaves;
        if (op < blocks) {
            ASSERT_EQ(tree.join(segment_index{op}), model.join(op));
            return;
        }
        op -= blocks;
        if (op < blocks) {
            ASSERT_EQ(tree.leave(segment_index{op}), model.leave(op));
            return;
        }
        op -= blocks;
        if (op < blocks * leaves) {
            return take_leftmost(op / leaves, op % leaves + 1, tree, model);
        }
        op -= blocks * leaves;
        const portion p = portion_at(op / leaves / leaves, op / leaves % leaves, op % leaves + 1);
        ASSERT_EQ(tree.release(p), model.release(p)) << text_of(p);
    }

private:
    // Checks that a portion is found exactly if one fits in the model, at a place that the model allows.
    static void take(std::uint32_t asked, portion_tree& tree, portion_model& model) {
        const bool fits = model.fits(asked);
        const auto p = tree.take(leaf_count{asked});
        ASSERT_EQ(p.has_value(), fits) << asked << " leaves";
        if (p) {
            ASSERT_EQ(to_underlying(p->leaves), model.own(asked));
            ASSERT_TRUE(model.allowed(*p)) << text_of(*p);
            model.add(*p);
        }
    }
    static void take_leftmost(std::uint32_t block, std::uint32_t asked, portion_tree& tree, portion_model& model) {
        const portion wanted = portion_at(block, 0, model.own(asked));
        // A block that is not in the space joins, if the portion is one that blocks can have.
        if (model.own(asked) != 0) {
            (void)model.join(block);
        }
        const auto p = tree.take_leftmost(segment_index{block}, leaf_count{asked});
        ASSERT_EQ(p.has_value(), model.allowed(wanted)) << asked << " leaves of block " << block;
        if (p) {
            ASSERT_EQ(*p, wanted);
            model.add(*p);
        }
    }
};

struct small_space {
    portion_shape shape;
    std::uint32_t length;   ///< of sequences
    std::uint64_t reached;  ///< number of states, if all are enumerated
};

std::string name_of(const ::testing::TestParamInfo<small_space>& info) {
    const portion_shape& s = info.param.shape;
    return absl::StrFormat("%s_%u_blocks_of_%u_leaves", s.policy == portion_policy::packed ? "packed" : "padded",
                           s.segments, s.block_leaves);
}

// --- every sequence of operations that have an effect: an operation without effect ends the sequence at once ---

class portion_tree_sequences : public ::testing::TestWithParam<small_space> {
protected:
    void every_sequence(const portion_tree& tree, const portion_model& model, std::uint32_t length) {
        for (std::uint32_t op = 0; op < operations_.count(); ++op) {
            portion_tree next = tree;
            portion_model next_model = model;
            ASSERT_NO_FATAL_FAILURE(operations_.apply(op, next, next_model)) << "operation " << op;
            ASSERT_EQ(next_model.difference(next), "") << "operation " << op;
            ++sequences_;
            const bool changed = next.portions() != tree.portions() || next.blocks() != tree.blocks();
            if (length > 1 && changed) {
                ASSERT_NO_FATAL_FAILURE(every_sequence(next, next_model, length - 1)) << "after operation " << op;
            }
        }
    }

    operations operations_{GetParam().shape.segments, GetParam().shape.block_leaves};
    std::uint64_t sequences_ = 0;
};

TEST_P(portion_tree_sequences, answer_as_the_model) {
    every_sequence(portion_tree(GetParam().shape), portion_model(GetParam().shape), GetParam().length);
    RecordProperty("sequences", std::to_string(sequences_));
}

constexpr auto packed = portion_policy::packed;
constexpr auto padded = portion_policy::padded;

INSTANTIATE_TEST_SUITE_P(every, portion_tree_sequences,
                         ::testing::Values(small_space{{1, packed, 4}, 9, 0}, small_space{{1, padded, 4}, 12, 0},
                                           small_space{{2, packed, 4}, 7, 0}, small_space{{2, padded, 4}, 7, 0},
                                           small_space{{1, packed, 8}, 6, 0}, small_space{{1, padded, 8}, 7, 0},
                                           small_space{{2, padded, 8}, 6, 0}),
                         name_of);

// --- every state that a sequence of operations can reach, and every operation in each state ---

class portion_tree_states : public ::testing::TestWithParam<small_space> {
protected:
    // The records of all blocks identify a state: the index is a function of them, which `validate` checks.
    static std::string key_of(portion_tree& tree) {
        std::string key;
        for (std::uint32_t block = 0; block < GetParam().shape.segments; ++block) {
            absl::StrAppendFormat(&key, "%x.%x ", portion_tree_peer::free(tree, block),
                                  portion_tree_peer::starts(tree, block));
        }
        return key;
    }
};

TEST_P(portion_tree_states, answer_as_the_model) {
    const operations all{GetParam().shape.segments, GetParam().shape.block_leaves};
    std::vector<std::pair<portion_tree, portion_model>> waiting;
    std::unordered_set<std::string> known;
    waiting.emplace_back(portion_tree(GetParam().shape), portion_model(GetParam().shape));
    known.insert(key_of(waiting.back().first));
    std::uint64_t steps = 0;
    while (!waiting.empty()) {
        const auto [tree, model] = std::move(waiting.back());
        waiting.pop_back();
        for (std::uint32_t op = 0; op < all.count(); ++op, ++steps) {
            portion_tree next = tree;
            portion_model next_model = model;
            ASSERT_NO_FATAL_FAILURE(all.apply(op, next, next_model)) << "operation " << op;
            ASSERT_EQ(next_model.difference(next), "") << "operation " << op;
            if (known.insert(key_of(next)).second) {
                waiting.emplace_back(std::move(next), std::move(next_model));
            }
        }
    }
    RecordProperty("states", std::to_string(known.size()));
    RecordProperty("operations", std::to_string(steps));
    EXPECT_EQ(known.size(), GetParam().reached);
}

// A block has one state outside the space, and in it as many as there are ways to part its leaves: packed into free
// ones and portions, every second Fibonacci number (2, 5, 13, 34, ...), less the portion that is the whole block;
// padded t(1) = 1, t(2 n) = t(n)^2 + 1 (1, 2, 5, 26, 677). All of them are reached.
INSTANTIATE_TEST_SUITE_P(every, portion_tree_states,
                         ::testing::Values(small_space{{2, packed, 4}, 0, 34 * 34},
                                           small_space{{1, packed, 8}, 0, 1597},
                                           small_space{{3, padded, 4}, 0, 6 * 6 * 6},
                                           small_space{{2, padded, 8}, 0, 27 * 27},
                                           small_space{{1, padded, 16}, 0, 678}),
                         name_of);

}  // namespace
}  // namespace orchard
