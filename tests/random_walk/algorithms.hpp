// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Every published algorithm, for typed tests, and its kernels launched on the emulated device.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/random_walk/kernels.cuh"
#include "tests/random_walk/pool_memory.hpp"

namespace orchard::rig {

/// With one worker a launch is determined by its seed.
inline simt::executor emulated(unsigned workers = 1) {
    simt::executor on;
    on.workers = workers;
    return on;
}

using all_algorithms =
    ::testing::Types<algorithm<page_policy::rw, std::uint32_t>, algorithm<page_policy::rw, std::uint64_t>,
                     algorithm<page_policy::rw_bm32, std::uint32_t>, algorithm<page_policy::rw_bm32, std::uint64_t>,
                     algorithm<page_policy::rw_bm64, std::uint64_t>, algorithm<page_policy::corw, std::uint32_t>,
                     algorithm<page_policy::corw, std::uint64_t>, algorithm<page_policy::corw_locked, std::uint32_t>,
                     algorithm<page_policy::corw_locked, std::uint64_t>,
                     algorithm<page_policy::rw_malloc, std::uint32_t>,
                     algorithm<page_policy::rw_malloc, std::uint64_t>>;

struct algorithm_names {
    template <class Algorithm>
    static std::string GetName(int) {
        return std::string(device::name_of(Algorithm::policy)) + "_words_of_" +
               std::to_string(sizeof(typename Algorithm::word) * 8);
    }
};

/// The pages of the threads of a launch.
struct taken_pages {
    std::vector<walk::page_number> got;
    std::vector<walk::counted> counts;
};

template <class Algorithm>
taken_pages take(pool_memory<typename Algorithm::word>& memory, std::uint32_t threads, std::uint64_t seed,
                 unsigned workers = 1, std::uint32_t max_steps = 0, std::uint32_t block = 64) {
    taken_pages out{std::vector<walk::page_number>(threads, walk::no_page), std::vector<walk::counted>(threads)};
    const take_pages<Algorithm::policy, walk::page_pool<typename Algorithm::word>> kernel{
        memory.pool, out.got.data(), out.counts.data(), threads, seed, max_steps};
    const simt::launch_result result = simt::launch(emulated(workers), simt::grid_for(threads, block), kernel);
    EXPECT_TRUE(result.ok) << result.error;
    return out;
}

/// Frees what `out` holds. The number of pages that were not taken.
template <class Algorithm>
std::uint32_t give_back(pool_memory<typename Algorithm::word>& memory, taken_pages& out, unsigned workers = 1) {
    simt::device_word<std::uint32_t> refused{0};
    const free_pages<Algorithm::policy, walk::page_pool<typename Algorithm::word>> kernel{memory.pool, out.got.data(),
                                                                                          out.got.size(), &refused};
    const simt::launch_result result = simt::launch(emulated(workers), simt::grid_for(out.got.size(), 64), kernel);
    EXPECT_TRUE(result.ok) << result.error;
    return refused.load<simt::order::acquire>();
}

}  // namespace orchard::rig
