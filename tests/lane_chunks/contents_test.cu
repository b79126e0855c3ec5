// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Arrays of lanes lie at their reported addresses, are disjoint, and can be freed by any thread.

#include <numeric>
#include <random>

#include "tests/lane_chunks/arrays_fixture.hpp"

namespace orchard::test {
namespace {

class lane_chunks_contents : public arrays_contract {
protected:
    /// Allocates, writes all of it, reads it from elsewhere, frees in another order by other lanes.
    template <class T>
    std::uint64_t array_cycle(const std::vector<std::uint64_t>& counts, layout how, std::mt19937& random) {
        const auto arrays = allocate_arrays<T>(counts, how);
        expect_sizes(arrays, counts);
        expect_valid("allocated");
        stamp_arrays(arrays);
        const std::uint64_t no_data = expect_arrays_stamped(arrays);
        std::vector<std::uint64_t> order(arrays.size());
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        free_arrays(arrays, order, 96);
        expect_valid("freed");
        EXPECT_EQ(invalid_frees(), 0u);
        return no_data;
    }

    /// Returns counts for 72 lanes, in two warps and a part of a third. Some lanes take no part; sizes are all the
    /// same, arbitrary, or a few different ones.
    static std::vector<std::uint64_t> some_counts(int kind, std::uint64_t most, std::mt19937& random) {
        std::vector<std::uint64_t> counts(72, most);
        for (std::uint64_t& n : counts) {
            n = kind == 0 ? most : kind == 1 ? random() % (most + 1) : most >> random() % 3;
            n = random() % 4 == 0 ? absent : n;
        }
        return counts;
    }
};
INSTANTIATE_TEST_SUITE_P(all, lane_chunks_contents, ::testing::ValuesIn(array_cases()), case_name);

const layout all_layouts[] = {layout::interleaved(tile::b4),
                              layout::interleaved(tile::b16),
                              layout::interleaved(tile::k4),
                              layout::interleaved(tile::k64),
                              layout::interleaved(tile::k16),
                              layout::linear(),
                              layout::automatic()};

/// Returns whether small arrays are blocks, which take pages of as many classes as there are sizes.
bool takes_pages(layout how) { return how.which != layout::choice::interleaved || how.turn > tile::k4; }

TEST_P(lane_chunks_contents, every_byte_is_its_owners_alone) {
    std::mt19937 random(7);
    for (const layout how : all_layouts) {
        const bool interleaved = how.which == layout::choice::interleaved;
        for (int kind = 0; kind < 3; ++kind) {
            if (takes_pages(how) && kind == 1 && heap_segments() < 32) {
                continue;  // a small heap has no segment for each class of pages
            }
            const std::uint64_t no_data = array_cycle<cell<1>>(some_counts(kind, 9000, random), how, random);
            if (!interleaved || how.turn <= tile::k4) {
                EXPECT_EQ(no_data, 0u);
            }
        }
    }
    expect_empty();
}

TEST_P(lane_chunks_contents, lanes_of_different_lengths_hold_what_was_written) {
    std::mt19937 random(9);
    for (const lane_order order : {lane_order::ascending, lane_order::prefetch_first}) {
        options o = GetParam().values();
        o.lane_order = order;
        ASSERT_NO_FATAL_FAILURE(remake(o));
        for (const tile t : {tile::k8, tile::k64}) {
            for (const std::uint64_t most : {3'000u, 40'000u}) {
                std::vector<std::uint64_t> counts = some_counts(1, most, random);
                for (std::uint64_t& n : counts) {
                    n = n == absent ? n : n + os_page_bytes / sizeof(cell<1>);
                }
                EXPECT_NE(array_cycle<cell<1>>(counts, layout::interleaved(t), random), 0u) << "data() of some is null";
            }
        }
        expect_empty();
    }
}

/// Where in a row of its sub-array each array has its tiles.
template <class T>
std::vector<std::uint64_t> places_in_row(const std::vector<lane_array<T>>& arrays) {
    std::vector<std::uint64_t> places;
    for (const lane_array<T>& a : arrays) {
        places.push_back(a.position());
    }
    return places;
}

TEST_P(lane_chunks_contents, lanes_in_the_order_for_the_prefetcher) {
    options o = GetParam().values();
    o.lane_order = lane_order::prefetch_first;
    remake(o);
    std::mt19937 random(11);
    for (const layout how : all_layouts) {
        for (int kind = 0; kind < 3; ++kind) {
            if (!takes_pages(how) || kind != 1) {
                array_cycle<cell<1>>(some_counts(kind, 9000, random), how, random);
            }
        }
    }
    if (GetParam().device == device_option::emulated) {
        const auto arrays =
            allocate_arrays<cell<1>>(std::vector<std::uint64_t>(8, 4096), layout::interleaved(tile::b4));
        EXPECT_EQ(places_in_row(arrays), (std::vector<std::uint64_t>{0, 1, 2, 4, 6, 3, 5, 7}));
        free_arrays(arrays, {7, 6, 5, 4, 3, 2, 1, 0});
    }
    EXPECT_EQ(invalid_frees(), 0u);
    expect_empty();
}

TEST_P(lane_chunks_contents, elements_larger_than_a_tile) {
    std::mt19937 random(8);
    for (const layout how : all_layouts) {
        // Few sizes, as above.
        array_cycle<cell<2>>(some_counts(2, 900, random), how, random);
        array_cycle<cell<16>>(some_counts(2, 120, random), how, random);
        array_cycle<cell<2048>>(some_counts(1, 2, random), how, random);
    }
    expect_empty();
}

TEST_P(lane_chunks_contents, whole_segments_and_a_tail) {
    std::mt19937 random(9);
    for (const layout how : {layout::interleaved(tile::b4), layout::interleaved(tile::k64), layout::automatic()}) {
        std::vector<std::uint64_t> counts(32, 40'000);
        counts[5] = 300'000;
        counts[6] = absent;
        counts[7] = 0;
        array_cycle<cell<1>>(counts, how, random);
    }
    expect_empty();
}

/// Each lane takes one of several branches; the lanes of one branch request the same size.
struct allocate_in_branches {
    heap_ref heap;
    lane_array<cell<1>>* arrays;
    std::uint64_t n;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i % 3 == 0) {
            arrays[i] = heap.allocate_array<cell<1>>(n, layout::interleaved(tile::k4));
        } else if (i % 5 == 0) {
            arrays[i] = heap.allocate_array<cell<1>>(n);
        } else {
            // These lanes arrive together and diverge there.
            const layout how = i % 2 == 0 ? layout::interleaved(tile::b8) : layout::interleaved(tile::k64);
            arrays[i] = heap.allocate_array<cell<1>>(n + i, i % 7 == 0 ? layout::linear() : how);
        }
    }
};

TEST_P(lane_chunks_contents, lanes_that_want_different_layouts) {
    const auto got = array_of(std::vector<lane_array<cell<1>>>(100));
    launch(simt::grid_for(100, 50), allocate_in_branches{heap_ref(h().ref()), got.data(), 5000});
    const auto arrays = to_host(got);
    expect_valid("allocated");
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        ASSERT_GE(arrays[i].size(), 5000u) << i;
    }
    EXPECT_EQ(arrays[0].map().row_tile, tile::k4);
    stamp_arrays(arrays);
    expect_arrays_stamped(arrays);
    free_arrays(arrays, {}, 33);
    EXPECT_EQ(invalid_frees(), 0u);
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
