// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The list of chunks (rule E2) against a plain vector.

#include "uvm/model/chunk_list.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace orchard::uvm_model {
namespace {

TEST(chunk_list, gives_out_as_many_as_there_are) {
    chunk_list list(2);
    EXPECT_FALSE(list.oldest());
    const chunk_index a = list.take().value();
    const chunk_index b = list.take().value();
    EXPECT_NE(a, b);
    EXPECT_FALSE(list.take());
    EXPECT_EQ(list.oldest(), a);
    EXPECT_EQ(list.oldest(a), b);
    EXPECT_EQ(list.younger(a), b);
    EXPECT_FALSE(list.younger(b));
    list.mark_used(a);
    EXPECT_EQ(list.oldest(), b);
    list.give_back(b);
    EXPECT_EQ(list.used(), 1u);
    EXPECT_EQ(list.take(), b);
    EXPECT_EQ(list.oldest(), a);
}

TEST(chunk_list, agrees_with_a_vector) {
    std::mt19937 random(23);
    chunk_list list(20);
    std::vector<chunk_index> model;  // oldest first
    for (int step = 0; step < 20'000; ++step) {
        if (model.empty() || random() % 3 == 0) {
            const auto chunk = list.take();
            ASSERT_EQ(chunk.has_value(), model.size() < 20);
            if (chunk) {
                model.push_back(*chunk);
            }
            continue;
        }
        const std::size_t at = random() % model.size();
        const chunk_index chunk = model[at];
        model.erase(model.begin() + static_cast<std::ptrdiff_t>(at));
        if (random() % 2 == 0) {
            list.give_back(chunk);
        } else {
            list.mark_used(chunk);
            model.push_back(chunk);
        }
        ASSERT_EQ(list.used(), model.size());
        std::optional<chunk_index> listed = list.oldest();
        for (const chunk_index expected : model) {
            ASSERT_EQ(listed, expected) << step;
            listed = list.younger(*listed);
        }
        ASSERT_FALSE(listed);
    }
}

}  // namespace
}  // namespace orchard::uvm_model
