// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Whole chunks, as the service will lay them out: k segments from the OR-tree and the tail from the portion tree,
/// which together never give a leaf to two owners, and give each chunk one range.

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "host/or_tree.hpp"
#include "host/portion_tree.hpp"
#include "host/segment_directory.hpp"

namespace orchard {
namespace {

/// A chunk: `whole` segments from `first` on, and a tail that follows them. Without segments, the tail lies anywhere.
struct chunk {
    segment_index first = no_segment;
    std::uint32_t whole = 0;
    std::optional<portion> tail;

    /// Its leaves in the super chunk: [begin, end).
    [[nodiscard]] std::uint32_t begin() const {
        return whole != 0 ? to_underlying(first) * leaves_per_segment
                          : to_underlying(tail->block) * leaves_per_segment + to_underlying(tail->first);
    }
    [[nodiscard]] std::uint32_t end() const {
        return begin() + whole * leaves_per_segment + (tail ? to_underlying(tail->leaves) : 0);
    }
};

class chunk_space {
public:
    chunk_space(std::uint32_t segments, portion_policy policy)
        : tree_(segments, true), directory_(segments), portions_({segments, policy}) {
        EXPECT_TRUE(directory_.commit({segment_index{0}, segments}).ok());
    }

    std::optional<chunk> allocate(std::uint64_t bytes) {
        auto whole = static_cast<std::uint32_t>(bytes >> segment_shift);
        const leaf_count asked = leaves_for(bytes & (segment_bytes - 1));
        const bool has_tail = to_underlying(portion_leaves(portions_.shape().policy, asked)) != 0;
        whole += !has_tail && asked != leaf_count{0} ? 1 : 0;
        if (whole == 0) {
            if (const auto p = portions_.take(asked)) {
                return chunk{no_segment, 0, p};
            }
        }
        const std::uint32_t count = whole + (has_tail ? 1 : 0);
        const auto first = tree_.take_run(count);
        if (!first) {
            return std::nullopt;
        }
        EXPECT_TRUE(directory_.grant({*first, count}).ok());
        chunk c{*first, whole, std::nullopt};
        if (has_tail) {
            c.tail = portions_.take_leftmost(*first + whole, asked);
            EXPECT_TRUE(c.tail);
        }
        return c;
    }

    void release(const chunk& c) {
        if (c.whole != 0) {
            give_back({c.first, c.whole});
        }
        if (c.tail && portions_.release(*c.tail) == portion_release::emptied && portions_.empty_blocks() > 1) {
            EXPECT_TRUE(portions_.leave(c.tail->block));
            give_back({c.tail->block, 1});
        }
    }

    [[nodiscard]] absl::Status validate() const {
        if (absl::Status s = tree_.validate(); !s.ok()) {
            return s;
        }
        if (absl::Status s = directory_.validate(tree_); !s.ok()) {
            return s;
        }
        return portions_.validate(directory_);
    }

    [[nodiscard]] const portion_tree& portions() const { return portions_; }
    [[nodiscard]] std::uint32_t granted() const { return directory_.count(segment_state::granted); }

private:
    void give_back(segment_run run) {
        EXPECT_TRUE(directory_.give_back(run).ok());
        EXPECT_TRUE(tree_.give_back(run));
    }

    or_tree tree_;
    segment_directory directory_;
    portion_tree portions_;
};

/// All live chunks by their first leaf.
class owners {
public:
    [[nodiscard]] bool add(const chunk& c) {
        const auto next = by_begin_.lower_bound(c.begin());
        const bool after = next == by_begin_.end() || c.end() <= next->first;
        const bool before = next == by_begin_.begin() || std::prev(next)->second.end() <= c.begin();
        return c.begin() < c.end() && after && before && by_begin_.emplace(c.begin(), c).second;
    }
    chunk remove(std::uint32_t which) {
        const auto found = std::next(by_begin_.begin(), which % static_cast<std::ptrdiff_t>(by_begin_.size()));
        const chunk c = found->second;
        by_begin_.erase(found);
        return c;
    }
    [[nodiscard]] std::size_t size() const { return by_begin_.size(); }

private:
    std::map<std::uint32_t, chunk> by_begin_;
};

class chunks : public ::testing::TestWithParam<portion_policy> {};

INSTANTIATE_TEST_SUITE_P(policies, chunks, ::testing::Values(portion_policy::packed, portion_policy::padded));

TEST_P(chunks, have_one_range_each_and_share_no_leaf) {
    chunk_space space(600, GetParam());
    owners live;
    std::mt19937 random(5);
    std::uint32_t refused = 0;
    for (int step = 0; step < 20000; ++step) {
        if (random() % 20 < 11 || live.size() == 0) {
            // Half of the chunks are under 2 MiB, the other half up to 10 MiB.
            const std::uint64_t most = random() % 2 == 0 ? segment_bytes : 5 * segment_bytes;
            const std::uint64_t bytes = 1 + random() % most;
            const auto c = space.allocate(bytes);
            refused += c ? 0 : 1;
            if (c) {
                ASSERT_GE((c->end() - c->begin()) * big_page_bytes, bytes) << "step " << step;
                ASSERT_TRUE(c->whole == 0 || !c->tail || c->tail->block == c->first + c->whole);
                ASSERT_TRUE(c->whole == 0 || !c->tail || c->tail->first == leaf_index{0});
                ASSERT_TRUE(live.add(*c)) << "step " << step << ": leaves " << c->begin() << " to " << c->end();
            }
        } else {
            space.release(live.remove(static_cast<std::uint32_t>(random())));
        }
        if (step % 100 == 0) {
            ASSERT_TRUE(space.validate().ok()) << space.validate();
        }
    }
    EXPECT_GT(refused, 0u) << "the space was never full";
    while (live.size() != 0) {
        space.release(live.remove(0));
    }
    ASSERT_TRUE(space.validate().ok()) << space.validate();
    EXPECT_EQ(space.granted(), space.portions().blocks());
    EXPECT_EQ(space.portions().blocks(), 1u) << "the one empty block that is kept";
}

}  // namespace
}  // namespace orchard
