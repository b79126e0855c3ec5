// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Kernels and checks for any allocator that satisfies `device_allocator`, on either device.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/published/device_allocator.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/machine/machine_info.hpp"
#include "tests/support/heap_kernels.cuh"

namespace orchard::test {

inline auto both_kinds() { return ::testing::Values(device_option::emulated, device_option::cuda); }
inline std::string kind_name(const ::testing::TestParamInfo<device_option>& info) {
    return info.param == device_option::cuda ? "cuda" : "emulated";
}

/// Thread i allocates `sizes[i]` bytes. A null block has 0 bytes.
template <class Ref>
struct allocate_sizes {
    Ref from;
    const std::uint64_t* sizes;
    block* blocks;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            void* const p = from.malloc(sizes[i]);
            blocks[i] = {as_number(p), p != nullptr ? sizes[i] : 0};
        }
    }
};

/// Thread i frees block i.
template <class Ref>
struct free_blocks {
    Ref from;
    const block* blocks;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            from.free(blocks[i].pointer());
        }
    }
};

/// The threads of even warps free the blocks that they are given; those of odd warps allocate as many.
template <class Ref>
struct free_beside_mallocs {
    Ref from;
    const block* given;
    block* got;
    std::uint64_t bytes;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= count) {
            return;
        }
        if (at.thread / simt::warp_size % 2 == 0) {
            from.free(given[i].pointer());
            got[i] = {0, 0};
        } else {
            void* const p = from.malloc(bytes);
            got[i] = {as_number(p), p != nullptr ? bytes : 0};
        }
    }
};

/// Each thread allocates, stamps, checks and frees blocks of random sizes; in each round another part of the lanes does
/// nothing, and a lane holds up to three blocks over rounds.
template <class Ref>
struct churn_blocks {
    Ref from;
    std::uint64_t most_bytes;
    std::uint32_t rounds;
    simt::device_word<std::uint32_t>* wrong;  ///< blocks whose content changed
    simt::device_word<std::uint32_t>* nulls;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        block held[3] = {};
        for (std::uint32_t round = 0; round < rounds; ++round) {
            const std::uint32_t random = device::mix(i * 977 + round + 1);
            block& mine = held[random % 3];
            if (random >> 8 & 1) {
                drop(mine, i);
            } else if (mine.address == 0) {
                const std::uint64_t bytes = 1 + device::mix(random) % most_bytes;
                void* const p = from.malloc(bytes);
                if (p == nullptr) {
                    nulls->fetch_add<simt::order::relaxed>(1);
                } else {
                    mine = {as_number(p), bytes};
                    stamp_block(p, bytes, i);
                }
            }
        }
        for (block& b : held) {
            drop(b, i);
        }
    }

private:
    ORCHARD_FN void drop(block& b, std::uint32_t owner) const {
        if (b.address != 0) {
            wrong->fetch_add<simt::order::relaxed>(has_stamp(b.pointer(), b.bytes, owner) ? 0 : 1);
            from.free(b.pointer());
            b = {};
        }
    }
};

/// The checks of one allocator. Blocks are the host's copies of addresses and sizes; a null block has 0 bytes.
template <class Ref>
class published_rig {
    static_assert(device::device_allocator<Ref>);

public:
    using word = simt::device_word<std::uint32_t>;

    published_rig(const simt::executor& on, Ref from) : on_{on}, from_{from} {}

    template <class Kernel>
    void launch(simt::grid shape, const Kernel& kernel) {
        const simt::launch_result result = simt::launch(on_, shape, kernel);
        EXPECT_TRUE(result.ok) << result.error;
    }
    template <class T>
    device_array<T> array_of(const std::vector<T>& from) {
        auto made = device_array<T>::create(on_, from.size());
        EXPECT_TRUE(made.ok()) << made.status();
        EXPECT_TRUE(made->upload(from).ok());
        return *std::move(made);
    }
    template <class T>
    static std::vector<T> to_host(const device_array<T>& from) {
        std::vector<T> result(from.size());
        EXPECT_TRUE(from.download(result).ok());
        return result;
    }

