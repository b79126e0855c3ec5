// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Two algorithms under the exploring scheduler. Pages have one owner at a time, and an owner's writes happen before
/// the next owner's, in every order of events and with weak memory. Pages hold plain words: an access that the claims
/// and frees do not order is a race, and a violation.

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "device/simt/explore/simulation.hpp"
#include "tests/random_walk/kernels.cuh"
#include "tests/random_walk/pool_memory.hpp"
#include "tests/support/explore_seeds.hpp"

namespace orchard {
namespace {

using namespace rig;
using simt::explore::simulation;
using walk::no_page;
using walk::page_number;

constexpr std::uint32_t explored_pages = 40;  // two words of 32 bits, the second in part
using tags = std::array<simt::plain<std::uint64_t>, explored_pages>;

/// The owner's writes: writes each word of its pages twice.
void use(simulation& s, tags& content, page_number first, std::uint32_t n, std::uint64_t tag) {
    auto* const words = &content[static_cast<std::uint64_t>(first)];
    s.own(words, n * sizeof(*words), "units");
    for (std::uint32_t i = 0; i < n; ++i) {
        words[i].set(tag);
    }
    for (std::uint32_t i = 0; i < n; ++i) {
        s.check(words[i].get() == tag, "another lane wrote to an owned page");
        words[i].set(0);
    }
    s.disown(words);
}

/// A warp of three lanes, one of two; pages are got, used and freed. Of 40 pages all but five are in use.
void corw_with_locks(simulation& s) {
    pool_memory<std::uint32_t> memory(explored_pages);
    memory.take_all();
    for (const std::uint32_t page : {3u, 4u, 31u, 32u, 39u}) {
        memory.set(page, false);
    }
    const auto content = std::make_unique<tags>();
    // A sweep ignores locks, so only runs without a sweep can expect that no page is lost under a lock.
    const bool sweeps = s.pick(2) == 0;
    std::uint32_t lost = 0;
    s.name_bits(&memory.pool.bits(0), 8, "bits", 4);
    s.name_words(&memory.pool.locks(0), 4, "locks");
    s.name_words(content.get(), sizeof(tags), "content", 8);
    s.add_kernel({{3}, {2}}, [&](simt::thread_position at) {
        walk::walker<walk::counted> w;
        w.random = random_of(s.pick(1000), at.global_thread());
        w.max_steps = sweeps ? 2 : 1000;
        for (int round = 0; round < 2; ++round) {
            const page_number page = walk::corw::get_page<true>(memory.pool, simt::converge(), w);
            s.check(page != no_page, "no page, although there is one for each lane");
            use(s, *content, page, 1, at.global_thread() + 1);
            s.check(walk::free_page(memory.pool, page), "a page that was owned was not taken");
        }
        lost += w.count.losses;
    });
    if (s.run()) {
        s.check(memory.pages_taken() == explored_pages - 5, "a page was lost");
        s.check(memory.locks_held() == 0, "a lock was lost");
        s.check(sweeps || lost == 0, "a claim under lock lost a bit");
    }
}

/// Runs of up to 9 units while 14 are free, around the border of two words: often no run is free.
void rw_malloc_runs(simulation& s) {
    pool_memory<std::uint32_t> memory(explored_pages);
    memory.take_all();
    for (std::uint32_t page = 26; page < 40; ++page) {
        memory.set(page, false);
    }
    const auto content = std::make_unique<tags>();
    s.name_bits(&memory.pool.bits(0), 8, "bits", 4);
    s.name_words(&memory.pool.ends(0), 8, "ends", 4);
    s.name_words(content.get(), sizeof(tags), "content", 8);
    s.add_kernel({{2}, {2}}, [&](simt::thread_position at) {
        walk::walker<> w;
        w.random = random_of(s.pick(1000), at.global_thread());
        w.max_steps = 1;
        for (int round = 0; round < 2; ++round) {
            const std::uint32_t n = s.pick(4) == 0 ? 9 : 1 + s.pick(3);
            const page_number first = walk::rw_malloc::get_units(memory.pool, simt::converge(), n, w);
            if (first != no_page) {
                use(s, *content, first, n, at.global_thread() + 1);
                s.check(walk::rw_malloc::free_units(memory.pool, first), "an allocation was not found again");
            }
        }
    });
    if (s.run()) {
        s.check(memory.pages_taken() == explored_pages - 14, "units were lost");
        s.check(memory.end_bits() == 0, "an end bit was lost");
    }
}

TEST(Explored, CollaborativeWalkWithLocks) { test::explore_seeds(corw_with_locks, 3000, 100); }

TEST(Explored, RunsAroundABorderOfWords) { test::explore_seeds(rw_malloc_runs, 3000, 100); }

}  // namespace
}  // namespace orchard
