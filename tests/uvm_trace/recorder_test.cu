// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The recorder of the emulated device: the exact accesses of small kernels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "device/arrays/lane_array.cuh"
#include "device/arrays/lane_ptr.cuh"
#include "device/simt/atomic.cuh"
#include "device/simt/launch.cuh"
#include "tests/uvm_trace/traces.hpp"
#include "uvm/model/recorded.hpp"
#include "uvm/model/trace_file.hpp"

namespace orchard::test {
namespace {

using simt::lane_mask;
using simt::order;
using simt::emulated::access_recorder;
using simt::emulated::recorded_access;
using enum simt::emulated::access;
using word = simt::plain<std::uint32_t>;
using counter = simt::device_word<std::uint32_t>;

/// Memory that begins at a VA block.
struct alignas(segment_bytes) memory {
    std::array<std::uint32_t, 1 << 16> words{};

    template <class T>
    T* as() {
        return reinterpret_cast<T*>(words.data());
    }
};
memory shared;

/// Launches `body`, recorded.
template <class Body>
void record(access_recorder& recorder, simt::grid shape, const Body& body, unsigned workers = 2) {
    const simt::launch_result result = simt::emulated::run_grid(
        shape, [](const void* k, simt::thread_position at) { (*static_cast<const Body*>(k))(at); }, &body, workers,
        &recorder);
    EXPECT_TRUE(result.ok) << result.error;
}

std::vector<recorded_access> of(const access_recorder& r, std::uint32_t warp = 0) {
    return {r.of(warp).begin(), r.of(warp).end()};
}

TEST(Recorder, EachLanesAccessesAreNumberedAlike) {
    access_recorder recorder(shared.words.data(), sizeof(shared.words));
    word* const w = shared.as<word>();
    record(recorder, {1, 3}, [=](simt::thread_position at) {
        w[at.thread].set(w[at.thread + 8].get());
        if (at.thread == 1) {
            (void)w[100].get();
        }
    });
    const std::vector<recorded_access> expected{{32, 0, 0, load}, {36, 0, 1, load}, {40, 0, 2, load}, {0, 1, 0, store},
                                                {4, 1, 1, store}, {8, 1, 2, store}, {400, 2, 1, load}};
    EXPECT_EQ(recorder.warps(), 1u);
    EXPECT_EQ(of(recorder), expected);
}

TEST(Recorder, LanesThatMeetGoOnTogether) {
    access_recorder recorder(shared.words.data(), sizeof(shared.words));
    word* const w = shared.as<word>();
    record(recorder, {1, 4}, [=](simt::thread_position at) {
        for (std::uint32_t i = 0; i <= at.thread; ++i) {  // 1, 2, 3, 4 accesses
            (void)w[i].get();
        }
        if (at.thread < 2) {
            simt::sync(0b0011);  // continues in step 2
            (void)w[10].get();   // steps 2
        }
        simt::sync(0b1111);
        (void)w[20].get();  // step 4
    });
    std::vector<std::uint32_t> steps_of_10;
    for (const recorded_access& a : of(recorder)) {
        if (a.offset == 40) {
            EXPECT_EQ(a.step, 2u) << a;
            EXPECT_LT(a.lane, 2) << a;
        } else if (a.offset == 80) {
            EXPECT_EQ(a.step, 4u) << a;
        } else {
            EXPECT_EQ(a.step, a.offset / 4) << a;
        }
    }
    EXPECT_EQ(recorder.of(0).size(), 10u + 2 + 4);
}

TEST(Recorder, ConvergeJoinsTheGroupsThatItMakes) {
    access_recorder recorder(shared.words.data(), sizeof(shared.words));
    word* const w = shared.as<word>();
    record(recorder, {1, 4}, [=](simt::thread_position at) {
        if (at.thread % 2 == 0) {  // lanes 0 and 2: 1 and 3 accesses, then together
            for (std::uint32_t i = 0; i <= at.thread; ++i) {
                (void)w[0].get();
            }
            const lane_mask even = simt::converge();
            EXPECT_EQ(even, 0b0101u);
            (void)w[1].get();
        } else {
            const lane_mask odd = simt::converge();
            EXPECT_EQ(odd, 0b1010u);
            (void)w[2].get();
        }
    });
    const std::vector<recorded_access> expected{{0, 0, 0, load}, {8, 0, 1, load}, {0, 0, 2, load}, {8, 0, 3, load},
                                                {0, 1, 2, load}, {0, 2, 2, load}, {4, 3, 0, load}, {4, 3, 2, load}};
    EXPECT_EQ(of(recorder), expected);
}

TEST(Recorder, EveryStepHasAnAccessAndNoLaneTwo) {
    access_recorder recorder(shared.words.data(), sizeof(shared.words));
    word* const w = shared.as<word>();
    record(recorder, {2, 96}, [=](simt::thread_position at) {
        for (std::uint32_t i = 0; i < 40; ++i) {
            if ((at.thread * 7 + i * i + at.block) % 3 != 0) {
                (void)w[i].get();
            }
            if ((at.thread / 5 + i) % 4 == 0) {
                const lane_mask here = simt::converge();
                (void)simt::ballot(here, i % 2 == 0);
            }
        }
    });
    ASSERT_EQ(recorder.warps(), 6u);
    for (std::uint32_t warp = 0; warp < 6; ++warp) {
        const auto all = of(recorder, warp);
        ASSERT_FALSE(all.empty());
        EXPECT_EQ(all[0].step, 0u);
        for (std::size_t i = 1; i < all.size(); ++i) {
            const bool next_lane = all[i].step == all[i - 1].step && all[i].lane > all[i - 1].lane;
            EXPECT_TRUE(next_lane || all[i].step == all[i - 1].step + 1) << all[i - 1] << ", " << all[i];
        }
    }
}

TEST(Recorder, WarpsAreThoseOfTheGrid) {
    access_recorder recorder(shared.words.data(), sizeof(shared.words));
    word* const w = shared.as<word>();
    record(
        recorder, {3, 40}, [=](simt::thread_position at) { w[at.global_warp() * 64 + at.thread % 32].set(1); }, 3);
    ASSERT_EQ(recorder.warps(), 6u);
    for (std::uint32_t warp = 0; warp < 6; ++warp) {
        std::vector<recorded_access> expected;
        for (std::uint8_t l = 0; l < (warp % 2 == 0 ? 32 : 8); ++l) {
            expected.push_back({warp * 256 + l * 4u, 0, l, store});
        }
        EXPECT_EQ(of(recorder, warp), expected) << "warp " << warp;
    }
}

TEST(Recorder, AtomicsSayWhatTheyDo) {
    access_recorder recorder(shared.words.data(), sizeof(shared.words));
    counter* const c = shared.as<counter>();
    record(recorder, {1, 1}, [=](simt::thread_position) {
        c[0].store<order::relaxed>(5);
        (void)c[0].load<order::acquire>();
        (void)c[1].fetch_add<order::relaxed>(1);
        std::uint32_t expected = 0;
        (void)c[2].compare_exchange<order::relaxed>(expected, 1);
        c[3].raise<order::relaxed>(7);  // a load and an exchange
    });
    const std::vector<recorded_access> expected{{0, 0, 0, store},
                                                {0, 1, 0, load},
                                                {4, 2, 0, read_modify_write},
                                                {8, 3, 0, read_modify_write},
                                                {12, 4, 0, load},
                                                {12, 5, 0, read_modify_write}};
    EXPECT_EQ(of(recorder), expected);
}

TEST(Recorder, ArraysOfLanesGiveTheAddressesOfTheirTiles) {
    constexpr std::uint32_t count = 40;
    access_recorder recorder(shared.words.data(), sizeof(shared.words));
    const lane_map map = lane_map::rows(tile::b16, 32);
    record(recorder, {1, 32}, [=](simt::thread_position at) {
        const lane_array<std::uint32_t> a(shared.words.data(), map, at.thread, count);
        for (std::uint32_t i = 0; i < count; ++i) {
            a[i] = i;
        }
        const lane_ptr<const std::uint32_t> p = lane_array<const std::uint32_t>(a).data();
        EXPECT_EQ(p[3] + *(p + 4), 7u);
        EXPECT_EQ(*a.begin(), 0u);
        EXPECT_EQ(a.span_at(5)[1], 6u);
    });
    std::vector<recorded_access> expected;
    const auto all_lanes = [&](std::uint32_t step, std::uint32_t index) {
        for (std::uint8_t l = 0; l < 32; ++l) {
            expected.push_back({interleaved_offset(tile::b16, 32, l, index * 4u), step, l, load});
        }
    };
    for (std::uint32_t i = 0; i < count; ++i) {
        all_lanes(i, i);
    }
    all_lanes(count, 3);
    all_lanes(count + 1, 4);
    all_lanes(count + 2, 0);
    all_lanes(count + 3, 6);
    EXPECT_EQ(of(recorder), expected);
}

TEST(Recorder, ElementsOfTheSeamsTypesAreRecordedOnce) {
    access_recorder recorder(shared.words.data(), sizeof(shared.words));
    record(recorder, {1, 2}, [=](simt::thread_position at) {
        const lane_map map = lane_map::rows(tile::b4, 2);
        lane_array<word>(shared.words.data(), map, at.thread, 8)[2].set(1);
        (void)lane_array<counter>(shared.words.data(), map, at.thread, 8).data()[3].fetch_or<order::relaxed>(1);
    });
    const std::vector<recorded_access> expected{
        {16, 0, 0, store}, {20, 0, 1, store}, {24, 1, 0, read_modify_write}, {28, 1, 1, read_modify_write}};
    EXPECT_EQ(of(recorder), expected);
}

TEST(Recorder, WhatLiesOutsideIsLeftOut) {
    access_recorder recorder(shared.words.data() + 10, 8);  // words 10 and 11
    word* const w = shared.as<word>();
    record(recorder, {1, 1}, [=](simt::thread_position) {
        for (std::uint32_t i = 0; i < 20; ++i) {
            w[i].set(i);
        }
        word local{};
        local.set(1);
    });
    EXPECT_EQ(of(recorder), (std::vector<recorded_access>{{0, 0, 0, store}, {4, 1, 0, store}}));
}

TEST(Recorder, FurtherLaunchesGoOn) {
    access_recorder recorder(shared.words.data(), sizeof(shared.words));
    word* const w = shared.as<word>();
    record(recorder, {1, 2}, [=](simt::thread_position at) {
        for (std::uint32_t i = 0; i < 1 + at.thread; ++i) {
            (void)w[i].get();
        }
    });
    record(recorder, {2, 1}, [=](simt::thread_position at) { w[9 + at.block].set(1); });
    EXPECT_EQ(of(recorder, 0),
              (std::vector<recorded_access>{{0, 0, 0, load}, {0, 0, 1, load}, {4, 1, 1, load}, {36, 2, 0, store}}));
    EXPECT_EQ(of(recorder, 1), (std::vector<recorded_access>{{40, 0, 0, store}}));
}

TEST(Recorder, HostThreadsAndLaunchesWithoutItAreNotRecorded) {
    access_recorder recorder(shared.words.data(), sizeof(shared.words));
    word* const w = shared.as<word>();
    record(recorder, {1, 1}, [=](simt::thread_position) { w[1].set(1); });
    w[2].set(1);
    (void)*lane_ptr<std::uint32_t>::linear(shared.words.data());
    const auto nothing = [](const void*, simt::thread_position) { shared.as<word>()[3].set(1); };
    ASSERT_TRUE(simt::emulated::run_grid({1, 1}, nothing, nullptr, 1).ok);
    EXPECT_EQ(of(recorder).size(), 1u);
}

/// The kernel for `launch`: thread i writes word i.
struct write_own {
    word* words;
    ORCHARD_FN void operator()(simt::thread_position at) const { words[at.global_thread()].set(1); }
};

TEST(Recorder, IsNamedInTheExecutorAndBecomesATrace) {
    // The range begins 4 KiB after the beginning of a VA block, and so do the trace's addresses.
    access_recorder recorder(shared.words.data() + 1024, sizeof(shared.words) - 4096);
    simt::executor on;
    on.recorder = &recorder;
    ASSERT_TRUE(simt::launch(on, {2, 32}, write_own{shared.as<word>() + 1024}).ok);
    const auto t = uvm_model::trace::from(*uvm_model::recorded(recorder));
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_EQ(t->header().space_bytes, segment_bytes);
    const auto all = all_of(*t->source());
    ASSERT_EQ(all.size(), 2u);
    for (std::uint32_t w = 0; w < 2; ++w) {
        ASSERT_EQ(all[w].size(), 1u);
        for (std::uint8_t l = 0; l < 32; ++l) {
            EXPECT_EQ(all[w][0][l], (uvm_model::access{4096 + (w * 32u + l) * 4, l, uvm_model::access_kind::write}));
        }
    }
}

TEST(Recorder, NothingRecordedIsATraceWithoutSteps) {
    const access_recorder recorder(shared.words.data(), sizeof(shared.words));
    const auto t = uvm_model::trace::from(*uvm_model::recorded(recorder));
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_EQ(t->header().accesses, 0u);
    EXPECT_EQ(all_of(*t->source()), std::vector<steps_of_warp>(1));
}

}  // namespace
}  // namespace orchard::test