    std::vector<block> allocate(const std::vector<std::uint64_t>& sizes) {
        const auto wanted = array_of(sizes);
        const auto got = array_of(std::vector<block>(sizes.size()));
        launch(simt::grid_for(sizes.size(), 96), allocate_sizes<Ref>{from_, wanted.data(), got.data(), sizes.size()});
        return to_host(got);
    }
    block allocate_one(std::uint64_t bytes) { return allocate({bytes}).front(); }
    void free(const std::vector<block>& blocks) {
        const auto them = array_of(blocks);
        launch(simt::grid_for(blocks.size(), 64), free_blocks<Ref>{from_, them.data(), blocks.size()});
    }
    void stamp(const std::vector<block>& blocks) {
        const auto them = array_of(blocks);
        launch(simt::grid_for(blocks.size(), 64), stamp_each{them.data(), blocks.size()});
    }
    /// Other threads read the blocks than wrote them.
    void expect_stamped(const std::vector<block>& blocks) {
        const auto them = array_of(blocks);
        const auto errors = array_of(std::vector<word>(1, word(0)));
        launch(simt::grid_for(blocks.size(), 96), verify_each{them.data(), blocks.size(), errors.data()});
        EXPECT_EQ(to_host(errors).front().template load<simt::order::relaxed>(), 0u) << "blocks whose content changed";
    }

    /// No two blocks share a byte, and all are aligned to 16 B. Returns the number of those that are not null.
    static std::size_t count_disjoint(std::vector<block> blocks) {
        blocks.erase(std::remove_if(blocks.begin(), blocks.end(), [](const block& b) { return b.address == 0; }),
                     blocks.end());
        std::sort(blocks.begin(), blocks.end(), [](const block& a, const block& b) { return a.address < b.address; });
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            EXPECT_EQ(blocks[i].address % 16, 0u);
            EXPECT_TRUE(i == 0 || blocks[i - 1].address + blocks[i - 1].bytes <= blocks[i].address) << "they overlap";
        }
        return blocks.size();
    }
    /// Allocates, checks, stamps, checks, and frees; no block may be null.
    void cycle(const std::vector<std::uint64_t>& sizes) {
        const std::vector<block> blocks = allocate(sizes);
        ASSERT_EQ(count_disjoint(blocks), sizes.size());
        stamp(blocks);
        expect_stamped(blocks);
        free(blocks);
    }
    /// Blocks are freed in the kernel that allocates others; all of both are disjoint.
    void expect_mallocs_beside_frees(std::uint64_t bytes, std::uint64_t count) {
        const std::vector<block> given = allocate(std::vector<std::uint64_t>(count, bytes));
        ASSERT_EQ(count_disjoint(given), count);
        const auto them = array_of(given);
        const auto got = array_of(std::vector<block>(count));
        launch(simt::grid_for(count, 64), free_beside_mallocs<Ref>{from_, them.data(), got.data(), bytes, count});
        std::vector<block> kept = to_host(got);
        std::size_t allocated = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const bool frees = i % 64 / 32 == 0;
            allocated += frees ? 0 : 1;
            if (!frees) {
                kept.push_back(given[i]);
            }
        }
        EXPECT_EQ(count_disjoint(kept), 2 * allocated) << "a block is null";
        stamp(kept);
        expect_stamped(kept);
        free(kept);
    }
    /// Threads allocate and free in any divergence. Returns the number of requests that got null.
    std::uint32_t churn(std::uint64_t most_bytes, std::uint32_t rounds, simt::grid shape = {3, 96}) {
        const auto counts = array_of(std::vector<word>(2, word(0)));
        launch(shape, churn_blocks<Ref>{from_, most_bytes, rounds, counts.data(), counts.data() + 1});
        const std::vector<word> found = to_host(counts);
        EXPECT_EQ(found[0].template load<simt::order::relaxed>(), 0u) << "blocks whose content changed";
        return found[1].template load<simt::order::relaxed>();
    }
    /// 0 bytes, and `too_many`, are null; null is freed.
    void expect_nulls(const std::vector<std::uint64_t>& too_many) {
        std::vector<std::uint64_t> sizes{0, 0, 16};
        sizes.insert(sizes.end(), too_many.begin(), too_many.end());
        sizes.push_back(32);
        const std::vector<block> got = allocate(sizes);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            EXPECT_EQ(got[i].address != 0, sizes[i] == 16 || sizes[i] == 32) << sizes[i] << " bytes";
        }
        free(got);
    }

private:
    simt::executor on_;
    Ref from_;
};

/// Provides the executor of the case; three host threads run blocks of the emulated device.
class on_each_device : public ::testing::TestWithParam<device_option> {
protected:
    void SetUp() override {
        const auto choice = choose_device(GetParam());
        if (!choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
        on_.kind = choice->kind;
        on_.device = choice->gpu;
        on_.workers = 3;
    }

    simt::executor on_{};
};

/// Sizes 1 to `most`, mixed so that lanes of a warp ask for different ones.
inline std::vector<std::uint64_t> mixed_sizes(std::size_t count, std::uint64_t most) {
    std::vector<std::uint64_t> sizes(count);
    for (std::size_t i = 0; i < count; ++i) {
        sizes[i] = 1 + device::mix(static_cast<std::uint32_t>(i) * 31 + 7) % most;
    }
    return sizes;
}

}  // namespace orchard::test
