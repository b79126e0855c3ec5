// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Free pages in a bounded queue with two atomic counters, which many threads take from and add to at once.
///
///     ring    | turn, page | turn, page | ...          position p is entry p modulo the length
///     turn    p: free for the page that is added at position p
///             p + 1: has the page that is taken at position p
///
/// A thread that gets a position by a compare-and-swap of `first` (or `last`) owns the entry until it sets the turn.
/// Source: D. Vyukov's bounded queue of many producers and consumers.

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/launch.cuh"

namespace orchard::examples {

struct page_queue_entry {
    simt::device_word<std::uint64_t> turn;
    std::uint64_t page;
};
struct page_queue_counts {
    simt::device_word<std::uint64_t> first;
    std::uint64_t apart[15];  ///< so that the two do not share a cache line
    simt::device_word<std::uint64_t> last;
};

/// The queue's view in kernels.
struct page_queue {
    char* memory;
    std::uint64_t page_bytes;
    std::uint64_t length;  ///< of the ring: a power of two, at least the number of pages
    page_queue_entry* ring;
    page_queue_counts* counts;

    /// Returns a page; null if none is free. Cost: an atomic, and more where many threads take pages.
    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t) const {
        std::uint64_t at = counts->first.template load<simt::order::relaxed>();
        for (;;) {
            page_queue_entry& e = ring[at & (length - 1)];
            // Acquire pairs with the release of the thread that has added the page.
            const std::uint64_t turn = e.turn.template load<simt::order::acquire>();
            if (turn == at + 1) {
                if (counts->first.template compare_exchange<simt::order::relaxed>(at, at + 1)) {
                    char* const page = memory + e.page * page_bytes;
                    e.turn.template store<simt::order::release>(at + length);
                    return page;
                }
            } else if (turn <= at) {
                return nullptr;
            } else {
                at = counts->first.template load<simt::order::relaxed>();
            }
        }
    }

    /// Adds a page. The ring has room for all of them.
    ORCHARD_FN void free(void* page) const {
        std::uint64_t at = counts->last.template load<simt::order::relaxed>();
        for (;;) {
            page_queue_entry& e = ring[at & (length - 1)];
            const std::uint64_t turn = e.turn.template load<simt::order::acquire>();
            if (turn == at) {
                if (counts->last.template compare_exchange<simt::order::relaxed>(at, at + 1)) {
                    e.page = static_cast<std::uint64_t>(static_cast<char*>(page) - memory) / page_bytes;
                    e.turn.template store<simt::order::release>(at + 1);
                    return;
                }
            } else {
                at = counts->last.template load<simt::order::relaxed>();
            }
        }
    }
};

/// Makes all pages of a new queue free.
struct fill_page_queue {
    page_queue queue;
    std::uint64_t pages;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < queue.length) {
            queue.ring[i].page = i;
            queue.ring[i].turn.template store<simt::order::relaxed>(i < pages ? i + 1 : i);
        }
        if (i == 0) {
            queue.counts->first.template store<simt::order::relaxed>(0);
            queue.counts->last.template store<simt::order::relaxed>(pages);
        }
    }
};

}  // namespace orchard::examples
