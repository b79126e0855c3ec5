// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Arrays of lanes in kernels, on both devices. Data that is written through one view is read through all others, by
/// the lanes that own it, by other lanes of the warp, and by other warps.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "device/arrays/lane_array.cuh"
#include "device/arrays/lane_ptr.cuh"
#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "device/simt/launch.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/machine/machine_info.hpp"
#include "uvm/geometry/lane_order.hpp"
#include "uvm/geometry/layout.hpp"

namespace orchard::test {

/// Returns the value that thread `owner` writes as element `i`.
ORCHARD_FN constexpr std::uint32_t content(std::uint64_t owner, std::uint64_t i) {
    return static_cast<std::uint32_t>(owner * 100'003 + i * 7 + 1);
}

/// One chunk for every group of `map.width` threads, side by side.
struct chunks {
    std::uint8_t* memory;
    std::uint64_t chunk_bytes;
    lane_map map;
    lane_order order;
    std::uint64_t elements;

    [[nodiscard]] ORCHARD_FN lane_array<std::uint32_t> array_of(std::uint64_t owner) const {
        const auto lane = static_cast<std::uint32_t>(owner % map.width);
        return {memory + owner / map.width * chunk_bytes, map, position_of(order, map.width, lane), elements};
    }
};

/// Each thread fills its array: by index, by iterator, by pieces, or through the pointer, in turns.
struct fill_own {
    chunks all;
    lane_ptr<std::uint32_t>* pointers;  ///< one for each thread; null if the layout has none

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t me = at.global_thread();
        const lane_array<std::uint32_t> mine = all.array_of(me);
        const lane_ptr<std::uint32_t> p = mine.data();
        pointers[me] = p;
        if (me % 4 == 0) {
            for (std::uint32_t i = 0; i < mine.size(); ++i) {
                mine[i] = content(me, i);
            }
        } else if (me % 4 == 1) {
            std::uint64_t i = 0;
            for (std::uint32_t& x : mine) {
                x = content(me, i++);
            }
        } else if (me % 4 == 2 || !p) {
            mine.for_each_tile([me](const tile_span<std::uint32_t>& span) {
                for (std::uint64_t i = 0; i < span.size(); ++i) {
                    span[i] = content(me, span.first + i);
                }
            });
        } else {
            lane_ptr<std::uint32_t> q = p + mine.size();
            while (q != p) {
                --q;
                *q = content(me, static_cast<std::uint64_t>(q - p));
            }
        }
    }
};

/// Each thread follows the pointer of another warp's thread, and counts wrong elements.
struct follow_others {
    chunks all;
    const lane_ptr<std::uint32_t>* pointers;
    simt::device_word<std::uint32_t>* errors;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t owner = (at.global_thread() * 7 + 33) % at.threads();
        const lane_ptr<const std::uint32_t> p = pointers[owner];
        const lane_array<const std::uint32_t> a = all.array_of(owner);
        std::uint32_t wrong = 0;
        for (std::uint32_t i = 0; i < all.elements; ++i) {
            wrong += a[i] != content(owner, i) ? 1 : 0;
            wrong += p && p[i] != content(owner, i) ? 1 : 0;
        }
        lane_ptr<const std::uint32_t> q = p;
        for (std::uint64_t i = 0; p && i < all.elements; i += 3) {
            wrong += *q != content(owner, i) ? 1 : 0;
            q += 3;
        }
        if (wrong != 0) {
            errors->fetch_add<simt::order::relaxed>(wrong);
        }
    }
};

/// Each lane passes its pointer to the next lane, which changes the elements; then the owner reads them.
struct change_neighbours {
    chunks all;
    simt::device_word<std::uint32_t>* errors;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t me = at.global_thread();
        const lane_ptr<std::uint32_t> mine = all.array_of(me).data();
        const simt::lane_mask here = ~simt::lane_mask{0};  // blocks are whole warps, and all lanes arrive here
        const int previous = (simt::lane_id() + simt::warp_size - 1) % simt::warp_size;
        const auto theirs = lane_ptr<std::uint32_t>::from_bits(simt::shuffle(here, mine.bits(), previous));
        for (std::uint64_t i = 0; i < all.elements; ++i) {
            theirs[i] += 5;
        }
        simt::sync(here);
        for (std::uint64_t i = 0; i < all.elements; ++i) {
            if (mine[i] != content(me, i) + 5) {
                errors->fetch_add<simt::order::relaxed>(1u);
            }
        }
    }
};

