// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// k-means: a thread has some points; the means, and the sums for the next means, are distributed over all threads'
/// memory.

#include <cstdint>
#include <vector>

#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

constexpr std::uint64_t dimensions = 4;
constexpr std::uint64_t clusters = 8;
constexpr std::uint64_t points_of_scale = 16;        // of a thread
constexpr std::uint64_t sum_words = dimensions + 1;  // of a cluster: the sum of each coordinate, and the number of
                                                     // points
constexpr int rounds = 2;

/// Returns the cluster whose mean is nearest to a point, the first one of equals. `point(d)`, `mean(cluster, d)`:
/// coordinates.
template <class Point, class Mean>
ORCHARD_FN std::uint32_t nearest(const Point& point, const Mean& mean) {
    // The point is read once; the means are read for each point.
    std::int32_t coordinates[dimensions];
    for (std::uint64_t d = 0; d < dimensions; ++d) {
        coordinates[d] = point(d);
    }
    std::uint32_t best = 0;
    std::int32_t best_distance = 0;
    for (std::uint32_t c = 0; c < clusters; ++c) {
        std::int32_t distance = 0;
        for (std::uint64_t d = 0; d < dimensions; ++d) {
            const std::int32_t difference = coordinates[d] - mean(c, d);
            distance += difference * difference;
        }
        if (c == 0 || distance < best_distance) {
            best = c;
            best_distance = distance;
        }
    }
    return best;
}

/// First launch of a round: each thread finds the nearest mean of its points, and adds each point to that cluster's
/// sums. All threads add to the same few words.
struct assign {
    parts<number> points;     ///< [points][dimensions]
    parts<number> means;      ///< [clusters][dimensions]
    parts<counter> sums;      ///< [clusters][sum_words]; 0 before the launch
    parts<index> cluster_of;  ///< [points]: the result
    std::uint64_t threads;
    std::uint64_t each;  ///< points of a thread

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        for (std::uint64_t i = t * each; t < threads && i < (t + 1) * each; ++i) {
            const std::uint32_t cluster =
                nearest([&](std::uint64_t d) { return points[i * dimensions + d].get(); },
                        [&](std::uint32_t c, std::uint64_t d) { return means[c * dimensions + d].get(); });
            cluster_of[i].set(cluster);
            for (std::uint64_t d = 0; d < dimensions; ++d) {
                const auto coordinate = static_cast<std::uint32_t>(points[i * dimensions + d].get());
                add(cluster * sum_words + d, coordinate);
            }
            add(cluster * sum_words + dimensions, 1);
        }
    }
    /// Relaxed: the next launch reads the sums.
    ORCHARD_FN void add(std::uint64_t word, std::uint32_t n) const {
        sums[word].template fetch_add<simt::order::relaxed>(n);
    }
};

/// Second launch of a round: computes the means from the sums, and sets the sums to 0. A cluster without points keeps
/// its mean.
struct take_means {
    parts<number> means;  ///< [clusters][dimensions]
    parts<counter> sums;  ///< [clusters][sum_words]
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t c = at.global_thread(); c < clusters && at.global_thread() < threads; c += threads) {
            // Exchanged for 0. Relaxed, because the previous launch wrote the sums and the next one adds to them.
            const std::uint32_t count = sums[c * sum_words + dimensions].template exchange<simt::order::relaxed>(0);
            for (std::uint64_t d = 0; d < dimensions; ++d) {
                const std::uint32_t sum = sums[c * sum_words + d].template exchange<simt::order::relaxed>(0);
                if (count != 0) {
                    means[c * dimensions + d].set(static_cast<std::int32_t>(sum / count));
                }
            }
        }
    }
};

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
            s.launch(assign{points.view(), means.view(), sums.view(), cluster_of.view(), p.threads, each});
            s.launch(take_means{means.view(), sums.view(), p.threads});
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
