// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Long random lives of a space as a service leads them: a block joins when no other has room, and leaves when it is
/// empty, but for one.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "host/portion_tree.hpp"
#include "tests/portion_tree/model.hpp"

namespace orchard {
namespace {

using testing::portion_model;
using testing::text_of;

struct life {
    portion_policy policy;
    std::uint32_t segments;
    std::uint32_t live;   ///< portions at the crest
    std::uint32_t steps;  ///< takes and releases
    std::uint32_t largest;
};

class portion_tree_lives : public ::testing::TestWithParam<life> {
protected:
    [[nodiscard]] std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

    void step(bool grow) {
        if (grow || live_.empty()) {
            ASSERT_NO_FATAL_FAILURE(below(4) == 0 ? take_leftmost() : take());
        } else {
            ASSERT_NO_FATAL_FAILURE(release());
        }
    }

    // A take may fail only if the model has no place, or, for packed aligned portions, no run that certainly contains
    // one.
    void take() {
        const std::uint32_t asked = 1 + below(GetParam().largest);
        const std::uint32_t alignment =
            below(4) == 0 ? 1u << below(static_cast<std::uint32_t>(std::bit_width(asked))) : 1;
        auto p = tree_.take(leaf_count{asked}, leaf_count{alignment});
        if (!p && model_.own(asked) != 0) {
            const bool exact = GetParam().policy == portion_policy::padded;
            const std::uint32_t certain = exact ? asked : asked + alignment - 1;
            ASSERT_FALSE(model_.fits(certain)) << asked << " aligned to " << alignment;
            ASSERT_EQ(tree_.empty_blocks(), 0u) << asked << " aligned to " << alignment;
            join();
            p = tree_.take(leaf_count{asked}, leaf_count{alignment});
            ASSERT_TRUE(p) << asked << " aligned to " << alignment;
        }
        if (p) {
            ASSERT_EQ(to_underlying(p->first) % alignment, 0u) << text_of(*p);
            keep(*p, asked);
        }
    }

    // The tail of a chunk: its block joins, anywhere.
    void take_leftmost() {
        const segment_index block{below(GetParam().segments)};
        const std::uint32_t asked = 1 + below(GetParam().largest);
        const portion wanted{block, leaf_index{0}, leaf_count{model_.own(asked)}};
        if (model_.own(asked) != 0) {
            (void)model_.join(to_underlying(block));
        }
        const auto p = tree_.take_leftmost(block, leaf_count{asked});
        ASSERT_EQ(p.has_value(), model_.allowed(wanted)) << text_of(wanted);
        if (p) {
            ASSERT_EQ(*p, wanted);
            keep(*p, asked);
        }
    }

    void keep(const portion& p, std::uint32_t asked) {
        ASSERT_EQ(to_underlying(p.leaves), model_.own(asked)) << text_of(p);
        ASSERT_TRUE(model_.allowed(p)) << text_of(p);
        model_.add(p);
        live_.push_back(p);
    }

    void join() {
        std::uint32_t block = below(GetParam().segments);
        while (model_.joined(block)) {
            block = below(GetParam().segments);
        }
        ASSERT_TRUE(tree_.join(segment_index{block}));
        ASSERT_TRUE(model_.join(block));
    }

    void release() {
        std::swap(live_[below(static_cast<std::uint32_t>(live_.size()))], live_.back());
        const portion p = live_.back();
        live_.pop_back();
        const portion_release expected = model_.release(p);
        ASSERT_EQ(tree_.release(p), expected) << text_of(p);
        ASSERT_EQ(tree_.release(p), portion_release::rejected) << text_of(p);
        if (expected == portion_release::emptied && tree_.empty_blocks() > 1) {
            ASSERT_TRUE(tree_.leave(p.block));
            ASSERT_TRUE(model_.leave(to_underlying(p.block)));
        }
    }

    std::mt19937 random_{GetParam().segments};
    portion_tree tree_{{GetParam().segments, GetParam().policy}};
    portion_model model_{{GetParam().segments, GetParam().policy}};
    std::vector<portion> live_;
};

// Fills the space and empties it again, repeatedly.
TEST_P(portion_tree_lives, answer_as_the_model) {
    bool growing = true;
    for (std::uint32_t i = 0; i < GetParam().steps; ++i) {
        growing = growing ? live_.size() < GetParam().live : live_.empty();
        ASSERT_NO_FATAL_FAILURE(step(growing ? below(10) < 7 : below(10) < 3)) << "step " << i;
        if (i % (GetParam().steps / 40) == 0) {
            ASSERT_EQ(model_.difference(tree_), "") << "step " << i;
        }
    }
    while (!live_.empty()) {
        ASSERT_NO_FATAL_FAILURE(release());
    }
    ASSERT_EQ(model_.difference(tree_), "");
    EXPECT_EQ(tree_.empty_blocks(), tree_.blocks());
}

INSTANTIATE_TEST_SUITE_P(sizes, portion_tree_lives,
                         ::testing::Values(life{portion_policy::packed, 70, 40, 60000, 31},
                                           life{portion_policy::padded, 70, 20, 60000, 16},
                                           life{portion_policy::packed, 5000, 1500, 100000, 31},
                                           life{portion_policy::padded, 5000, 1500, 100000, 16},
                                           life{portion_policy::packed, 5000, 5000, 100000, 4},
                                           life{portion_policy::padded, 5000, 5000, 100000, 4}));

}  // namespace
}  // namespace orchard
