// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A small network similar to AlexNet: a convolution and a pooling, whose work is distributed over the threads, and a
/// fully connected layer, in which each thread holds the weights of its outputs.
///
///     image 3 x 18 x 18 -> convolve: 8 x 16 x 16 -> pool: 8 x 8 x 8 = 512 features -> connect: scale outputs a thread
///
/// Nearly all memory is weights of the last layer, 512 for each output, which are read once by their own thread.

#include <cstdint>
#include <vector>

#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

constexpr std::uint64_t in_channels = 3;
constexpr std::uint64_t in_side = 18;
constexpr std::uint64_t window = 3;  // side of the convolution's
constexpr std::uint64_t channels = 8;
constexpr std::uint64_t side = in_side - window + 1;  // 16
constexpr std::uint64_t taps = in_channels * window * window;
constexpr std::uint64_t pooled_side = side / 2;
constexpr std::uint64_t image_size = in_channels * in_side * in_side;
constexpr std::uint64_t convolved = channels * side * side;
constexpr std::uint64_t features = channels * pooled_side * pooled_side;  // 512

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

/// Each thread computes its `each` outputs from all features.
struct connect {
    reader from;       ///< [features]
    reader weights;    ///< [outputs][features]
    parts<number> to;  ///< [outputs]
    std::uint64_t threads;
    std::uint64_t each;  ///< outputs of a thread

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        for (std::uint64_t o = t * each; t < threads && o < (t + 1) * each; ++o) {
            to[o].set(connect_at(o, from, weights));
        }
    }
};

/// Returns the expected outputs of the network.
template <class Image, class Weights, class Connections>
std::vector<std::int64_t> expected(const Image& image, const Weights& weights, const Connections& connections,
                                   std::uint64_t outputs) {
    // Layer by layer, with the functions that the kernels call.
    std::vector<std::int32_t> first(convolved);
    for (std::uint64_t o = 0; o < convolved; ++o) {
        first[o] = convolve_at(o, image, weights);
    }
    std::vector<std::int32_t> second(features);
    for (std::uint64_t o = 0; o < features; ++o) {
        second[o] = pool_at(o, [&](std::uint64_t i) { return first[i]; });
    }
    std::vector<std::int64_t> right(outputs);
    for (std::uint64_t o = 0; o < outputs; ++o) {
        right[o] = connect_at(
            o, [&](std::uint64_t i) { return second[i]; }, connections);
    }
    return right;
}

}  // namespace

/// Runs the three layers once, and compares the outputs with the same functions on the host.
absl::StatusOr<uvm_model::trace> alex_net(const parameters& p) {
    const std::uint64_t outputs = p.threads * p.scale;
    const auto random = [&](std::uint64_t stream) {
        // Small numbers: sums of 512 products fit 32 bits.
        return [&p, stream](std::uint64_t i) { return static_cast<std::int32_t>(signed_value(p, stream, i)); };
    };
    const std::uint64_t bytes = 4 * (image_size + channels * taps + convolved + features + outputs * (features + 1));
    return run_session(p, bytes, [&](session& s) {
        const auto zero = [](std::uint64_t) { return 0; };
        const auto image = s.array<number>(image_size, 1, random(1));
        const auto weights = s.array<number>(channels * taps, 1, random(2));
        // All weights of a thread's outputs are in its own part.
        const auto connections = s.array<number>(outputs * features, features * p.scale, random(3));
        const auto first = s.array<number>(convolved, 1, zero);
        const auto second = s.array<number>(features, 1, zero);
        const auto result = s.array<number>(outputs, p.scale, zero);
        s.launch(convolve{{image.view()}, {weights.view()}, first.view(), p.threads});
        s.launch(pool{{first.view()}, second.view(), p.threads});
        s.launch(connect{{second.view()}, {connections.view()}, result.view(), p.threads, p.scale});
        s.expect("alexnet", s.contents(result, outputs), expected(random(1), random(2), random(3), outputs));
    });
}

}  // namespace orchard::applications
