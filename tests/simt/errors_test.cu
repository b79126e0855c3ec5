// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Each way in which a launch fails, by the text that it gives; and that the next launch works.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "tests/simt/run_emulated.hpp"

namespace orchard::simt {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr site place_a{"kernel.cu", 10};
constexpr site place_b{"kernel.cu", 20};

/// Runs a kernel that must fail, then one that must not.
template <class Body>
std::string error_of(grid shape, const Body& body) {
    const auto result = run_emulated(shape, body);
    EXPECT_FALSE(result.ok);
    EXPECT_FALSE(result.error.empty());
    device_word<std::uint32_t> sum{0};
    const auto next = run_emulated({4, 40}, [&](thread_position) {
        sum.fetch_add<order::relaxed>(static_cast<std::uint32_t>(popcount(ballot(converge(), true))));
    });
    EXPECT_TRUE(next.ok) << next.error;
    EXPECT_EQ(sum.load<order::relaxed>(), 4u * (32 * 32 + 8 * 8));
    return result.error;
}

TEST(Errors, DifferentCollectives) {
    const std::string error = error_of({1, 32}, [](thread_position at) {
        if (at.thread < 4) {
            sync(0xffffffff, place_a);
        } else {
            (void)ballot(0xffffffff, true, place_b);
        }
    });
    EXPECT_THAT(error, HasSubstr("block 0, warp 0: lanes 0x0000000f wait at sync (kernel.cu:10) for mask 0xffffffff; "
                                 "missing 0xfffffff0 at ballot (kernel.cu:20) for mask 0xffffffff"));
    EXPECT_THAT(error, HasSubstr("lanes 0xfffffff0 wait at ballot (kernel.cu:20) for mask 0xffffffff; "
                                 "missing 0x0000000f at sync (kernel.cu:10)"));
}

TEST(Errors, DifferentSites) {
    const std::string error =
        error_of({1, 2}, [](thread_position at) { sync(0x3, at.thread == 0 ? place_a : place_b); });
    EXPECT_THAT(error, AllOf(HasSubstr("lanes 0x00000001 wait at sync (kernel.cu:10) for mask 0x00000003"),
                             HasSubstr("missing 0x00000002 at sync (kernel.cu:20)")));
}

TEST(Errors, DifferentMasks) {
    const std::string error =
        error_of({1, 32}, [](thread_position at) { sync(at.thread == 0 ? 0x3u : 0xffffffffu, place_a); });
    EXPECT_THAT(error, AllOf(HasSubstr("lanes 0x00000001 wait at sync (kernel.cu:10) for mask 0x00000003; missing "
                                       "0x00000002 at sync (kernel.cu:10) for mask 0xffffffff"),
                             HasSubstr("lanes 0xfffffffe wait at sync (kernel.cu:10) for mask 0xffffffff")));
}

TEST(Errors, ADifferentCollectiveWhileAnotherWarpPausesForEver) {
    const std::string error = error_of({1, 64}, [](thread_position at) {
        if (at.thread >= warp_size) {
            for (;;) {
                pause(10);
            }
        }
        sync(0xffffffff, at.thread == 7 ? place_b : place_a);
    });
    EXPECT_THAT(error, HasSubstr("missing 0x00000080 at sync (kernel.cu:20)"));
}

TEST(Errors, ALaneOfTheMaskEnds) {
    const std::string error = error_of({1, 64}, [](thread_position at) {
        if (at.thread == 40) {
            pause(0);
            return;
        }
        if (at.thread >= warp_size) {
            sync(0xffffffff, place_a);
        }
    });
    EXPECT_THAT(
        error, AllOf(HasSubstr("block 0, thread 40 (warp 1, lane 8) ended"),
                     HasSubstr("lanes 0xfffffeff wait at sync (kernel.cu:10)"), HasSubstr("missing 0x00000100 ended")));
}

TEST(Errors, ALaneOfTheMaskHasEndedBefore) {
    const std::string error = error_of({1, 32}, [](thread_position at) {
        if (at.thread == 0) {
            return;
        }
        pause(0);
        (void)reduce_add(0xffffffff, 1, place_a);
    });
    EXPECT_THAT(error, HasSubstr("reduce_add (kernel.cu:10) with mask 0xffffffff names lanes 0x00000001, which have "
                                 "ended"));
}

TEST(Errors, ALaneThatTheWarpDoesNotHave) {
    const std::string error =
        error_of({1, 40}, [](thread_position at) { sync(at.thread < 32 ? 0xffffffff : 0x1ff, place_a); });
    EXPECT_THAT(error, HasSubstr("names lanes 0x00000100, which this warp of 8 lanes does not have"));
}

TEST(Errors, ACallerOutsideItsOwnMask) {
    const std::string error = error_of({3, 64}, [](thread_position at) {
        if (at.block == 1 && at.thread == 37) {
            (void)match(0x0000000f, 1, place_a);
        }
    });
    EXPECT_THAT(error, HasSubstr("block 1, thread 37 (warp 1, lane 5): match (kernel.cu:10) with mask 0x0000000f, "
                                 "which does not name its caller, lane 5"));
}

TEST(Errors, AShuffleFromOutsideTheMask) {
    const std::string error = error_of({1, 4}, [](thread_position) { (void)shuffle(0x0f, 1u, 9, place_a); });
    EXPECT_THAT(error, HasSubstr("shuffle (kernel.cu:10) reads from lane 9, which is not in its mask 0x0000000f"));
    EXPECT_THAT(error_of({1, 4}, [](thread_position) { (void)shuffle(0x0f, 1u, -1, place_a); }), HasSubstr("lane -1"));
}

TEST(Errors, ACircleOfLanes) {
    const std::string error = error_of({2, 96}, [](thread_position at) {
        if (at.block == 1 && at.thread >= 64 && at.thread < 67) {  // 0 waits for 1, 1 for 2, 2 for 0
            const std::uint32_t lane = at.thread - 64;
            sync(lane_mask{1} << lane | lane_mask{1} << (lane + 1) % 3, place_a);
        }
    });
    EXPECT_THAT(error, AllOf(HasSubstr("block 1: lanes wait for each other"),
                             HasSubstr("block 1, warp 2: lanes 0x00000001 wait at sync (kernel.cu:10) for mask "
                                       "0x00000003; missing 0x00000002 at sync"),
                             HasSubstr("lanes 0x00000002 wait"), HasSubstr("lanes 0x00000004 wait")));
}

TEST(Errors, AnExceptionOfTheKernel) {
    const std::string error = error_of({3, 64}, [](thread_position at) {
        if (at.block == 2 && at.thread == 33) {
            throw std::runtime_error("no such thing: 17");
        }
        sync(converge());
    });
    EXPECT_EQ(error, "block 2, thread 33: the kernel threw an exception: no such thing: 17");
}

TEST(Errors, AnExceptionOfAnotherType) {
    const std::string error = error_of({1, 1}, [](thread_position) { throw 5; });
    EXPECT_THAT(error, HasSubstr("block 0, thread 0: the kernel threw an exception"));
}

TEST(Errors, OtherBlocksAreStoppedAndUnwound) {
    device_word<std::uint32_t> begun{0};
    device_word<std::uint32_t> unwound{0};
    struct leaver {
        device_word<std::uint32_t>& count;
        ~leaver() {
            (void)ballot(1u << lane_id(), true);  // alone: the lane leaves
            count.fetch_add<order::relaxed>(1);
        }
    };
    const auto result = run_emulated({1000, 32}, [&](thread_position at) {
        begun.fetch_add<order::relaxed>(1);
        const leaver l{unwound};
        if (at.block == 1) {
            throw std::runtime_error("stop");
        }
        for (;;) {
            pause(10);
        }
    });
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.error, HasSubstr("stop"));
    EXPECT_EQ(begun.load<order::relaxed>(), unwound.load<order::relaxed>());
    EXPECT_LE(begun.load<order::relaxed>(), 64u);
}

