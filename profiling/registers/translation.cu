// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Loops that read one element of an array after the other, by an index from memory. `profiling/report/translation.py`
/// compiles this file and counts the instructions of each loop. Part of no program.
///
/// All loops are the same but for the way from an index to an address.

#include <cstdint>

#include "device/arrays/lane_array.cuh"

namespace orchard::registers {
namespace {

/// AlignMalloc's equations (1) and (2), as the paper has them.
struct equation_2 {
    std::uint64_t base, user;  ///< where the warp's memory begins, and where the lane's own addresses do
    std::uint32_t warp_size, lane;
    __device__ __forceinline__ float& operator[](std::uint32_t i) const {
        return *reinterpret_cast<float*>(translate(user + i * sizeof(float), base, warp_size, lane));
    }
};

struct equation_2_full_warp {
    std::uint64_t base, user;
    std::uint32_t lane;
    __device__ __forceinline__ float& operator[](std::uint32_t i) const {
        return *reinterpret_cast<float*>(translate(user + i * sizeof(float), base, warp_size, lane));
    }
    static constexpr std::uint32_t warp_size = simt::warp_size;
};

/// An array whose tile and width the compiler knows.
template <tile T>
struct full_warp {
    void* chunk;
    std::uint32_t lane;
    std::uint64_t size;
    __device__ __forceinline__ float& operator[](std::uint32_t i) const {
        return lane_array<float>(chunk, lane_map::rows(T, simt::warp_size), lane, size)[i];
    }
};

struct linear {
    float* first;
    std::uint64_t size;
    __device__ __forceinline__ float& operator[](std::uint32_t i) const {
        return lane_array<float>::linear(first, size)[i];
    }
};

template <class Array>
__device__ __forceinline__ void add_up(const Array& a, const std::uint32_t* indices, std::uint32_t count, float* sum) {
    float s = 0;
#pragma unroll 1
    for (std::uint32_t i = 0; i < count; ++i) {
        s += a[indices[i]];
    }
    *sum = s;
}

}  // namespace

#define ORCHARD_TRANSLATION(name, ...)                                                                                 \
    extern "C" __global__ void name(__VA_ARGS__ a, const std::uint32_t* indices, std::uint32_t count, float* sum) {    \
        add_up(a, indices, count, sum);                                                                                \
    }
ORCHARD_TRANSLATION(pointer, const float*)
ORCHARD_TRANSLATION(eq_2, equation_2)
ORCHARD_TRANSLATION(eq_2_full_warp, equation_2_full_warp)
ORCHARD_TRANSLATION(array_linear, linear)
ORCHARD_TRANSLATION(array_rows, lane_array<float>)
ORCHARD_TRANSLATION(array_full_warp_64K, full_warp<tile::k64>)
ORCHARD_TRANSLATION(array_full_warp_4K, full_warp<tile::k4>)
ORCHARD_TRANSLATION(array_full_warp_4B, full_warp<tile::b4>)
ORCHARD_TRANSLATION(lane_pointer, lane_ptr<float>)
#undef ORCHARD_TRANSLATION

}  // namespace orchard::registers