namespace {

struct kernel_case {
    const char* name;
    device_option device;
    lane_map map;
    std::uint64_t lane_bytes;
    lane_order order = lane_order::ascending;
    friend std::ostream& operator<<(std::ostream& out, const kernel_case& c) { return out << c.name; }
};

std::vector<kernel_case> kernel_cases() {
    std::vector<kernel_case> cases;
    const auto add = [&](const char* emulated, const char* cuda, lane_map map, std::uint64_t bytes,
                         lane_order order = lane_order::ascending) {
        cases.push_back({emulated, device_option::emulated, map, bytes, order});
        cases.push_back({cuda, device_option::cuda, map, bytes, order});
    };
    add("emulated_4_b", "cuda_4_b", lane_map::rows(tile::b4, 32), 400);
    add("emulated_16_b", "cuda_16_b", lane_map::rows(tile::b16, 32), 404);
    add("emulated_16_b_8_lanes", "cuda_16_b_8_lanes", lane_map::rows(tile::b16, 8), 404);
    add("emulated_4_b_5_lanes", "cuda_4_b_5_lanes", lane_map::rows(tile::b4, 5), 400);
    add("emulated_4_kib", "cuda_4_kib", lane_map::rows(tile::k4, 32), 9000);
    add("emulated_64_kib_2_lanes", "cuda_64_kib_2_lanes", lane_map::rows(tile::k64, 2), 70'000);
    add("emulated_tail_rows", "cuda_tail_rows", lane_map::with_tail_rows(tile::k16, 32, 28 << 10), 28 << 10);
    add("emulated_tail_rows_7_lanes", "cuda_tail_rows_7_lanes", lane_map::with_tail_rows(tile::k8, 7, 11'000), 11'000);
    add("emulated_prefetch_first", "cuda_prefetch_first", lane_map::rows(tile::k4, 32), 8192,
        lane_order::prefetch_first);
    add("emulated_linear", "cuda_linear", lane_map::linear(), 1000);
    return cases;
}

class layout_kernels : public testing::TestWithParam<kernel_case> {
protected:
    static constexpr std::uint32_t block = 64;

    void SetUp() override {
        const auto choice = choose_device(GetParam().device);
        if (!choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
        on_ = {choice->kind, 2};
        const kernel_case& c = GetParam();
        const chunk_size size = c.map.size(c.lane_bytes);
        count_ = c.map.width == 5 ? 5 * block : c.map.width == 7 ? 7 * block : 4 * block;
        memory_ = make<std::uint8_t>(size.bytes * (count_ / c.map.width) + size.alignment);
        pointers_ = make<lane_ptr<std::uint32_t>>(count_);
        errors_ = make<simt::device_word<std::uint32_t>>(1);
        const auto address = reinterpret_cast<std::uint64_t>(memory_.data());
        const std::uint64_t begin = (address + size.alignment - 1) / size.alignment * size.alignment;
        all_ = {memory_.data() + (begin - address), size.bytes, c.map, c.order, c.lane_bytes / sizeof(std::uint32_t)};
        run(fill_own{all_, pointers_.data()});
    }
    template <class T>
    device_array<T> make(std::uint64_t count) {
        auto made = device_array<T>::create(on_, count);
        EXPECT_TRUE(made.ok()) << made.status();
        return made.ok() ? *std::move(made) : device_array<T>();
    }
    template <class Kernel>
    void run(const Kernel& kernel) {
        const simt::launch_result result = simt::launch(on_, simt::grid_for(count_, block), kernel);
        ASSERT_TRUE(result.ok) << result.error;
    }
    void expect_no_errors() {
        std::vector<simt::device_word<std::uint32_t>> errors(1);
        ASSERT_TRUE(errors_.download(errors).ok());
        EXPECT_EQ(errors.front().load<simt::order::relaxed>(), 0u) << "elements that were not as they were written";
    }

    simt::executor on_;
    std::uint64_t count_ = 0;
    device_array<std::uint8_t> memory_;
    device_array<lane_ptr<std::uint32_t>> pointers_;
    device_array<simt::device_word<std::uint32_t>> errors_;
    chunks all_{};
};

TEST_P(layout_kernels, elements_lie_where_the_map_says) {
    std::vector<std::uint8_t> bytes(memory_.size());
    ASSERT_TRUE(memory_.download(bytes).ok());
    const std::uint8_t* const chunks = bytes.data() + (all_.memory - memory_.data());
    const lane_map map = GetParam().map;
    for (std::uint64_t owner = 0; owner < count_; ++owner) {
        const std::uint8_t* const chunk = chunks + owner / map.width * all_.chunk_bytes;
        const std::uint32_t position =
            position_of(all_.order, map.width, static_cast<std::uint32_t>(owner % map.width));
        for (std::uint64_t i = 0; i < all_.elements; ++i) {
            std::uint32_t found = 0;
            std::memcpy(&found, chunk + map.offset_of(position, i * sizeof(found)), sizeof(found));
            ASSERT_EQ(found, content(owner, i)) << "thread " << owner << ", element " << i;
        }
    }
}

TEST_P(layout_kernels, other_warps_follow_pointers_that_were_handed_to_them) {
    run(follow_others{all_, pointers_.data(), errors_.data()});
    expect_no_errors();
}

TEST_P(layout_kernels, other_lanes_follow_pointers_that_were_shuffled_to_them) {
    if (!all_.array_of(0).data()) {
        GTEST_SKIP() << "this layout has no pointers";
    }
    run(change_neighbours{all_, errors_.data()});
    expect_no_errors();
}

INSTANTIATE_TEST_SUITE_P(all, layout_kernels, testing::ValuesIn(kernel_cases()),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace orchard::test
