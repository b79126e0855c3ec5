// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// k-means: a thread has some points; the means, and the sums for the next means, are distributed over all threads'
/// memory.

#include <cstdint>
#include <vector>

#include "profiling/uvm/applications/k_means.cuh"
#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

using namespace kernels::k_means;

constexpr std::uint64_t points_of_scale = 16;  // of a thread
constexpr int rounds = 2;

/// The expected results of the kernels: the means, and the cluster of each point in the last round.
struct expected {
    std::vector<std::int64_t> means;
    std::vector<std::int64_t> cluster_of;

    explicit expected(const std::vector<std::int64_t>& points)
        : means(points.begin(), points.begin() + clusters * dimensions), cluster_of(points.size() / dimensions) {
        // The same rounds on the host; additions are in another order there, which changes nothing for whole numbers.
        for (int round = 0; round < rounds; ++round) {
            std::vector<std::uint32_t> sums(clusters * sum_words);
            for (std::uint64_t i = 0; i < cluster_of.size(); ++i) {
                const std::uint32_t cluster =
                    nearest([&](std::uint64_t d) { return static_cast<std::int32_t>(points[i * dimensions + d]); },
                            [&](std::uint32_t c, std::uint64_t d) {
                                return static_cast<std::int32_t>(means[c * dimensions + d]);
                            });
                cluster_of[i] = cluster;
                for (std::uint64_t d = 0; d < dimensions; ++d) {
                    sums[cluster * sum_words + d] += static_cast<std::uint32_t>(points[i * dimensions + d]);
                }
                ++sums[cluster * sum_words + dimensions];
            }
            for (std::uint64_t word = 0; word < clusters * dimensions; ++word) {
                const std::uint64_t c = word / dimensions;
                const std::uint32_t count = sums[c * sum_words + dimensions];
                means[word] = count != 0 ? sums[c * sum_words + word % dimensions] / count : means[word];
            }
        }
    }
};

}  // namespace

/// Runs the rounds, and compares means and clusters. Whole numbers make the result independent of the order of
/// additions.
absl::StatusOr<uvm_model::trace> k_means(const parameters& p) {
    const std::uint64_t each = points_of_scale * p.scale;
    const std::uint64_t words = p.threads * each * dimensions;
    const auto initial = [&](std::uint64_t i) { return value(p, 1, i, 256); };
    return run_session(p, 4 * words + 4 * p.threads * each, [&](session& s) {
        const auto points = s.array<number>(words, each * dimensions, initial);
        const auto cluster_of = s.array<index>(p.threads * each, each, [](std::uint64_t) { return 0; });
        // The first points are the initial means.
        const auto means = s.array<number>(clusters * dimensions, dimensions, initial);
        const auto sums = s.array<counter>(clusters * sum_words, sum_words, [](std::uint64_t) { return 0; });
        for (int round = 0; round < rounds; ++round) {
            s.launch(assign<std::uint32_t>{points.view(), means.view(), sums.view(), cluster_of.view(), p.threads, each,
                                           0, each});
            s.launch(take_means<std::uint32_t>{means.view(), sums.view(), p.threads});
        }
        std::vector<std::int64_t> all(words);
        for (std::uint64_t i = 0; i < words; ++i) {
            all[i] = initial(i);
        }
        const expected right(all);
        s.expect("k-means, the means", s.contents(means, clusters * dimensions), right.means);
        s.expect("k-means, the clusters", s.contents(cluster_of, p.threads * each), right.cluster_of);
    });
}

}  // namespace orchard::applications
