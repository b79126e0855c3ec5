// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Heaps whose range of addresses is far greater than their memory: the last shard's segments have large numbers.

#include <algorithm>

#include "tests/support/default_cases.hpp"

namespace orchard::test {
namespace {

class heap_wide_range : public heap_contract {
protected:
    /// Allocates by warps of all shards, small blocks and large ones, and frees them.
    void use(std::uint64_t tib, int shards) {
        SCOPED_TRACE(testing::Message() << tib << " TiB, " << shards << " shards");
        options o = GetParam().values();
        o.capacity = segments(512);
        o.range = tib << 40;
        o.shards = shards;
        o.cached_segments = 0;  // each warp's segments come from its own shard
        ASSERT_NO_FATAL_FAILURE(remake(o));
        std::vector<std::uint64_t> sizes;
        for (std::uint32_t i = 0; i < 1024; ++i) {
            // Four lanes of each warp ask for a large block, so that each shard serves all sizes.
            sizes.push_back(i % 8 == 0 ? 1 << 20 : 16u << i % 4);
        }
        const std::vector<block> blocks = allocate(sizes, 32);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
        const auto last = std::max_element(blocks.begin(), blocks.end(),
                                           [](const block& a, const block& b) { return a.address < b.address; });
        const std::uint64_t begin = as_number(device::heap_view(h().ref().view()).base);
        EXPECT_GE(last->address - begin, (o.range / static_cast<std::uint64_t>(shards)) * (shards - 1u));
        free_all(blocks);
        expect_empty();
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_wide_range, ::testing::ValuesIn(default_cases(backing_option::elastic)), case_name);

// The last shard begins at segment 2^20.
TEST_P(heap_wide_range, of_4_tib_gives_disjoint_blocks) { use(4, 2); }
// It begins at two thirds of segment 2^24, the greatest number that there is.
TEST_P(heap_wide_range, slow_of_32_tib_gives_disjoint_blocks) { use(32, 3); }

}  // namespace
}  // namespace orchard::test
