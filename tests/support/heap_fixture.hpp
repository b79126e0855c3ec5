// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Code that the tests of a heap share: the cases in which the contract must hold, a fixture, and the sizes of runs.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "device/published/page_policy.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/machine/machine_info.hpp"
#include "tests/support/callers_memory.hpp"
#include "tests/support/heap_kernels.cuh"
#include "tests/support/machine_lock.hpp"

namespace orchard::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(ORCHARD_CHECKED)
inline constexpr bool slowed = true;
#else
inline constexpr bool slowed = false;
#endif

/// Returns `full`, or `reduced` if a sanitizer or the library's own checks slow everything down.
constexpr std::uint64_t scaled(std::uint64_t full, std::uint64_t reduced) { return slowed ? reduced : full; }

/// One way to make a heap. The whole contract holds for each.
struct heap_case {
    const char* name;
    device_option device;
    int cached_segments;
    int mailbox_slots;
    std::uint64_t capacity;
    device::page_policy policy = device::page_policy::default_walk;
    backing_option backing = backing_option::automatic;
    lies_in where = lies_in::its_own;
    mailbox_memory_option mailbox_memory = mailbox_memory_option::pinned;
    tail_policy tails = tail_policy::adjacent;

    /// Returns true if blocks are runs of units of 16 B that are found at random; such blocks do not fill a heap.
    [[nodiscard]] bool runs() const { return policy == device::page_policy::rw_malloc; }
    [[nodiscard]] options values() const {
        options o;
        o.device = device;
        o.cached_segments = cached_segments;
        o.mailbox_slots = mailbox_slots;
        o.capacity = capacity;
        o.backing = backing;
        o.mailbox_memory = mailbox_memory;
        o.tails = tails;
        o.range = 4 * capacity;  // of an elastic heap; smaller than the default, so that checks after each test read
                                 // less
        o.emulated_workers = 2;
        return o;
    }
    friend std::ostream& operator<<(std::ostream& out, const heap_case& c) { return out << c.name; }
};

/// Bytes of a heap of `n` segments.
constexpr std::uint64_t segments(std::uint64_t n) { return n * segment_bytes; }

#if ORCHARD_TEST_POLICIES

/// Both devices with each of the published policies; two of them also with few segments, one with three words of a
/// bitmap (more than 128 segments), and one in memory of the caller's.
inline std::vector<heap_case> heap_cases() {
    using device::page_policy;
    std::vector<heap_case> cases;
    const int slots = options{}.mailbox_slots;
    for (const device_option on : {device_option::emulated, device_option::cuda}) {
        const bool cuda = on == device_option::cuda;
        const auto add = [&](const char* emulated_name, const char* cuda_name, std::uint64_t n, page_policy p) {
            cases.push_back({cuda ? cuda_name : emulated_name, on, 64, slots, segments(n), p});
        };
        add("emulated_rw", "cuda_rw", 32, page_policy::rw);
        add("emulated_rw_bm32", "cuda_rw_bm32", 32, page_policy::rw_bm32);
        add("emulated_rw_bm64", "cuda_rw_bm64", 32, page_policy::rw_bm64);
        add("emulated_corw", "cuda_corw", 32, page_policy::corw);
        add("emulated_corw_locked", "cuda_corw_locked", 32, page_policy::corw_locked);
        add("emulated_rw_malloc_8_segments", "cuda_rw_malloc_8_segments", 8, page_policy::rw_malloc);
        add("emulated_corw_136_segments", "cuda_corw_136_segments", 136, page_policy::corw);
        cases.back().backing = backing_option::fixed;
        add("emulated_corw_locked_8_segments", "cuda_corw_locked_8_segments", 8, page_policy::corw_locked);
        add("emulated_rw_supplied_8_segments", "cuda_rw_supplied_8_segments", 8, page_policy::rw);
        cases.back().where = lies_in::supplied;
    }
    return cases;
}

#else

