// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A small network similar to AlexNet on real memory, nearly all of which is weights of the last layer. A pass computes
/// the first two layers, and the first outputs of each thread.
///
/// Check: outputs, from the seed by all three layers.

#include "profiling/uvm/applications/alex_net.cuh"

#include "profiling/apps/app_run.cuh"

namespace orchard::apps {
namespace of_alex_net {
namespace {

using namespace applications::kernels::alex_net;

/// Computes the features from the seed, into plain memory: what `is_connected` compares with.
struct expected_features {
    std::int32_t* to;  ///< [features]
    small_signed image;
    small_signed weights;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t o = at.global_thread();
        if (o >= features) {
            return;
        }
        const small_signed of_image = image;
        const small_signed of_weights = weights;
        const auto first = [of_image, of_weights](std::uint64_t i) { return convolve_at(i, of_image, of_weights); };
        to[o] = pool_at(o, first);
    }
};

struct is_connected {
    parts<number> result;
    const std::int32_t* feature;  ///< [features], expected
    small_signed weights;
    std::uint64_t each;  ///< outputs of a thread
    std::uint64_t last;  ///< those that were computed

    ORCHARD_FN bool operator()(std::uint64_t i) const {
        const std::uint64_t o = i / last * each + i % last;
        const std::int32_t* const all = feature;
        const auto of_feature = [all](std::uint64_t f) { return all[f]; };
        return result[o].get() == connect_at(o, of_feature, weights);
    }
};

}  // namespace
}  // namespace of_alex_net

void run_alex_net(app_run& s) {
    using namespace of_alex_net;
    const std::uint64_t threads = s.threads();
    const std::uint64_t each = s.at_least_one(s.what().bytes / (4 * (features + 1) * threads), "outputs");
    const small_signed of_image{s.seed(), 1};
    const small_signed of_weights{s.seed(), 2};
    const small_signed of_connections{s.seed(), 3};
    // Of all words, those that all threads read come first.
    const auto image = s.array<number>(image_size, 1, of_image);
    const auto weights = s.array<number>(channels * taps, 1, of_weights);
    const auto first = s.array<number>(convolved, 1, constant{});
    const auto second = s.array<number>(features, 1, constant{});
    const auto result = s.array<number>(threads * each, each, constant{});
    const auto connections = s.array<number>(threads * each * features, features * each, of_connections);
    const double accesses = 2 * features + 1;
    const std::uint64_t last = s.passes(
        {each, accesses, 4 * accesses}, [] {},
        [&](item_range r) {
            if (r.first == 0) {
                s.timed(convolve{{image}, {weights}, first, threads});
                s.timed(pool{{first}, second, threads});
            }
            s.timed(connect{{second}, {connections}, result, threads, each, r.first, r.last});
        },
        [] {});
    std::int32_t* const expected = s.beside<std::int32_t>(features);
    s.launch(expected_features{expected, of_image, of_weights}, features);
    s.check(result, threads * last, is_connected{result, expected, of_connections, each, last});
}

}  // namespace orchard::apps
