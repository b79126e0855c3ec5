// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A flat pool in host memory, and the contents of its bitmaps.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "device/published/page_pool.cuh"

namespace orchard::rig {

namespace walk = device::random_walk;

template <class Word>
class pool_memory {
public:
    explicit pool_memory(std::uint32_t pages, std::uint64_t page_bytes = 16)
        : metadata_(walk::page_pool<Word>::metadata_bytes(pages) / 8),
          memory_((pages * page_bytes + 15) / 16 * 2),
          pool(reinterpret_cast<char*>(memory_.data()), page_bytes, pages, metadata_.data()) {}

    /// Takes all pages but `free` ones chosen at random.
    void leave_free(std::uint32_t free, std::uint64_t seed) {
        std::mt19937_64 random(seed);
        std::uint32_t left = free;
        for (std::uint32_t page = 0; page < pool.pages(); ++page) {
            const std::uint64_t drawn = (random() >> 32) * (pool.pages() - page) >> 32;
            if (drawn < left) {
                --left;
                set(page, false);
            } else {
                set(page, true);
            }
        }
    }
    void set(std::uint32_t page, bool taken) {
        auto& word = pool.bits(page / width);
        const Word bit = device::ones<Word>(1, page % width);
        if (taken) {
            word.template fetch_or<simt::order::relaxed>(bit);
        } else {
            word.template fetch_and<simt::order::relaxed>(static_cast<Word>(~bit));
        }
    }
    void take_all() { leave_free(0, 0); }
    [[nodiscard]] bool taken(std::uint32_t page) const {
        return (pool.bits(page / width).template load<simt::order::acquire>() >> (page % width) & 1) != 0;
    }
    [[nodiscard]] std::uint32_t pages_taken() const {
        return count([&](std::uint32_t w) { return &pool.bits(w); });
    }
    [[nodiscard]] std::uint32_t end_bits() const {
        return count([&](std::uint32_t w) { return &pool.ends(w); });
    }
    [[nodiscard]] std::uint32_t locks_held() const {
        std::uint32_t n = 0;
        for (std::uint32_t w = 0; w < pool.slots(); w += 32) {
            n += static_cast<std::uint32_t>(simt::popcount(pool.locks(w).template load<simt::order::acquire>()));
        }
        return n;
    }
    /// No page taken, no trace of any allocation.
    [[nodiscard]] bool is_clear() const { return pages_taken() == 0 && end_bits() == 0 && locks_held() == 0; }

private:
    static constexpr std::uint32_t width = device::width_of<Word>;
    template <class WordAt>
    std::uint32_t count(WordAt at) const {
        std::uint32_t n = 0;
        for (std::uint32_t w = 0; w < pool.slots(); ++w) {
            n += static_cast<std::uint32_t>(simt::popcount(at(w)->template load<simt::order::acquire>()));
        }
        return n;
    }

    std::vector<std::uint64_t> metadata_;
    std::vector<std::uint64_t> memory_;

public:
    walk::page_pool<Word> pool;
};

/// Returns the number of different pages in `got`; each must be below `pages`, and no two may be the same.
inline std::size_t different_pages(const std::vector<walk::page_number>& got, std::uint32_t pages) {
    std::set<walk::page_number> seen;
    for (const walk::page_number page : got) {
        if (page != walk::no_page) {
            EXPECT_LT(static_cast<std::uint64_t>(page), pages);
            EXPECT_TRUE(seen.insert(page).second) << "page " << static_cast<std::uint64_t>(page) << " has two owners";
        }
    }
    return seen.size();
}

}  // namespace orchard::rig
