// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A small heap of any policy, with kernels that are templates over their view of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device/published/published_ref.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/published_heap.hpp"
#include "runtime/machine/machine_info.hpp"

namespace orchard::test {

using device::page_policy;

/// Thread i allocates a page of `bytes`, if it has none at `blocks[i]`.
template <class Ref>
struct get_pages {
    Ref heap;
    std::uint32_t bytes;
    void** blocks;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count && blocks[i] == nullptr) {
            blocks[i] = heap.get_page(bytes);
        }
    }
};

/// Thread i frees `blocks[i]`.
template <class Ref>
struct free_pages {
    Ref heap;
    void** blocks;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            heap.free_page(blocks[i]);
            blocks[i] = nullptr;
        }
    }
};

/// Every other warp frees the pages that it holds, one after another; the other warps allocate pages.
template <class Ref>
struct free_beside_gets {
    Ref heap;
    std::uint32_t bytes;
    void** held;
    void** got;
    std::uint64_t count;
    std::uint32_t rounds;  ///< pages of a thread

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        for (std::uint32_t round = 0; i < count && round < rounds; ++round) {
            const std::uint64_t place = i * rounds + round;
            if (at.thread / simt::warp_size % 2 == 0) {
                heap.free_page(held[place]);
                held[place] = nullptr;
            } else {
                got[place] = heap.get_page(bytes);
            }
            simt::pause(0);
        }
    }
};

/// A heap of one policy on one device, checked at the end of each test.
class policy_heap : public ::testing::TestWithParam<std::tuple<device_option, page_policy>> {
protected:
    [[nodiscard]] static page_policy policy() { return std::get<1>(GetParam()); }
    [[nodiscard]] static bool runs() { return policy() == page_policy::rw_malloc; }

    void SetUp() override {
        const auto choice = choose_device(std::get<0>(GetParam()));
        if (!choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
        make(4, 8192);
    }
    void TearDown() override {
        if (heap_) {
            const absl::Status s = heap_->validate();
            EXPECT_TRUE(s.ok()) << s;
        }
    }
    void make(std::uint64_t segments, std::uint64_t unit) {
        options o;
        o.device = std::get<0>(GetParam());
        o.capacity = segments * segment_bytes;
        o.emulated_workers = 3;
        heap_.reset();
        auto made = published_heaps::create(o, {policy(), unit});
        ASSERT_TRUE(made.ok()) << made.status();
        heap_.emplace(*std::move(made));
    }
    /// Calls `use` with the view of the heap's algorithm.
    template <class Use>
    decltype(auto) visit(Use use) const {
        const device::published_view& view = published_heaps::view(*heap_);
        switch (policy()) {
            case page_policy::rw: return use(published_ref<page_policy::rw>(view));
            case page_policy::rw_bm32: return use(published_ref<page_policy::rw_bm32>(view));
            case page_policy::rw_bm64: return use(published_ref<page_policy::rw_bm64>(view));
            case page_policy::corw: return use(published_ref<page_policy::corw>(view));
            case page_policy::corw_locked: return use(published_ref<page_policy::corw_locked>(view));
            default: return use(published_ref<page_policy::rw_malloc>(view));
        }
    }
    template <class Kernel>
    void launch(std::uint64_t threads, const Kernel& kernel) {
        const auto result = simt::launch(heap_->executor(), simt::grid_for(threads, 96), kernel);
        EXPECT_TRUE(result.ok) << result.error;
    }
    template <class T>
    device_array<T> array(std::uint64_t count) {
        auto made = device_array<T>::create(heap_->executor(), count);
        EXPECT_TRUE(made.ok()) << made.status();
        return *std::move(made);
    }
    template <class T>
    static std::vector<T> to_host(const device_array<T>& from) {
        std::vector<T> result(from.size());
        EXPECT_TRUE(from.download(result).ok());
        return result;
    }
    void get(device_array<void*>& blocks, std::uint32_t bytes) {
        visit([&](auto ref) {
            launch(blocks.size(), get_pages<decltype(ref)>{ref, bytes, blocks.data(), blocks.size()});
        });
    }
    void free(device_array<void*>& blocks) {
        visit([&](auto ref) { launch(blocks.size(), free_pages<decltype(ref)>{ref, blocks.data(), blocks.size()}); });
    }
    /// Returns the number of blocks that are not null; each must lie in the heap at a page of its own.
    std::size_t different(std::vector<void*> blocks, std::uint64_t bytes) {
        blocks.erase(std::remove(blocks.begin(), blocks.end(), nullptr), blocks.end());
        std::sort(blocks.begin(), blocks.end());
        const device::heap_view view = heap_->view();
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            EXPECT_TRUE(view.owns(blocks[i]));
            EXPECT_TRUE(i == 0 || static_cast<char*>(blocks[i]) - static_cast<char*>(blocks[i - 1]) >=
                                      static_cast<std::ptrdiff_t>(bytes))
                << "two owners of one page";
        }
        return blocks.size();
    }
    statistics stats() {
        EXPECT_TRUE(heap_->validate().ok());
        auto s = heap_->stats();
        EXPECT_TRUE(s.ok()) << s.status();
        return *s;
    }

    std::optional<heap> heap_;
};

inline std::string policy_name(const ::testing::TestParamInfo<std::tuple<device_option, page_policy>>& info) {
    return std::string(std::get<0>(info.param) == device_option::cuda ? "cuda_" : "emulated_") +
           std::string(device::name_of(std::get<1>(info.param)));
}

inline auto both_devices() { return ::testing::Values(device_option::emulated, device_option::cuda); }

}  // namespace orchard::test
