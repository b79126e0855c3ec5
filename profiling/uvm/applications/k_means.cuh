// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of `k-means`: a round assigns each point to the nearest mean, then computes the means anew.

#include <cstdint>

#include "profiling/uvm/applications/parts.cuh"

namespace orchard::applications::kernels::k_means {

inline constexpr std::uint64_t dimensions = 4;
inline constexpr std::uint64_t clusters = 8;
/// Words of a cluster: the sum of each coordinate, and the number of points.
inline constexpr std::uint64_t sum_words = dimensions + 1;

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

/// First launch of a round: each thread finds the nearest mean of its points `first` to `last` - 1, and adds each point
/// to that cluster's sums. All threads add to the same few words, which are of the type `Word`.
template <class Word>
struct assign {
    parts<number> points;                 ///< [points][dimensions]
    parts<number> means;                  ///< [clusters][dimensions]
    parts<simt::device_word<Word>> sums;  ///< [clusters][sum_words]; 0 before the round
    parts<index> cluster_of;              ///< [points]: the result
    std::uint64_t threads;
    std::uint64_t each;   ///< points of a thread
    std::uint64_t first;  ///< of each thread's points of this launch
    std::uint64_t last;   ///< behind them

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        for (std::uint64_t i = t * each + first; t < threads && i < t * each + last; ++i) {
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
    ORCHARD_FN void add(std::uint64_t word, Word n) const { sums[word].template fetch_add<simt::order::relaxed>(n); }
};

/// Last launch of a round: computes the means from the sums, and sets the sums to 0. A cluster without points keeps
/// its mean.
template <class Word>
struct take_means {
    parts<number> means;                  ///< [clusters][dimensions]
    parts<simt::device_word<Word>> sums;  ///< [clusters][sum_words]
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t c = at.global_thread(); c < clusters && at.global_thread() < threads; c += threads) {
            // Exchanged for 0. Relaxed, because the previous launch wrote the sums and the next one adds to them.
            const Word count = sums[c * sum_words + dimensions].template exchange<simt::order::relaxed>(0);
            for (std::uint64_t d = 0; d < dimensions; ++d) {
                const Word sum = sums[c * sum_words + d].template exchange<simt::order::relaxed>(0);
                if (count != 0) {
                    means[c * dimensions + d].set(static_cast<std::int32_t>(sum / count));
                }
            }
        }
    }
};

}  // namespace orchard::applications::kernels::k_means
