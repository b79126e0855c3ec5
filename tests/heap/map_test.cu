// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The map of a heap against the blocks that the test knows, and against the statistics.

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "device/heap_arrays_impl.cuh"
#include "tests/support/elastic_fixture.hpp"

namespace orchard::test {
namespace {

heap_map map_of(heap& h) {
    const absl::StatusOr<heap_map> map = h.map();
    EXPECT_TRUE(map.ok()) << map.status();
    return map.ok() ? *map : heap_map{};
}

/// Returns the use of each segment.
std::vector<segment_use> uses_of(const heap_map& map) {
    std::vector<segment_use> uses;
    for (const heap_map::use_run& r : map.uses) {
        uses.insert(uses.end(), r.count, r.use);
    }
    return uses;
}

/// Returns the number of entries that cover `at`; their first and count are the members given.
template <class Entry>
std::size_t covers(const std::vector<Entry>& list, std::uint64_t at, std::uint32_t Entry::*first,
                   std::uint32_t Entry::*count) {
    return static_cast<std::size_t>(std::ranges::count_if(
        list, [&](const Entry& e) { return at >= e.*first && at < std::uint64_t{e.*first} + e.*count; }));
}

/// A map must say nothing else than the statistics, and have all segments.
void expect_exact(const heap_map& map) {
    EXPECT_TRUE(map.is_exact);
    EXPECT_EQ(difference(map), "");
    EXPECT_EQ(uses_of(map).size(), map.segments);
}

class heap_maps : public heap_contract {
protected:
    std::uint64_t segment_of(const block& b) {
        return (b.address - reinterpret_cast<std::uintptr_t>(h().view().base)) / segment_bytes;
    }
    std::uint64_t leaf_of(const block& b) {
        return (b.address - reinterpret_cast<std::uintptr_t>(h().view().base)) / big_page_bytes;
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_maps, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(heap_maps, show_each_block_where_it_is) {
    expect_exact(map_of(h()));
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = 0; i < 32; ++i) {
        // Two classes and, together, 2.8 MiB: the smallest of these heaps has 8 segments.
        sizes.push_back(i < 14 ? 40 : i < 28 ? 700 : (700 << 10) + (i << 10));
    }
    const std::vector<block> blocks = allocate(sizes, 32);
    const heap_map map = map_of(h());
    expect_exact(map);
    const std::vector<segment_use> uses = uses_of(map);
    for (const block& b : blocks) {
        ASSERT_NE(b.address, 0u);
        const std::uint64_t at = segment_of(b);
        if (b.bytes <= largest_page_bytes) {
            EXPECT_EQ(uses[at], segment_use::slab) << b.bytes;
            EXPECT_EQ(covers(map.slabs, at, &heap_map::slab_run::first, &heap_map::slab_run::count), 1u);
        } else if (uses[at] == segment_use::portions) {
            EXPECT_EQ(covers(map.portions, leaf_of(b), &heap_map::piece::first_leaf, &heap_map::piece::leaves), 1u);
        } else {
            EXPECT_EQ(uses[at], segment_use::chunk) << b.bytes;
        }
        EXPECT_EQ(covers(map.tiers, at, &heap_map::memory_run::first, &heap_map::memory_run::count), 1u);
    }
    const map_totals totals = totals_of(map);
    EXPECT_EQ(totals.pages_in_use, 28u);
    std::uint64_t live = 0;
    std::uint64_t asked = 0;
    for (const heap_map::chunk& c : map.chunks) {
        live += c.live_lanes;
        asked += c.asked_bytes;
        EXPECT_FALSE(c.interleaved);
    }
    EXPECT_EQ(live, 4u);
    std::uint64_t large = 0;
    for (const std::uint64_t bytes : sizes) {
        large += bytes > largest_page_bytes ? bytes : 0;
    }
    EXPECT_GE(asked, large);
    EXPECT_LT(asked, large + 4 * 256) << "rounded up to 256 B";

    const std::vector<block> freed(blocks.begin(), blocks.end() - 1);
    free_all(freed);
    const heap_map later = map_of(h());
    expect_exact(later);
    EXPECT_EQ(totals_of(later).pages_in_use, 0u);
    std::uint64_t left = 0;
    for (const heap_map::chunk& c : later.chunks) {
        left += c.live_lanes;
    }
    EXPECT_EQ(left, 1u);
    free_all({blocks.back()});
    ASSERT_TRUE(h().trim().ok());
    const heap_map empty = map_of(h());
    expect_exact(empty);
    EXPECT_TRUE(empty.slabs.empty());
    EXPECT_TRUE(empty.chunks.empty());
    EXPECT_TRUE(empty.portions.empty());
    EXPECT_EQ(totals_of(empty).granted, 0u);
}

TEST_P(heap_maps, tell_tails_from_chunks_and_what_waits_where) {
    const std::vector<block> whole = allocate({3 << 20}, 1);
    const std::vector<block> part = allocate({700 << 10}, 1);
    const heap_map map = map_of(h());
    expect_exact(map);
    ASSERT_EQ(map.chunks.size(), 2u);
    for (const heap_map::chunk& c : map.chunks) {
        const auto leaves = std::ranges::find(map.portions, c.tail, &heap_map::piece::first_leaf);
        ASSERT_NE(leaves, map.portions.end());
        EXPECT_EQ(leaves->use, c.segments != 0 ? portion_use::tail : portion_use::chunk);
    }
    free_all(whole);
    free_all(part);
    const heap_map later = map_of(h());
    expect_exact(later);
    EXPECT_TRUE(later.chunks.empty());
    if (h().executor().kind == simt::device_kind::emulated) {
        // The memory of that device is the host's.
        const std::uint64_t cached = h().view().state->cache_level.word.load<simt::order::relaxed>();
        EXPECT_EQ(totals_of(later).segments[static_cast<std::size_t>(segment_use::cached)], cached);
    }
}

TEST_P(heap_maps, of_hardened_heaps_agree_with_their_statistics) {
    for (const hardening how : {hardening::detect, hardening::guard}) {
        options values = GetParam().values();
        values.hardened = how;
        values.guard_sample_rate = 1;
        remake(values);
        const std::vector<block> blocks = allocate({40, 700, 700 << 10, 3 << 20}, 1);
        expect_exact(map_of(h()));
        free_all(blocks);
        expect_exact(map_of(h()));
        ASSERT_TRUE(h().trim().ok());
        expect_exact(map_of(h()));
    }
}

TEST_P(heap_maps, name_blocks_of_the_host) {
    const absl::StatusOr<void*> p = h().allocate_on_host(3 << 20);
    ASSERT_TRUE(p.ok()) << p.status();
    const heap_map map = map_of(h());
    expect_exact(map);
    ASSERT_FALSE(map.chunks.empty());
    EXPECT_EQ(map.chunks.front().live_lanes, map.chunks.front().lanes);
    EXPECT_TRUE(h().free_on_host(*p).ok());
    EXPECT_TRUE(h().validate().ok());
}

TEST_P(heap_maps, are_written_to_a_file_or_not_at_all) {
    const std::string folder = testing::TempDir() + "heap_maps_" + std::to_string(::getpid());
    std::filesystem::create_directory(folder);
    const std::string path = folder + "/map.json";
    std::ofstream(path) << "before";
    ASSERT_TRUE(h().dump(path).ok());
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    EXPECT_EQ(text.str().rfind("{\"format\": \"orchard heap map\", \"version\": 1, ", 0), 0u)
        << text.str().substr(0, 80);
    struct stat found {};
    ASSERT_EQ(::stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u);
    const absl::Status no_folder = h().dump(folder + "/none/map.json");
    EXPECT_TRUE(absl::IsInvalidArgument(no_folder)) << no_folder;
    EXPECT_NE(no_folder.message().find(folder + "/none/map.json"), std::string::npos) << no_folder;
    const absl::Status is_folder = h().dump(folder);
    EXPECT_TRUE(absl::IsInvalidArgument(is_folder)) << is_folder;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1) << "a file of another name is left";
    EXPECT_TRUE(h().dump("/dev/null").ok());
    std::filesystem::remove_all(folder);
}

class elastic_maps : public elastic_contract {};
INSTANTIATE_TEST_SUITE_P(all, elastic_maps, ::testing::ValuesIn(elastic_cases()), case_name);

TEST_P(elastic_maps, show_tiers_and_commits) {
    remake(values_of(12, 4));
    const heap_map none = map_of(h());
    expect_exact(none);
    EXPECT_TRUE(none.extents.empty());
    EXPECT_TRUE(none.tiers.empty());
    ASSERT_EQ(fill(), 16u);
    const heap_map all = map_of(h());
    expect_exact(all);
    EXPECT_EQ(all.totals.host_bytes, segments(4));
    EXPECT_EQ(totals_of(all).on_host, 4u);
    std::uint64_t committed = 0;
    for (const heap_map::memory_run& e : all.extents) {
        EXPECT_LE(e.count, 2u);
        committed += e.count;
    }
    EXPECT_EQ(committed, 16u);
    empty();
    ASSERT_TRUE(h().trim().ok());
    const heap_map later = map_of(h());
    expect_exact(later);
    EXPECT_EQ(totals_of(later).committed, 0u);
}

TEST_P(elastic_maps, show_where_memory_has_moved_to) {
    options values = values_of(8, 8);
    values.move_unit = segments(2);
    remake(values);
    const std::vector<block> blocks = allocate({segments(1), segments(1), segments(1), segments(1)}, 1);
    const auto tier_at = [&](const heap_map& map, const block& b) {
        const std::uint64_t at = (b.address - reinterpret_cast<std::uintptr_t>(h().view().base)) / segment_bytes;
        for (const heap_map::memory_run& r : map.tiers) {
            if (at >= r.first && at < std::uint64_t{r.first} + r.count) {
                return name_of(r.tier);
            }
        }
        return std::string_view("none");
    };
    const heap_map before = map_of(h());
    expect_exact(before);
    EXPECT_EQ(tier_at(before, blocks[0]), "device");
    ASSERT_TRUE(h().demote(reinterpret_cast<void*>(blocks[0].address), segments(1)).ok());
    const heap_map after = map_of(h());
    expect_exact(after);
    EXPECT_EQ(tier_at(after, blocks[0]), "host");
    EXPECT_EQ(after.extents, before.extents) << "where it was committed";
    EXPECT_GT(totals_of(after).on_host, 0u);
    EXPECT_LT(totals_of(after).on_host, totals_of(after).committed);
    free_all(blocks);
}

/// Each lane of a warp keeps an interleaved array.
struct keep_arrays {
    heap_ref heap;
    std::uint64_t count;
    lane_array<std::uint32_t>* kept;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        kept[at.thread] = heap.allocate_array<std::uint32_t>(count, layout::interleaved(tile::b4));
    }
};
struct free_arrays {
    heap_ref heap;
    lane_array<std::uint32_t>* kept;
    ORCHARD_FN void operator()(simt::thread_position at) const { heap.free_array(kept[at.thread]); }
};

TEST_P(elastic_maps, show_interleaved_arrays_and_pooled_tails) {
    options values = GetParam().values();
    values.tails = tail_policy::pooled;
    remake(values);
    const auto kept = array<lane_array<std::uint32_t>>(32);
    launch({1, 32}, keep_arrays{h().ref(), 20'000, kept.data()});  // 2.44 MiB: a segment and a tail
    const heap_map map = map_of(h());
    expect_exact(map);
    ASSERT_FALSE(map.chunks.empty());
    std::uint64_t lanes = 0;
    for (const heap_map::chunk& c : map.chunks) {
        EXPECT_TRUE(c.interleaved);
        lanes += c.lanes;
        if (c.leaves != 0) {
            const auto tail = std::ranges::find(map.portions, c.tail, &heap_map::piece::first_leaf);
            ASSERT_NE(tail, map.portions.end());
            EXPECT_EQ(tail->leaves, c.leaves);
            EXPECT_EQ(tail->use, c.segments != 0 ? portion_use::tail : portion_use::chunk);
        }
    }
    EXPECT_EQ(lanes, 32u);
    launch({1, 32}, free_arrays{h().ref(), kept.data()});
    expect_exact(map_of(h()));
}

}  // namespace
}  // namespace orchard::test