#if ORCHARD_CUDA_SOURCE
}  // namespace

struct store_one {
    std::uint32_t* to;
    ORCHARD_FN void operator()(thread_position) const { *to = 1; }
};

namespace {

/// A word of the GPU's memory; skips the test where there is no GPU.
class cuda_launches : public testing::Test {
protected:
    void SetUp() override {
        if (cudaMalloc(&word_, sizeof(*word_)) != cudaSuccess) {
            GTEST_SKIP() << "there is no GPU";
        }
        ASSERT_EQ(cudaMemset(word_, 0, sizeof(*word_)), cudaSuccess);
        on_.kind = device_kind::cuda;
    }
    void TearDown() override { cudaFree(word_); }
    std::uint32_t value() {
        std::uint32_t v = 0;
        EXPECT_EQ(cudaMemcpy(&v, word_, sizeof(v), cudaMemcpyDeviceToHost), cudaSuccess);
        return v;
    }

    executor on_;
    std::uint32_t* word_ = nullptr;
};

TEST_F(cuda_launches, report_no_older_error_of_the_program) {
    ASSERT_EQ(cudaSetDevice(1'000), cudaErrorInvalidDevice);  // the program has not asked for this error yet
    const auto result = launch(on_, {1, 1}, store_one{word_});
    EXPECT_TRUE(result.ok) << result.error;
    EXPECT_EQ(value(), 1u);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice) << "it is the program's to read";
}

TEST_F(cuda_launches, run_on_no_other_gpu) {
    on_.device = 1'000;
    const auto result = launch(on_, {1, 1}, store_one{word_});
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.error, HasSubstr("cudaErrorInvalidDevice"));
    EXPECT_THAT(preload<store_one>(on_).error, HasSubstr("cudaErrorInvalidDevice"));
    EXPECT_EQ(value(), 0u);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(cuda_launches, of_a_wrong_shape_are_errors) {
    const auto result = launch(on_, {1, 5'000}, store_one{word_});
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.error, HasSubstr("CUDA: cudaErrorInvalid"));
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_TRUE(launch(on_, {1, 1}, store_one{word_}).ok);
    EXPECT_EQ(value(), 1u);
}
#endif

}  // namespace
}  // namespace orchard::simt