/// Both devices, with each of: the defaults; segment cache bypassed and a mailbox of 4; three words of a bitmap (more
/// than 128 segments), committed from the start, and a mailbox of 4; a heap so small that most classes have to share
/// its few segments one after another.
inline std::vector<heap_case> heap_cases() {
    std::vector<heap_case> cases;
    const int all_slots = options{}.mailbox_slots;
    for (const auto& [device, prefix] : {std::pair{device_option::emulated, 0}, std::pair{device_option::cuda, 1}}) {
        constexpr std::array<std::array<const char*, 4>, 2> names{
            {{"emulated", "emulated_no_cache_4_slots", "emulated_136_segments_4_slots", "emulated_8_segments"},
             {"cuda", "cuda_no_cache_4_slots", "cuda_136_segments_4_slots", "cuda_8_segments"}}};
        const auto& name = names[static_cast<std::size_t>(prefix)];
        cases.push_back({name[0], device, 64, all_slots, segments(32)});
        cases.push_back({name[1], device, 0, 4, segments(32)});
        constexpr auto walk = device::page_policy::default_walk;
        cases.push_back({name[2], device, 64, 4, segments(136), walk, backing_option::fixed});
        cases.push_back({name[3], device, 64, all_slots, segments(8)});
    }
    // The backing that is not the device's default.
    constexpr auto policy = device::page_policy::default_walk;
    cases.push_back(
        {"emulated_elastic", device_option::emulated, 64, all_slots, segments(32), policy, backing_option::elastic});
    cases.push_back({"cuda_fixed", device_option::cuda, 64, all_slots, segments(32), policy, backing_option::fixed});
    cases.push_back(
        {"emulated_managed", device_option::emulated, 64, all_slots, segments(32), policy, backing_option::managed});
    cases.push_back(
        {"cuda_managed", device_option::cuda, 64, all_slots, segments(32), policy, backing_option::managed});
    // Heaps in the caller's memory; after the others, because some tests select those by number.
    const auto supplied = [&](const char* name, device_option device, lies_in where) {
        cases.push_back({name, device, 64, all_slots, segments(32), policy, backing_option::automatic, where});
    };
    supplied("emulated_supplied", device_option::emulated, lies_in::supplied);
    supplied("cuda_supplied", device_option::cuda, lies_in::supplied);
    supplied("cuda_supplied_on_host", device_option::cuda, lies_in::supplied_on_host);
    return cases;
}

#endif

inline std::string case_name(const ::testing::TestParamInfo<heap_case>& info) { return info.param.name; }

