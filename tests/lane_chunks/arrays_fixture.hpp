// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Code that the tests of arrays of lanes share: kernels, and a fixture.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/support/heap_fixture.hpp"
#include "tests/support/heap_peer.hpp"

namespace orchard::test {

/// An element of `Words` x 4 bytes, each word of which identifies its owner.
template <std::uint32_t Words>
struct alignas(Words * 4) cell {
    std::uint32_t word[Words];

    static ORCHARD_FN std::uint32_t stamp(std::uint64_t owner, std::uint64_t index, std::uint32_t at) {
        return device::mix(static_cast<std::uint32_t>(owner) * device::golden_ratio +
                           static_cast<std::uint32_t>(index) * Words + at);
    }
    ORCHARD_FN void set(std::uint64_t owner, std::uint64_t index) {
        for (std::uint32_t i = 0; i < Words; ++i) {
            word[i] = stamp(owner, index, i);
        }
    }
    [[nodiscard]] ORCHARD_FN bool is(std::uint64_t owner, std::uint64_t index) const {
        bool same = true;
        for (std::uint32_t i = 0; i < Words; ++i) {
            same = same && word[i] == stamp(owner, index, i);
        }
        return same;
    }
};

/// Thread i requests `counts[i]` elements; `absent`: it takes no part.
inline constexpr std::uint64_t absent = ~std::uint64_t{0};

template <class T>
struct allocate_arrays_each {
    heap_ref heap;
    const std::uint64_t* counts;
    lane_array<T>* arrays;
    std::uint64_t count;
    layout how;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count && counts[i] != absent) {
            arrays[i] = heap.allocate_array<T>(counts[i], how);
        }
    }
};

template <class T>
struct stamp_arrays_each {
    const lane_array<T>* arrays;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            arrays[i].for_each_tile([&](tile_span<T> span) {
                for (std::uint64_t n = 0; n < span.size(); ++n) {
                    span[n].set(i, span.first + n);
                }
            });
        }
    }
};

/// The errors found in arrays.
struct array_errors {
    simt::device_word<std::uint64_t> changed;  ///< elements that are not what was written
    simt::device_word<std::uint64_t> astray;   ///< elements that `data()` finds at another place than the array
    simt::device_word<std::uint64_t> no_data;  ///< arrays without `data()`
};

/// Looks at the arrays from the last to the first, so by other threads than those that wrote.
template <class T>
struct verify_arrays_each {
    const lane_array<T>* arrays;
    std::uint64_t count;
    array_errors* errors;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() >= count) {
            return;
        }
        const std::uint64_t i = count - 1 - at.global_thread();
        const lane_array<const T> a = arrays[i];
        const lane_ptr<const T> data = a.empty() ? nullptr : a.data();
        std::uint64_t changed = 0;
        std::uint64_t astray = 0;
        for (std::uint64_t n = 0; n < a.size(); ++n) {
            changed += a[n].is(i, n) ? 0 : 1;
            astray += data && &data[n] != &a[n] ? 1 : 0;
        }
        errors->changed.template fetch_add<simt::order::relaxed>(changed);
        errors->astray.template fetch_add<simt::order::relaxed>(astray);
        errors->no_data.template fetch_add<simt::order::relaxed>(!a.empty() && !data ? 1 : 0);
    }
};

template <class T>
struct free_arrays_each {
    heap_ref heap;
    const lane_array<T>* arrays;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            heap.free_array(arrays[i]);
        }
    }
};

/// The cases of a heap, and on both devices a heap whose chunks of arrays have their tails elsewhere.
inline std::vector<heap_case> array_cases() {
    std::vector<heap_case> cases = heap_cases();
#if !ORCHARD_TEST_POLICIES
    for (const char* const name : {"emulated_pooled_tails", "cuda_pooled_tails"}) {
        const bool cuda = std::string_view(name).starts_with("cuda");
        cases.push_back(
            {name, cuda ? device_option::cuda : device_option::emulated, 64, options{}.mailbox_slots, segments(32)});
        cases.back().tails = tail_policy::pooled;
    }
#endif
    return cases;
}

