// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of `alexnet`: convolution, pooling, and a fully connected layer.

#include <cstdint>

#include "profiling/uvm/applications/parts.cuh"

namespace orchard::applications::kernels::alex_net {

inline constexpr std::uint64_t in_channels = 3;
inline constexpr std::uint64_t in_side = 18;
inline constexpr std::uint64_t window = 3;  // side of the convolution's
inline constexpr std::uint64_t channels = 8;
inline constexpr std::uint64_t side = in_side - window + 1;  // 16
inline constexpr std::uint64_t taps = in_channels * window * window;
inline constexpr std::uint64_t pooled_side = side / 2;
inline constexpr std::uint64_t image_size = in_channels * in_side * in_side;
inline constexpr std::uint64_t convolved = channels * side * side;
inline constexpr std::uint64_t features = channels * pooled_side * pooled_side;  // 512

// The computation of a layer, for any accessors: the kernels and the host share it.

/// Returns output `o` of the convolution: an eighth of the sum, so that sums stay small; not below 0.
template <class Image, class Weight>
ORCHARD_FN std::int32_t convolve_at(std::uint64_t o, const Image& image, const Weight& weight) {
    const std::uint64_t channel = o / (side * side);
    const std::uint64_t row = o / side % side;
    const std::uint64_t column = o % side;
    // An output reads three channels of a window of 3 x 3: 27 products.
    std::int32_t sum = 0;
    for (std::uint64_t tap = 0; tap < taps; ++tap) {
        const std::uint64_t in = tap / (window * window);
        const std::uint64_t r = row + tap / window % window;
        const std::uint64_t c = column + tap % window;
        sum += image((in * in_side + r) * in_side + c) * weight(channel * taps + tap);
    }
    return sum < 0 ? 0 : sum / 8;
}

/// Returns feature `o`: the greatest of four outputs of the convolution.
template <class Convolved>
ORCHARD_FN std::int32_t pool_at(std::uint64_t o, const Convolved& from) {
    const std::uint64_t channel = o / (pooled_side * pooled_side);
    const std::uint64_t row = o / pooled_side % pooled_side * 2;
    // Windows of 2 x 2 that do not overlap.
    const std::uint64_t column = o % pooled_side * 2;
    std::int32_t most = 0;
    for (std::uint64_t i = 0; i < 4; ++i) {
        const std::int32_t here = from((channel * side + row + i / 2) * side + column + i % 2);
        most = here > most ? here : most;
    }
    return most;
}

/// Returns output `o` of the fully connected layer.
template <class Feature, class Weight>
ORCHARD_FN std::int32_t connect_at(std::uint64_t o, const Feature& feature, const Weight& weight) {
    std::int32_t sum = 0;
    for (std::uint64_t f = 0; f < features; ++f) {
        sum += feature(f) * weight(o * features + f);
    }
    return sum;
}

/// An array as an accessor.
struct reader {
    parts<number> of;
    ORCHARD_FN std::int32_t operator()(std::uint64_t i) const { return of[i].get(); }
};

/// The layers as kernels, a launch for each. Outputs of the first two are dealt out, one by one, to all threads.
struct convolve {
    reader image;      ///< [in_channels][in_side][in_side]
    reader weights;    ///< [channels][taps]
    parts<number> to;  ///< [channels][side][side]
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t o = at.global_thread(); o < convolved && at.global_thread() < threads; o += threads) {
            to[o].set(convolve_at(o, image, weights));
        }
    }
};

struct pool {
    reader from;       ///< the result of `convolve`
    parts<number> to;  ///< [features]
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t o = at.global_thread(); o < features && at.global_thread() < threads; o += threads) {
            to[o].set(pool_at(o, from));
        }
    }
};

/// Each thread computes outputs `first` to `last` - 1 of its `each` ones, from all features.
struct connect {
    reader from;       ///< [features]
    reader weights;    ///< [outputs][features]
    parts<number> to;  ///< [outputs]
    std::uint64_t threads;
    std::uint64_t each;   ///< outputs of a thread
    std::uint64_t first;  ///< of each thread's outputs of this launch
    std::uint64_t last;   ///< behind them

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        for (std::uint64_t o = t * each + first; t < threads && o < t * each + last; ++o) {
            to[o].set(connect_at(o, from, weights));
        }
    }
};

}  // namespace orchard::applications::kernels::alex_net
