// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The prefetcher's tree, as the driver computes it; see prefetch_tree.hpp and rules P2 to P5 of docs/uvm.md.
///
///     prefetch_mask
///       tree             set T: resident pages, faulted pages, and each 64 KiB region with a fault as a whole (P2)
///       region_of        for each faulted page, ascending: the largest node over it that passes the threshold (P3)
///       result           the union of these nodes, without the faulted pages; T stays as it is (P4)

#include "uvm/model/prefetch_tree.hpp"

#include <algorithm>
#include <bit>

namespace orchard::uvm_model {
namespace {

/// The tree of one service: set T of rule P2, in pages of the segment; leaf = page - block.first + ghosts.
struct tree {
    page_range block;          ///< the VA block, in pages of its segment
    std::uint32_t ghosts = 0;  ///< leaves before the block's first page
    std::uint32_t leaves = 0;  ///< pages of the block, and ghosts
    std::uint32_t levels = 0;  ///< from the leaves to the root: 10 for 512 leaves
    page_mask pages;           ///< T

    /// Builds T. A block without a whole big page has no ghosts: its leaves begin at its first page.
    tree(page_range of, const page_mask& resident, const page_mask& faulted) : block{of} {
        const page_range big = big_pages_in(block);
        if (big.end != 0 && big.first > block.first) {
            ghosts = pages_per_big_page - (big.first - block.first);
        }
        leaves = block.size() + ghosts;
        levels = static_cast<std::uint32_t>(std::bit_width(std::bit_ceil(leaves)));
        pages = (resident | faulted) & page_mask(block);
        grow(big, faulted);
    }

    /// `grow_fault_granularity`: the head, each big page and the tail grow as wholes; a block without a big page grows
    /// as one.
    void grow(page_range big, const page_mask& faulted) {
        if (big.end == 0) {
            grow_one(block, faulted);
            return;
        }
        grow_one({block.first, big.first}, faulted);
        for (std::uint32_t page = big.first; page < big.end; page += pages_per_big_page) {
            grow_one({page, page + pages_per_big_page}, faulted);
        }
        grow_one({big.end, block.end}, faulted);
    }
    /// Adds a whole region to T if a page of it faulted. An empty range adds nothing.
    void grow_one(page_range region, const page_mask& faulted) {
        if (faulted.count(region) != 0) {
            pages.add(region);
        }
    }

    /// `compute_prefetch_region`: returns the largest node over `page` that passes, in pages of the segment. A node
    /// smaller than the page's region may fail although a larger one passes, so the walk always continues to the root.
    [[nodiscard]] page_range region_of(std::uint32_t page, std::uint32_t threshold) const {
        const std::uint32_t leaf = page - block.first + ghosts;
        page_range best;
        // The node over the leaf at this level; the last node of a level ends with the last leaf.
        for (std::uint32_t level = 0; level < levels; ++level) {
            const std::uint32_t first = leaf >> level << level;
            const std::uint32_t end = std::min(first + (1u << level), leaves);
            if (pages.count(pages_of(first, end)) * 100 > (end - first) * threshold) {
                best = {first, end};
            }
        }
        if (best.end == 0) {
            return {};
        }
        // The driver clamps before it subtracts the ghosts, so a node that includes ghosts starts at `ghosts` pages.
        const std::uint32_t begin = best.first < ghosts ? ghosts : best.first - ghosts;
        return {block.first + begin, block.first + best.end - ghosts};
    }

    /// Returns the pages of leaves [first, end), without ghosts.
    [[nodiscard]] page_range pages_of(std::uint32_t first, std::uint32_t end) const {
        return {block.first + (first > ghosts ? first - ghosts : 0), block.first + (end > ghosts ? end - ghosts : 0)};
    }
};

}  // namespace

page_mask prefetch_mask(page_range block, const page_mask& resident, const page_mask& faulted,
                        std::uint32_t threshold) {
    const tree t(block, resident, faulted);
    page_mask result;
    // P4: T does not change while nodes are added to the result.
    (faulted & page_mask(block)).each_while([&](std::uint32_t page) {
        const page_range region = t.region_of(page, threshold);
        result.add(region);
        return region.end != block.end;  // later pages could only repeat a region that ends at the block's end
    });
    return result.without(faulted);
}

}  // namespace orchard::uvm_model