/// Provides a heap of the case under test. Each test ends with `validate()`, which fails if the heap is inconsistent or
/// has written outside the memory that it was given.
class heap_contract : public ::testing::TestWithParam<heap_case> {
protected:
    void SetUp() override {
        const auto choice = choose_device(GetParam().device);
        if (!choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
        constexpr std::uint64_t much = std::uint64_t{8} << 30;
        if (GetParam().device == device_option::cuda &&
            (GetParam().backing == backing_option::managed ||
             GetParam().mailbox_memory == mailbox_memory_option::managed || GetParam().values().capacity > much)) {
            alone_.emplace("gpu-memory");
        }
#if ORCHARD_TEST_POLICIES
        tested_walk = {GetParam().policy, 16};
#endif
        remake(GetParam().values());
    }
    void TearDown() override {
        if (heap_) {
            expect_valid("at the end of the test");
        }
        heap_.reset();
        expect_nothing_changed_beside(memory_);
        for (const callers_memory& m : memory_of_others_) {
            expect_nothing_changed_beside(m);
        }
    }

    /// Replaces the heap by another one, in the same memory if that is the caller's.
    void remake(const options& values) {
        heap_.reset();
        absl::StatusOr<heap> made = make_in(memory_, values);
        ASSERT_TRUE(made.ok()) << made.status();
        heap_.emplace(*std::move(made));
    }
    /// Returns an additional heap of the same case. If it lies in the caller's memory, that memory lives to the end of
    /// the test.
    absl::StatusOr<heap> make_another(const options& values) {
        return make_in(memory_of_others_.emplace_back(), values);
    }

    /// Takes a heap that the test has created itself.
    void adopt(heap made) {
        heap_.reset();
        heap_.emplace(std::move(made));
    }

    /// Destroys the heap; afterwards there is none.
    void drop() { heap_.reset(); }

    [[nodiscard]] heap& h() { return *heap_; }
    [[nodiscard]] std::uint64_t heap_segments() { return device::heap_view(heap_->ref().view()).max_slabs; }
    [[nodiscard]] std::uint64_t largest_chunk() { return segments(heap_segments()); }

    /// Runs a kernel that must not fail.
    template <class Kernel>
    simt::emulated::costs launch(simt::grid shape, const Kernel& kernel) {
        const simt::launch_result result = simt::launch(heap_->executor(), shape, kernel);
        EXPECT_TRUE(result.ok) << result.error;
        return result.costs;
    }

    template <class T>
    device_array<T> array(std::uint64_t count) {
        absl::StatusOr<device_array<T>> made = device_array<T>::create(heap_->executor(), count);
        EXPECT_TRUE(made.ok()) << made.status();
        return made.ok() ? *std::move(made) : device_array<T>();
    }
    template <class T>
    device_array<T> array_of(const std::vector<T>& from) {
        device_array<T> made = array<T>(from.size());
        const absl::Status s = made.upload(from);
        EXPECT_TRUE(s.ok()) << s;
        return made;
    }
    template <class T>
    std::vector<T> to_host(const device_array<T>& from) {
        std::vector<T> result(from.size());
        const absl::Status s = from.download(result);
        EXPECT_TRUE(s.ok()) << s;
        return result;
    }

    void expect_valid(const char* when = "") {
        const absl::Status s = heap_->validate();
        EXPECT_TRUE(s.ok()) << when << ": " << s;
    }
    /// The statistics once everything posted is answered.
    statistics settled_stats() {
        expect_valid("before statistics");
        absl::StatusOr<statistics> s = heap_->stats();
        EXPECT_TRUE(s.ok()) << s.status();
        return s.ok() ? *s : statistics{};
    }
    /// Expects that nothing is allocated, and that the heap holds no memory after a trim.
    void expect_empty() {
        const absl::Status trimmed = heap_->trim();
        EXPECT_TRUE(trimmed.ok()) << trimmed;
        const statistics s = settled_stats();
        EXPECT_EQ(s.pages_in_use, 0u);
        EXPECT_EQ(s.live_chunks, 0u);
        EXPECT_EQ(s.slabs_in_use, 0u);
        EXPECT_EQ(s.segments_in_cache, 0u);
        EXPECT_EQ(s.portions_in_cache, 0u);
        EXPECT_EQ(s.portions_granted, 0u);
        EXPECT_EQ(s.segments_granted, 0u);
        EXPECT_EQ(s.allocations, s.frees);
    }

    /// Thread i allocates `sizes[i]`, in blocks of `threads_per_block`.
    std::vector<block> allocate(const std::vector<std::uint64_t>& sizes, std::uint32_t threads_per_block = 64) {
        const auto wanted = array_of(sizes);
        const auto got = array<block>(sizes.size());
        launch(simt::grid_for(sizes.size(), threads_per_block),
               allocate_each{heap_->ref(), wanted.data(), got.data(), sizes.size()});
        return to_host(got);
    }
    block allocate_one(std::uint64_t bytes) { return allocate({bytes}, 1).front(); }
    /// Writes contents that distinguish blocks; block i is stamped by thread i.
    void stamp(const std::vector<block>& blocks) {
        const auto them = array_of(blocks);
        launch(simt::grid_for(blocks.size(), 64), stamp_each{them.data(), blocks.size()});
    }
    /// Checks in another kernel that the contents are those of `stamp`; other threads read them than wrote them.
    void expect_stamped(const std::vector<block>& blocks) {
        const auto them = array_of(blocks);
        const auto errors = array<simt::device_word<std::uint32_t>>(1);
        launch(simt::grid_for(blocks.size(), 96), verify_each{them.data(), blocks.size(), errors.data()});
        EXPECT_EQ(to_host(errors).front().load<simt::order::relaxed>(), 0u) << "blocks whose contents changed";
    }
    /// Thread i frees the block at `order[i]`, or its own.
    void free_all(const std::vector<block>& blocks, const std::vector<std::uint64_t>& order = {},
                  std::uint32_t threads_per_block = 64) {
        std::vector<block> sorted = blocks;
        for (std::size_t i = 0; i < order.size(); ++i) {
            sorted[i] = blocks[order[i]];
        }
        const auto them = array_of(sorted);
        launch(simt::grid_for(sorted.size(), threads_per_block), free_each{heap_->ref(), them.data(), sorted.size()});
    }

    /// No block is null, each lies in the heap and is one of those that the heap has as allocated, and no two share a
    /// byte.
    void expect_disjoint(std::vector<block> blocks) {
        const device::heap_view view = heap_->ref().view();
        const auto base = reinterpret_cast<std::uint64_t>(view.base);
        std::sort(blocks.begin(), blocks.end(), [](const block& a, const block& b) { return a.address < b.address; });
        std::uint64_t end = base;
        for (const block& b : blocks) {
            ASSERT_NE(b.address, 0u) << "no memory for " << b.bytes << " bytes";
            ASSERT_GE(b.address, end) << "a block of " << b.bytes << " bytes begins before another's end";
            end = b.address + b.bytes;
        }
        EXPECT_LE(end, base + segments(view.segments));
        expect_held(blocks);
    }
    /// The heap's structures have each of these blocks as allocated.
    void expect_held([[maybe_unused]] const std::vector<block>& blocks) {
#if !ORCHARD_TEST_POLICIES
        std::vector<held_block> held;
        for (const block& b : blocks) {
            held.push_back({b.pointer(), std::max<std::uint64_t>(b.bytes, 1)});
        }
        const absl::Status s = heap_->validate(held);
        EXPECT_TRUE(s.ok()) << s;
#endif
    }

    /// Allocates, checks, stamps, checks from elsewhere, frees.
    void cycle(const std::vector<std::uint64_t>& sizes, std::uint32_t threads_per_block = 64) {
        const std::vector<block> blocks = allocate(sizes, threads_per_block);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
        stamp(blocks);
        expect_stamped(blocks);
        free_all(blocks, {}, threads_per_block);
    }

private:
    absl::StatusOr<heap> make_in(callers_memory& memory, const options& values) {
        absl::StatusOr<heap> made = make_heap(GetParam().where, values, memory);
        if (made.ok() && GetParam().where != lies_in::its_own) {
            const device::heap_view view = made->ref().view();
            EXPECT_EQ(as_number(view.base), as_number(memory.segments()));
            EXPECT_EQ(segments(view.segments), values.capacity);
        }
        return made;
    }
    static void expect_nothing_changed_beside(const callers_memory& memory) {
        if (!memory.empty()) {
            const absl::StatusOr<std::uint64_t> changed = memory.changed_beside();
            ASSERT_TRUE(changed.ok()) << changed.status();
            EXPECT_EQ(*changed, 0u) << "bytes beside the heap's segments";
        }
    }

    std::optional<machine_lock> alone_;  ///< of cases that no two processes may run at a time
    callers_memory memory_;              ///< the memory of `heap_`, if the case supplies it
    std::deque<callers_memory> memory_of_others_;
    std::optional<heap> heap_;
};

}  // namespace orchard::test

/// A suite of the contract, run in all cases.
#define ORCHARD_CONTRACT_SUITE(suite)                                                                                  \
    class suite : public ::orchard::test::heap_contract {};                                                            \
    INSTANTIATE_TEST_SUITE_P(all, suite, ::testing::ValuesIn(::orchard::test::heap_cases()), ::orchard::test::case_name)
