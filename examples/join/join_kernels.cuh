// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A partitioned hash join, whose result goes to pages that each thread takes when it needs one.
///
///     count_tuples, scatter_tuples   both tables by partition: bits of the key's hash
///     probe_tuples                   a thread for each tuple of the second table: compares it with its partition of
///                                    the first one; a match is a result in the thread's page
///     gather_results                 counts and sums the results
///     free_results                   frees the pages (free_lists.cuh)
///
///     heads[thread] --> page: next | used | results ...  --> page ...
///
/// Source: M. Pham et al. (ICS 2022), section 5.2.3, after R. Rui and Y. Tu (SSDBM 2017).

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/launch.cuh"
#include "examples/report/free_lists.cuh"

namespace orchard::examples {

struct join_tuple {
    std::uint32_t key;
    std::uint32_t payload;
};
struct join_result {
    std::uint32_t first;  ///< payload of the first table
    std::uint32_t second;
};

struct result_page {
    result_page* next;
    std::uint32_t used;
    std::uint32_t unused;

    [[nodiscard]] ORCHARD_FN join_result* results() { return reinterpret_cast<join_result*>(this + 1); }
    [[nodiscard]] ORCHARD_FN static constexpr std::uint32_t capacity(std::uint64_t page_bytes) {
        return static_cast<std::uint32_t>((page_bytes - sizeof(result_page)) / sizeof(join_result));
    }
};

struct join_counts {
    simt::device_word<std::uint64_t> matches;
    simt::device_word<std::uint64_t> sum;  ///< of `mix_result`
    simt::device_word<std::uint64_t> pages;
    simt::device_word<std::uint64_t> no_memory;  ///< tuples whose results are not complete for want of a page
};

[[nodiscard]] ORCHARD_FN constexpr std::uint32_t partition_of(std::uint32_t key, std::uint32_t partitions) {
    return (key * 0x9e3779b1u >> 7) & (partitions - 1);  // a power of two
}
[[nodiscard]] ORCHARD_FN constexpr std::uint64_t mix_result(std::uint32_t first, std::uint32_t second) {
    return ((std::uint64_t{first} << 32 | second) ^ 0x5851f42d4c957f2du) * 0x9e3779b97f4a7c15u;
}

struct count_tuples {
    const join_tuple* tuples;
    std::uint64_t count;
    std::uint32_t partitions;
    simt::device_word<std::uint32_t>* counts;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            counts[partition_of(tuples[i].key, partitions)].fetch_add<simt::order::relaxed>(1);
        }
    }
};

struct scatter_tuples {
    const join_tuple* tuples;
    std::uint64_t count;
    std::uint32_t partitions;
    simt::device_word<std::uint32_t>* next;  ///< of each partition: the place for its next tuple
    join_tuple* to;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            const join_tuple t = tuples[i];
            to[next[partition_of(t.key, partitions)].fetch_add<simt::order::relaxed>(1)] = t;
        }
    }
};

/// `Memory`: `void* malloc(std::uint64_t) const`, `void free(void*) const`.
template <class Memory>
struct probe_tuples {
    Memory memory;
    std::uint64_t page_bytes;
    const join_tuple* first;           ///< by partition
    const std::uint32_t* first_begin;  ///< of each partition, and the end
    const join_tuple* second;          ///< by partition
    std::uint64_t count;               ///< of the second table
    std::uint32_t partitions;
    result_page** heads;
    join_counts* counts;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= count) {
            return;
        }
        const join_tuple mine = second[i];
        const std::uint32_t p = partition_of(mine.key, partitions);
        result_page* page = nullptr;
        for (std::uint32_t r = first_begin[p]; r < first_begin[p + 1]; ++r) {
            const join_tuple other = first[r];
            if (other.key != mine.key) {
                continue;
            }
            if (page == nullptr || page->used == result_page::capacity(page_bytes)) {
                auto* const fresh = static_cast<result_page*>(memory.malloc(page_bytes));
                if (fresh == nullptr) {
                    counts->no_memory.template fetch_add<simt::order::relaxed>(1);
                    break;
                }
                fresh->next = page;
                fresh->used = 0;
                page = fresh;
            }
            page->results()[page->used++] = {other.payload, mine.payload};
        }
        heads[i] = page;
    }
};

struct gather_results {
    result_page* const* heads;
    std::uint64_t count;
    join_counts* counts;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        std::uint64_t matches = 0;
        std::uint64_t pages = 0;
        std::uint64_t sum = 0;
        for (result_page* page = i < count ? heads[i] : nullptr; page != nullptr; page = page->next) {
            ++pages;
            matches += page->used;
            for (std::uint32_t k = 0; k < page->used; ++k) {
                sum += mix_result(page->results()[k].first, page->results()[k].second);
            }
        }
        if (pages != 0) {
            counts->matches.fetch_add<simt::order::relaxed>(matches);
            counts->pages.fetch_add<simt::order::relaxed>(pages);
            counts->sum.fetch_add<simt::order::relaxed>(sum);
        }
    }
};

template <class Memory>
using free_results = free_lists<Memory, result_page, &result_page::next>;

}  // namespace orchard::examples
