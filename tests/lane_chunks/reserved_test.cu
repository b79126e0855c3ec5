// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The size of arrays of lanes, the position of their sub-arrays, and the choice of their layout.

#include <random>
#include <set>

#include "tests/lane_chunks/arrays_fixture.hpp"
#include "uvm/geometry/layout_text.hpp"

namespace orchard::test {
namespace {

using element = cell<1>;

class lane_chunks_reserved : public arrays_contract {
protected:
    /// Returns the request of one warp for interleaved arrays, in whole tiles, or in OS pages if tiles are larger.
    static std::uint64_t asked_bytes(const std::vector<lane_array<element>>& arrays, tile t) {
        const std::uint64_t unit = std::min(bytes_of(t), os_page_bytes);
        std::uint64_t sum = 0;
        for (const lane_array<element>& a : arrays) {
            sum += (a.size() * sizeof(element) + unit - 1) / unit * unit;
        }
        return sum;
    }
    /// Returns the arrays that are interleaved. Linear ones lie elsewhere, in blocks of their own.
    static std::vector<lane_array<element>> interleaved(std::vector<lane_array<element>> arrays) {
        std::erase_if(arrays, [](const lane_array<element>& a) { return a.map() == lane_map::linear(); });
        return arrays;
    }
    /// A quarter more, a leaf, and 256 B for each sub-array.
    static std::uint64_t max_bytes(std::uint64_t asked) { return asked / 4 * 5 + big_page_bytes + 32 * 256; }

