// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Kernels that get and free pages by one of the algorithms; valid on either device.

#include "device/published/get_page.cuh"
#include "device/published/page_pool.cuh"
#include "device/simt/launch.cuh"

namespace orchard::rig {

namespace walk = device::random_walk;
using device::page_policy;

/// An algorithm and the words that it works on.
template <page_policy P, class Word>
struct algorithm {
    static constexpr page_policy policy = P;
    using word = Word;
};

ORCHARD_INLINE walk::random_bits random_of(std::uint64_t seed, std::uint64_t thread) {
    return walk::random_bits(seed << 32 | thread);
}

/// Each of `threads` threads gets a page and records the page and the number of steps.
template <page_policy P, class Pool>
struct take_pages {
    Pool pool;
    walk::page_number* got;
    walk::counted* counts;
    std::uint64_t threads;
    std::uint64_t seed;
    std::uint32_t max_steps;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t >= threads) {
            return;
        }
        walk::walker<walk::counted> w;
        w.random = random_of(seed, t);
        w.max_steps = max_steps;
        got[t] = walk::get_page<P>(pool, simt::converge(), w);
        counts[t] = w.count;
    }
};

/// Each thread frees its page, if it has one, and counts those that were not taken.
template <page_policy P, class Pool>
struct free_pages {
    Pool pool;
    walk::page_number* got;
    std::uint64_t threads;
    simt::device_word<std::uint32_t>* refused;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t < threads && got[t] != walk::no_page && !walk::free_page<P>(pool, got[t])) {
            refused->template fetch_add<simt::order::relaxed>(1);
        }
    }
};

/// Each thread gets and frees pages from time to time, with changing masks; every page held carries its owner's tag.
template <page_policy P, class Pool>
struct churn_pages {
    static constexpr int max_held = 4;
    Pool pool;
    simt::device_word<std::uint32_t>* owners;  ///< [pages]: thread + 1
    simt::device_word<std::uint32_t>* faults;  ///< pages with two owners, or that were not taken when freed
    simt::device_word<std::uint32_t>* nulls;
    std::uint64_t seed;
    int rounds;

    ORCHARD_FN void drop(std::uint32_t tag, walk::page_number& page) const {
        if (page == walk::no_page) {
            return;
        }
        const auto n = static_cast<std::uint64_t>(page);
        bool right = owners[n].template exchange<simt::order::relaxed>(0) == tag;
        right = walk::free_page<P>(pool, page) && right;
        if (!right) {
            faults->template fetch_add<simt::order::relaxed>(1);
        }
        page = walk::no_page;
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto tag = static_cast<std::uint32_t>(at.global_thread()) + 1;
        walk::page_number held[max_held] = {walk::no_page, walk::no_page, walk::no_page, walk::no_page};
        walk::walker<> w;
        w.random = random_of(seed, at.global_thread());
        for (int round = 0; round < rounds; ++round) {
            walk::page_number& place = held[w.random.below(max_held)];
            drop(tag, place);
            if (w.random.below(3) != 0) {
                place = walk::get_page<P>(pool, simt::converge(), w);
                if (place == walk::no_page) {
                    nulls->template fetch_add<simt::order::relaxed>(1);
                } else if (owners[static_cast<std::uint64_t>(place)].template exchange<simt::order::relaxed>(tag) !=
                           0) {
                    faults->template fetch_add<simt::order::relaxed>(1);
                }
            }
            if (round % 4 == 0) {
                simt::pause(0);
            }
        }
        for (walk::page_number& page : held) {
            drop(tag, page);
        }
    }
};

/// Each thread gets units for its own number of bytes.
template <class Pool>
struct allocate_all {
    Pool pool;
    const std::uint64_t* bytes;
    void** got;
    walk::counted* counts;
    std::uint64_t threads;
    std::uint64_t seed;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t >= threads) {
            return;
        }
        walk::walker<walk::counted> w;
        w.random = random_of(seed, t);
        got[t] = walk::rw_malloc::allocate(pool, simt::converge(), bytes[t], w);
        counts[t] = w.count;
    }
};

}  // namespace orchard::rig
