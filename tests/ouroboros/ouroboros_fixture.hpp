// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// All variants of Ouroboros on both devices, for typed tests, and the steps that most tests make.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/machine/machine_info.hpp"
#include "runtime/published/ouroboros.hpp"

namespace orchard::test {

using device::ouroboros::variant;

/// A variant on a device.
template <variant V, device_option D>
struct ouroboros_subject {
    static constexpr variant which = V;
    static constexpr device_option device = D;
};

using ouroboros_subjects = ::testing::Types<ouroboros_subject<variant::s_pages, device_option::emulated>,
                                            ouroboros_subject<variant::s_chunks, device_option::emulated>,
                                            ouroboros_subject<variant::va_pages, device_option::emulated>,
                                            ouroboros_subject<variant::va_chunks, device_option::emulated>,
                                            ouroboros_subject<variant::vl_pages, device_option::emulated>,
                                            ouroboros_subject<variant::vl_chunks, device_option::emulated>,
                                            ouroboros_subject<variant::s_pages, device_option::cuda>,
                                            ouroboros_subject<variant::s_chunks, device_option::cuda>,
                                            ouroboros_subject<variant::va_pages, device_option::cuda>,
                                            ouroboros_subject<variant::va_chunks, device_option::cuda>,
                                            ouroboros_subject<variant::vl_pages, device_option::cuda>,
                                            ouroboros_subject<variant::vl_chunks, device_option::cuda>>;

struct ouroboros_names {
    template <class Subject>
    static std::string GetName(int) {
        return std::string(Subject::device == device_option::cuda ? "cuda_" : "emulated_") +
               device::ouroboros::name_of(Subject::which);
    }
};

/// Thread i allocates `bytes[i]` and fills the block with a pattern of i.
template <variant V>
struct ouroboros_allocate {
    device::ouroboros::ouroboros_ref<V> heap;
    const std::uint64_t* bytes;
    void** blocks;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t >= threads) {
            return;
        }
        auto* const p = static_cast<std::uint8_t*>(heap.malloc(bytes[t]));
        blocks[t] = p;
        for (std::uint64_t i = 0; p != nullptr && i < bytes[t]; ++i) {
            p[i] = static_cast<std::uint8_t>(t * 7 + i);
        }
    }
};

/// Thread i checks the pattern of its block, and frees it.
template <variant V>
struct ouroboros_free {
    device::ouroboros::ouroboros_ref<V> heap;
    const std::uint64_t* bytes;
    void** blocks;
    std::uint64_t threads;
    simt::device_word<std::uint32_t>* wrong;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t >= threads) {
            return;
        }
        auto* const p = static_cast<std::uint8_t*>(blocks[t]);
        bool right = true;
        for (std::uint64_t i = 0; p != nullptr && i < bytes[t]; ++i) {
            right = right && p[i] == static_cast<std::uint8_t>(t * 7 + i);
        }
        if (!right) {
            wrong->template fetch_add<simt::order::relaxed>(1);
        }
        heap.free(p);
        blocks[t] = nullptr;
    }
};

template <class Subject>
class ouroboros_test : public ::testing::Test {
protected:
    static constexpr variant which = Subject::which;
    static constexpr bool with_chunks = device::ouroboros::holds_chunks(which);
    using manager = ouroboros<which>;

    void SetUp() override {
        const auto choice = choose_device(Subject::device);
        if (!choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
        on.kind = Subject::device == device_option::cuda ? simt::device_kind::cuda : simt::device_kind::emulated;
        on.workers = 3;
    }

    /// Makes a manager. No test goes on without one.
    manager make(const ouroboros_settings& settings) {
        auto made = manager::create(on, settings);
        EXPECT_TRUE(made.ok()) << made.status();
        return *std::move(made);
    }
    template <class Kernel>
    void launch(std::uint64_t threads, const Kernel& kernel) {
        const simt::launch_result r = simt::launch(on, simt::grid_for(threads, 64), kernel);
        ASSERT_TRUE(r.ok) << r.error;
    }
    /// Allocates a block for each of `sizes`. Returns the blocks, null where memory lacked.
    std::vector<void*> allocate(const manager& m, const std::vector<std::uint64_t>& sizes) {
        sizes_ = *device_array<std::uint64_t>::create(on, sizes.size());
        blocks_ = *device_array<void*>::create(on, sizes.size());
        EXPECT_TRUE(sizes_.upload(sizes).ok());
        launch(sizes.size(), ouroboros_allocate<which>{m.ref(), sizes_.data(), blocks_.data(), sizes.size()});
        std::vector<void*> got(sizes.size());
        EXPECT_TRUE(blocks_.download(got).ok());
        return got;
    }
    /// Frees the blocks of the last `allocate`, whose contents must be as it has left them.
    void free_all(const manager& m) {
        auto wrong = *device_array<simt::device_word<std::uint32_t>>::create(on, 1);
        launch(blocks_.size(),
               ouroboros_free<which>{m.ref(), sizes_.data(), blocks_.data(), blocks_.size(), wrong.data()});
        EXPECT_EQ(read(wrong), 0u) << "blocks whose contents have changed";
    }
    static std::uint32_t read(const device_array<simt::device_word<std::uint32_t>>& word) {
        std::vector<simt::device_word<std::uint32_t>> copy(1);
        EXPECT_TRUE(word.download(copy).ok());
        return copy[0].load<simt::order::relaxed>();
    }
    /// Returns what chunks are used for, and expects that none is lost.
    static ouroboros_usage usage(const manager& m, std::size_t instance = 0) {
        const auto u = m.usage(instance);
        EXPECT_TRUE(u.ok()) << u.status();
        EXPECT_EQ(u->of_pages + u->of_queues + u->free, u->chunks) << "chunks are lost";
        EXPECT_LE(u->reserved, u->free);
        return *u;
    }
    /// Expects that blocks are aligned and do not overlap.
    static void expect_apart(const std::vector<void*>& blocks, const std::vector<std::uint64_t>& sizes) {
        std::vector<std::pair<std::uintptr_t, std::uint64_t>> ranges;
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            if (blocks[i] != nullptr) {
                ranges.emplace_back(reinterpret_cast<std::uintptr_t>(blocks[i]), sizes[i]);
                EXPECT_EQ(ranges.back().first % 16, 0u);
            }
        }
        std::sort(ranges.begin(), ranges.end());
        for (std::size_t i = 1; i < ranges.size(); ++i) {
            ASSERT_LE(ranges[i - 1].first + ranges[i - 1].second, ranges[i].first) << "blocks overlap";
        }
    }
    static std::size_t served(const std::vector<void*>& blocks) {
        return blocks.size() - static_cast<std::size_t>(std::count(blocks.begin(), blocks.end(), nullptr));
    }

    simt::executor on;

private:
    device_array<std::uint64_t> sizes_;
    device_array<void*> blocks_;
};

}  // namespace orchard::test
