// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The example of docs/layouts.md.

#include <gtest/gtest.h>

#include <checkout.hpp>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "device/arrays/lane_array.cuh"
#include "device/simt/lane.cuh"
#include "device/simt/launch.cuh"

namespace orchard {

// [example]
/// Each lane fills an array of its own; then lane 0 of each warp adds up those of all its lanes.
struct sum_of_warp {
    std::uint8_t* memory;  ///< a chunk for each warp, aligned to its size's `alignment`
    float* sums;           ///< one a warp

    static constexpr std::uint32_t elements = 100;
    static constexpr lane_map map = lane_map::rows(tile::b4, 32);

    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint8_t* const chunk = memory + at.global_warp() * map.size(elements * sizeof(float)).bytes;
        const lane_array<float> mine(chunk, map, static_cast<std::uint32_t>(simt::lane_id()), elements);
        for (float& x : mine) {
            x = 1;
        }
        const lane_ptr<const float> p = mine.data();       // eight bytes, which any lane may follow
        const simt::lane_mask warp = ~simt::lane_mask{0};  // all 32 lanes come here
        simt::sync(warp);
        float sum = 0;
        for (int lane = 0; lane < 32; ++lane) {
            const auto theirs = lane_ptr<const float>::from_bits(simt::shuffle(warp, p.bits(), lane));
            for (std::uint32_t i = 0; i < elements; ++i) {
                sum += theirs[i];
            }
        }
        if (simt::lane_id() == 0) {
            sums[at.global_warp()] = sum;
        }
    }
};
// [end of example]

namespace {

TEST(LayoutExample, AddsUpWhatAllLanesWrote) {
    constexpr chunk_size size = sum_of_warp::map.size(sum_of_warp::elements * sizeof(float));
    const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(size.alignment, 3 * size.bytes),
                                                             &std::free);
    float sums[3] = {};
    const simt::launch_result result = simt::launch({simt::device_kind::emulated, 2}, {1, 96},
                                                    sum_of_warp{static_cast<std::uint8_t*>(memory.get()), sums});
    ASSERT_TRUE(result.ok) << result.error;
    for (const float sum : sums) {
        EXPECT_EQ(sum, 3200);
    }
}

std::string text_of_file(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

TEST(LayoutExample, IsWhatTheDocumentationShows) {
    const std::string source = text_of_file(ORCHARD_SOURCE_DIR "/tests/layout/example_test.cu");
    const std::string begin_mark = "// [example]\n";
    const std::size_t begin = source.find(begin_mark) + begin_mark.size();
    const std::string example = source.substr(begin, source.find("// [end of example]") - begin);
    ASSERT_GT(example.size(), 500u);
    EXPECT_NE(text_of_file(ORCHARD_SOURCE_DIR "/docs/layouts.md").find(example), std::string::npos);
}

}  // namespace
}  // namespace orchard
