// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Heaps whose range of addresses is far greater than their memory: all of its metadata and bounds are as large as the
// range. The blocks lie in the lowest segments; tests/slab/last_segments_test.cu has the highest.

#include "tests/support/default_cases.hpp"

namespace orchard::test {
namespace {

class heap_wide_range : public heap_contract {
protected:
    /// Allocates small blocks and large ones, and frees them.
    void use(std::uint64_t tib) {
        SCOPED_TRACE(testing::Message() << tib << " TiB");
        options o = GetParam().values();
        o.capacity = segments(512);
        o.range = tib << 40;
        ASSERT_NO_FATAL_FAILURE(remake(o));
        std::vector<std::uint64_t> sizes;
        for (std::uint32_t i = 0; i < 1024; ++i) {
            // Four lanes of each warp ask for a large block.
            sizes.push_back(i % 8 == 0 ? 1 << 20 : 16u << i % 4);
        }
        const std::vector<block> blocks = allocate(sizes, 32);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
        free_all(blocks);
        expect_empty();
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_wide_range, ::testing::ValuesIn(default_cases(backing_option::elastic)), case_name);

TEST_P(heap_wide_range, of_4_tib_gives_disjoint_blocks) { use(4); }
// The longest range that there is, 2^24 - 1 segments.
TEST_P(heap_wide_range, slow_of_32_tib_gives_disjoint_blocks) { use(32); }

}  // namespace
}  // namespace orchard::test