    /// The map of the last of `lanes` equal arrays.
    template <class T>
    lane_map map_of(std::size_t lanes, std::uint64_t count, layout how) {
        const auto arrays = allocate_arrays<T>(std::vector<std::uint64_t>(lanes, count), how, 32);
        free_arrays(arrays);
        return arrays.back().map();
    }
    void expect_aligned(const std::vector<lane_array<element>>& arrays) {
        for (const lane_array<element>& a : arrays) {
            if (!a.empty()) {
                EXPECT_EQ(as_number(a.chunk()) % a.map().size(a.size() * sizeof(element)).alignment, 0u);
                EXPECT_EQ(static_cast<bool>(a.data()), a.map().pointable());
            }
        }
    }
};
INSTANTIATE_TEST_SUITE_P(all, lane_chunks_reserved, ::testing::Values(heap_cases()[0], heap_cases()[4]), case_name);

TEST_P(lane_chunks_reserved, is_at_most_a_quarter_more_whatever_the_sizes) {
    std::mt19937 random(11);
    const int rounds = static_cast<int>(scaled(60, 10));
    for (const tile t : {tile::b4, tile::b16, tile::b512, tile::k4, tile::k16, tile::k64}) {
        for (int round = 0; round < rounds; ++round) {
            const auto log_most = static_cast<std::uint32_t>(8 + random() % 11);  // up to 1 MiB each
            std::vector<std::uint64_t> counts(2 + random() % 31, absent);
            for (std::uint64_t& n : counts) {
                const auto log = static_cast<std::uint32_t>(round % 3 == 0 ? 1 + random() % log_most : log_most);
                n = round % 3 == 2 ? 1u << log : 1 + random() % (1u << log);
            }
            const auto arrays = allocate_arrays<element>(counts, layout::interleaved(t), 32);
            expect_sizes(arrays, counts);
            const auto in_chunk = interleaved(arrays);
            if (!in_chunk.empty()) {
                EXPECT_LE(chunk_bytes(in_chunk), max_bytes(asked_bytes(in_chunk, t)))
                    << "tile " << bytes_of(t) << ", round " << round << ", " << counts.size() << " lanes";
            }
            expect_aligned(in_chunk);
            expect_valid("allocated");
            free_arrays(arrays);
            // So that no round gets a chunk of the chunk store, which may be longer than it needs.
            ASSERT_TRUE(h().trim().ok());
            ASSERT_FALSE(HasFailure()) << "tile " << bytes_of(t) << ", round " << round;
        }
    }
    expect_empty();
}

TEST_P(lane_chunks_reserved, one_large_array_among_small_ones) {
    for (const tile t : {tile::b4, tile::b16, tile::k4, tile::k64}) {
        std::vector<std::uint64_t> counts(32, 20'000 / sizeof(element));
        counts[13] = (16 << 20) / sizeof(element);
        const auto arrays = allocate_arrays<element>(counts, layout::interleaved(t), 32);
        expect_sizes(arrays, counts);
        EXPECT_LE(chunk_bytes(arrays), max_bytes(asked_bytes(arrays, t))) << bytes_of(t);
        EXPECT_EQ(settled_stats().live_chunks, 1u);
        EXPECT_EQ(arrays[13].map().width, t > tile::k4 ? 32u : 1u);
        stamp_arrays(arrays);
        expect_arrays_stamped(arrays);
        free_arrays(arrays);
    }
    expect_empty();
}

TEST_P(lane_chunks_reserved, equal_arrays_of_a_whole_warp_are_one_sub_array) {
    for (const tile t : {tile::b4, tile::b16, tile::k4, tile::k64}) {
        const std::vector<std::uint64_t> counts(32, (1 << 20) / sizeof(element));
        const auto arrays = allocate_arrays<element>(counts, layout::interleaved(t), 32);
        expect_sizes(arrays, counts);
        std::set<std::uint32_t> positions;
        for (const lane_array<element>& a : arrays) {
            EXPECT_EQ(a.chunk(), arrays[0].chunk());
            EXPECT_EQ(a.map(), lane_map::rows(t, 32));
            positions.insert(a.position());
        }
        EXPECT_EQ(positions.size(), 32u);
        EXPECT_EQ(chunk_bytes(arrays), 32u << 20);
        free_arrays(arrays);
    }
}

TEST_P(lane_chunks_reserved, widths_follow_the_binary_digits_or_the_next_power_of_two) {
    const auto widths = [&](std::size_t lanes) {
        const auto arrays =
            allocate_arrays<element>(std::vector<std::uint64_t>(lanes, 50'000), layout::interleaved(tile::b4), 32);
        std::multiset<std::uint32_t> seen;
        for (const lane_array<element>& a : arrays) {
            seen.insert(a.map().width);
        }
        free_arrays(arrays);
        return seen;
    };
    const auto all = [](std::uint32_t width, std::size_t lanes) {
        std::multiset<std::uint32_t> result;
        for (; lanes != 0; --lanes) {
            result.insert(width);
        }
        return result;
    };
    EXPECT_EQ(widths(31), all(32, 31));
    EXPECT_EQ(widths(26), all(32, 26));
    EXPECT_EQ(widths(7), all(8, 7));
    EXPECT_EQ(widths(3), (std::multiset<std::uint32_t>{2, 2, 1}));
    auto of_21 = all(16, 16);
    of_21.merge(all(4, 4));
    of_21.insert(1);
    EXPECT_EQ(widths(21), of_21);
}

TEST_P(lane_chunks_reserved, rows_of_a_chunk_under_a_segment_are_at_most_a_leaf) {
    // Such a chunk begins at any leaf; a segment would be four times as much.
    const std::vector<std::uint64_t> counts(32, (16 << 10) / sizeof(element));
    for (const auto& [t, width] : {std::pair{tile::k2, 32u}, std::pair{tile::k4, 16u}}) {
        const auto arrays = allocate_arrays<element>(counts, layout::interleaved(t), 32);
        EXPECT_EQ(arrays[9].map(), lane_map::rows(t, width));
        EXPECT_EQ(chunk_bytes(arrays), 512u << 10);
        expect_aligned(arrays);
        free_arrays(arrays);
    }
    // With tiles above 4 KiB, all lanes share one sub-array, to which `lane_ptr` does not point.
    const auto large = allocate_arrays<element>(counts, layout::interleaved(tile::k8), 32);
    EXPECT_EQ(large[9].map(), (lane_map{4, tile::k8, 32, 0}));
    EXPECT_EQ(chunk_bytes(large), 512u << 10);
    EXPECT_FALSE(large[9].data());
    expect_aligned(large);
    free_arrays(large);
    // Where a segment is at most a quarter more, it is one.
    const std::vector<std::uint64_t> more(32, (60 << 10) / sizeof(element));
    const auto arrays = allocate_arrays<element>(more, layout::interleaved(tile::k4), 32);
    EXPECT_EQ(arrays[9].map(), lane_map::rows(tile::k4, 32));
    EXPECT_EQ(chunk_bytes(arrays), segment_bytes);
    expect_aligned(arrays);
    free_arrays(arrays);
}

TEST_P(lane_chunks_reserved, tail_rows_hold_what_is_left_of_a_large_tile) {
    const std::vector<std::uint64_t> counts(32, (84 << 10) / sizeof(element));
    const auto arrays = allocate_arrays<element>(counts, layout::interleaved(tile::k64), 32);
    expect_sizes(arrays, counts);
    EXPECT_EQ(arrays[0].map(), lane_map::with_tail_rows(tile::k64, 32, 84 << 10));
    EXPECT_EQ(chunk_bytes(arrays), 42 * big_page_bytes);
    stamp_arrays(arrays);
    EXPECT_EQ(expect_arrays_stamped(arrays), 32u) << "lane_ptr serves no tail rows";
    free_arrays(arrays);
}

/// The sizes of AlignMalloc's figure 10 for threads that ask for random sizes within a doubling.
TEST_P(lane_chunks_reserved, lanes_of_one_doubling_share_rows_and_little_is_reserved_beside) {
    std::mt19937 random(5);
    for (std::uint64_t least = 4 << 10; least <= 512 << 10; least *= 2) {
        std::uint64_t asked = 0;
        std::uint64_t reserved = 0;
        for (int round = 0; round < 16; ++round) {
            std::vector<std::uint64_t> counts(32);
            for (std::uint64_t& n : counts) {
                n = (least + random() % least) / sizeof(element);
                asked += n * sizeof(element);
            }
            const auto arrays = allocate_arrays<element>(counts, layout::interleaved(tile::k64), 32);
            expect_sizes(arrays, counts);
            for (const lane_array<element>& a : arrays) {
                ASSERT_EQ(a.chunk(), arrays[0].chunk());
                ASSERT_EQ(a.map().width, 32u);
                ASSERT_GE(a.map().pages * os_page_bytes, least) << "all lanes are in the first rows";
            }
            reserved += chunk_bytes(arrays);
            free_arrays(arrays);
            ASSERT_TRUE(h().trim().ok());  // no chunk of the chunk store, which may be longer than it needs
        }
        const double most = least >= 16 << 10 ? 1.25 : least >= 8 << 10 ? 1.35 : 1.55;
        EXPECT_LE(static_cast<double>(reserved), most * static_cast<double>(asked)) << least;
        RecordProperty(std::to_string(least),
                       std::to_string(static_cast<double>(reserved) / static_cast<double>(asked)));
    }
    expect_empty();
}

TEST_P(lane_chunks_reserved, lanes_under_an_os_page_get_blocks_where_tiles_are_larger) {
    std::vector<std::uint64_t> counts(32, 100);
    counts[3] = counts[30] = 40'000;
    const auto arrays = allocate_arrays<element>(counts, layout::interleaved(tile::k64), 32);
    expect_sizes(arrays, counts);
    EXPECT_EQ(interleaved(arrays).size(), 2u);
    EXPECT_EQ(arrays[3].map().width, 2u);
    stamp_arrays(arrays);
    expect_arrays_stamped(arrays);
    free_arrays(arrays);
    expect_empty();
}

TEST_P(lane_chunks_reserved, twelve_lanes_are_one_row) {
    const std::vector<std::uint64_t> counts(12, (128 << 10) / sizeof(element));
    const auto arrays = allocate_arrays<element>(counts, layout::interleaved(tile::k64), 12);
    EXPECT_EQ(arrays[0].map(), (lane_map::rows(tile::k64, 12)));
    EXPECT_EQ(chunk_bytes(arrays), 12u << 17);
    free_arrays(arrays);
}

TEST_P(lane_chunks_reserved, automatic_weighs_what_lanes_ask_for_together) {
    const layout any = layout::automatic();
    EXPECT_EQ(map_of<cell<1>>(1, 100'000, any), lane_map::linear()) << "a lane alone";
    EXPECT_EQ(map_of<cell<1>>(1, 100'000, layout::interleaved(tile::b4)), lane_map::linear());
    EXPECT_EQ(map_of<cell<1>>(32, 383, any), lane_map::linear()) << "under 48 KiB together";
    EXPECT_EQ(map_of<cell<1>>(32, 384, any), lane_map::rows(tile::b4, 32));
    EXPECT_EQ(map_of<cell<2>>(32, 4096, any), lane_map::rows(tile::b8, 32));
    EXPECT_EQ(map_of<cell<4>>(32, 4096, any), lane_map::rows(tile::b16, 32));
    EXPECT_EQ(map_of<cell<16>>(32, 4096, any), lane_map::rows(tile::b64, 32));
    EXPECT_EQ(map_of<cell<1>>(32, 4096, layout::linear()), lane_map::linear());
}

TEST_P(lane_chunks_reserved, the_heaps_option_is_what_automatic_means) {
    for (const layout option : {layout::linear(), layout::interleaved(tile::b16), layout::interleaved(tile::k4)}) {
        options values = GetParam().values();
        values.layout = option;
        ASSERT_NO_FATAL_FAILURE(remake(values));
        const std::vector<std::uint64_t> counts(32, 20'000);
        const auto arrays = allocate_arrays<element>(counts, layout::automatic(), 32);
        expect_sizes(arrays, counts);
        EXPECT_EQ(arrays[3].map(), option == layout::linear() ? lane_map::linear() : lane_map::rows(option.turn, 32))
            << text_of(option);
        const auto others = allocate_arrays<element>(counts, layout::interleaved(tile::b32), 32);
        EXPECT_EQ(others[3].map(), lane_map::rows(tile::b32, 32)) << "the call's own word counts for more";
        free_arrays(arrays);
        free_arrays(others);
    }
}

}  // namespace
}  // namespace orchard::test