class arrays_contract : public heap_contract {
protected:
    template <class T>
    std::vector<lane_array<T>> allocate_arrays(const std::vector<std::uint64_t>& counts, layout how,
                                               std::uint32_t threads_per_block = 64) {
        const auto wanted = array_of(counts);
        const auto got = array_of(std::vector<lane_array<T>>(counts.size()));
        launch(simt::grid_for(counts.size(), threads_per_block),
               allocate_arrays_each<T>{heap_ref(h().ref()), wanted.data(), got.data(), counts.size(), how});
        return to_host(got);
    }
    template <class T>
    void stamp_arrays(const std::vector<lane_array<T>>& arrays) {
        const auto them = array_of(arrays);
        launch(simt::grid_for(arrays.size(), 32), stamp_arrays_each<T>{them.data(), arrays.size()});
    }
    /// Checks that no element has changed, and that `data()` leads to the same ones. Returns the number of arrays
    /// without `data()`.
    template <class T>
    std::uint64_t expect_arrays_stamped(const std::vector<lane_array<T>>& arrays) {
        const auto them = array_of(arrays);
        const auto errors = array<array_errors>(1);
        launch(simt::grid_for(arrays.size(), 96), verify_arrays_each<T>{them.data(), arrays.size(), errors.data()});
        const array_errors seen = to_host(errors).front();
        EXPECT_EQ(seen.changed.template load<simt::order::relaxed>(), 0u) << "elements that have changed";
        EXPECT_EQ(seen.astray.template load<simt::order::relaxed>(), 0u) << "elements that data() finds elsewhere";
        return seen.no_data.template load<simt::order::relaxed>();
    }
    /// Thread i frees array `order[i]`, or its own.
    template <class T>
    void free_arrays(const std::vector<lane_array<T>>& arrays, const std::vector<std::uint64_t>& order = {},
                     std::uint32_t threads_per_block = 32) {
        std::vector<lane_array<T>> sorted = arrays;
        for (std::size_t i = 0; i < order.size(); ++i) {
            sorted[i] = arrays[order[i]];
        }
        const auto them = array_of(sorted);
        launch(simt::grid_for(sorted.size(), threads_per_block),
               free_arrays_each<T>{heap_ref(h().ref()), them.data(), sorted.size()});
    }
    /// Checks that each lane that took part has the elements that it requested.
    template <class T>
    static void expect_sizes(const std::vector<lane_array<T>>& arrays, const std::vector<std::uint64_t>& counts) {
        for (std::size_t i = 0; i < counts.size(); ++i) {
            ASSERT_EQ(arrays[i].size(), counts[i] == absent ? 0 : counts[i]) << "array " << i;
        }
    }
    /// Bytes of the one chunk that all these arrays lie in.
    template <class T>
    std::uint64_t chunk_bytes(const std::vector<lane_array<T>>& arrays) {
        std::uint64_t first = ~std::uint64_t{0};
        for (const lane_array<T>& a : arrays) {
            // The record's sub-array of lanes of different lengths begins at the table.
            const std::uint64_t table = a.map().ragged != 0 ? os_page_bytes : 0;
            first = a.empty() ? first : std::min(first, as_number(a.chunk()) - table);
        }
        const heap_peer peer(h());
        const device::heap_view& view = peer.view();
        const std::uint64_t d = peer.descriptor(peer.segment_of(first));
        device::chunk_id chunk = device::chunk_of_segments(device::descriptor::extent(d));
        if (device::descriptor::kind(d) != device::segment_kind::chunk) {
            EXPECT_EQ(device::descriptor::kind(d), device::segment_kind::portions);
            const std::uint64_t leaf = (first - as_number(view.base)) / big_page_bytes;
            chunk = device::chunk_id{static_cast<std::uint32_t>(peer.read(&view.leaf_owners[leaf]))};
        }
        if (device::is_portion(chunk)) {
            const auto shape =
                static_cast<std::uint32_t>(peer.read(&view.portion_records[device::first_leaf(chunk)].shape));
            return std::uint64_t{device::portion_record::leaves_of(shape)} * big_page_bytes;
        }
        const device::chunk_record& record = view.records[device::first_segment(chunk)];
        return peer.read(&record.segments) * segment_bytes +
               (peer.read(&record.leaves) & ~std::uint64_t{device::pooled_tail_flag}) * big_page_bytes;
    }
    std::uint64_t invalid_frees() { return settled_stats().invalid_frees; }
};

}  // namespace orchard::test
