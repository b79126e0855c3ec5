// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Random sequences of every operation give the results of a plain boolean vector.

#include <random>

#include <gtest/gtest.h>

#include "host/or_tree.hpp"
#include "tests/or_tree/model.hpp"

namespace orchard {
namespace {

using testing::or_tree_model;

struct sequence {
    std::uint32_t segments;
    std::uint32_t steps;
    std::uint32_t checks;  ///< how often longest run and validity are checked
};

class or_tree_sequence : public ::testing::TestWithParam<sequence> {};

// Lengths from 1 to `limit`, all magnitudes alike.
std::uint32_t some_length(std::mt19937& random, std::uint32_t limit) {
    const std::uint32_t magnitude = 1u << (random() % static_cast<std::uint32_t>(std::bit_width(limit)));
    return std::min(limit, magnitude + static_cast<std::uint32_t>(random() % magnitude));
}

class walk {
public:
    walk(std::uint32_t segments, bool all_free, std::uint32_t seed)
        : size_(segments), tree_(segments, all_free), model_(segments, all_free), random_(seed) {}

    void step(std::uint32_t give_back_percent) {
        const bool give_back = random_() % 100 < give_back_percent;
        const std::uint32_t k = random_() % 2 == 0 ? 1 : some_length(random_, size_);
        const segment_run run{segment_index{static_cast<std::uint32_t>(random_() % size_)}, k};
        if (give_back) {
            ASSERT_EQ(tree_.give_back(run), model_.give_back(run)) << k << " at " << to_underlying(run.first);
        } else if (random_() % 4 == 0) {
            ASSERT_EQ(tree_.take(run), model_.take(run)) << k << " at " << to_underlying(run.first);
        } else if (k == 1) {
            ASSERT_EQ(tree_.take_lowest(), model_.take_run(1));
        } else {
            ASSERT_EQ(tree_.find_run(k), model_.find_run(k)) << k;
            ASSERT_EQ(tree_.take_run(k), model_.take_run(k)) << k;
        }
    }

    void check() {
        ASSERT_TRUE(tree_.validate().ok()) << tree_.validate();
        ASSERT_EQ(tree_.free_count(), model_.free_count());
        ASSERT_EQ(tree_.longest_run(), model_.longest_run());
        ASSERT_TRUE(tree_.validate().ok()) << tree_.validate();
        for (std::uint32_t i = 0; i < size_; ++i) {
            ASSERT_EQ(tree_.is_free(segment_index{i}), model_.is_free(i)) << i;
        }
    }

    void run(const sequence& s, std::uint32_t give_back_percent) {
        for (std::uint32_t i = 0; i < s.steps; ++i) {
            ASSERT_NO_FATAL_FAILURE(step(give_back_percent)) << "step " << i;
            if (i % (s.steps / s.checks) == 0) {
                ASSERT_NO_FATAL_FAILURE(check()) << "step " << i;
            }
        }
        check();
    }

private:
    std::uint32_t size_;
    or_tree tree_;
    or_tree_model model_;
    std::mt19937 random_;
};

TEST_P(or_tree_sequence, from_all_free_answers_as_the_model) { walk(GetParam().segments, true, 1).run(GetParam(), 50); }

TEST_P(or_tree_sequence, from_all_taken_answers_as_the_model) {
    walk(GetParam().segments, false, 2).run(GetParam(), 70);
}

TEST_P(or_tree_sequence, mostly_taking_answers_as_the_model) { walk(GetParam().segments, true, 3).run(GetParam(), 30); }

// Singles alone, at random: the state in which runs are short and every word is different.
TEST_P(or_tree_sequence, runs_among_random_singles_answer_as_the_model) {
    const std::uint32_t segments = GetParam().segments;
    for (const std::uint32_t free_percent : {10u, 50u, 95u}) {
        or_tree tree(segments, false);
        or_tree_model model(segments, false);
        std::mt19937 random(free_percent);
        for (std::uint32_t i = 0; i < segments; ++i) {
            if (random() % 100 < free_percent) {
                ASSERT_TRUE(tree.give_back({segment_index{i}, 1}));
                ASSERT_TRUE(model.give_back({segment_index{i}, 1}));
            }
        }
        ASSERT_EQ(tree.longest_run(), model.longest_run());
        for (std::uint32_t k = 0; k <= model.longest_run() + 1; ++k) {
            ASSERT_EQ(tree.find_run(k), model.find_run(k)) << k;
        }
        ASSERT_TRUE(tree.validate().ok()) << tree.validate();
    }
}

INSTANTIATE_TEST_SUITE_P(sizes, or_tree_sequence,
                         ::testing::Values(sequence{1, 2000, 2000}, sequence{2, 2000, 2000}, sequence{63, 4000, 1000},
                                           sequence{64, 4000, 1000}, sequence{65, 4000, 1000}, sequence{4095, 4000, 40},
                                           sequence{4096, 4000, 40}, sequence{4097, 4000, 40},
                                           sequence{300'000, 2000, 10}),
                         [](const auto& test) { return std::to_string(test.param.segments); });

}  // namespace
}  // namespace orchard
