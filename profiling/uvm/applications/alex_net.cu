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

#include "profiling/uvm/applications/alex_net.cuh"
#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

using namespace kernels::alex_net;

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
        s.launch(connect{{second.view()}, {connections.view()}, result.view(), p.threads, p.scale, 0, p.scale});
        s.expect("alexnet", s.contents(result, outputs), expected(random(1), random(2), random(3), outputs));
    });
}

}  // namespace orchard::applications
