// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A round of k-means on real memory: points in four dimensions in equal parts. A pass begins with the same means,
/// assigns the first points of each thread, and computes the next means.
///
/// Checks: the cluster of points, from the seed; and that the clusters had as many points as were assigned.

#include "profiling/uvm/applications/k_means.cuh"

#include "profiling/apps/app_run.cuh"

namespace orchard::apps {
namespace of_k_means {
namespace {

using namespace applications::kernels::k_means;

struct is_nearest {
    parts<index> cluster_of;
    below initial;
    std::uint64_t each;  ///< points of a thread
    std::uint64_t last;  ///< those that were assigned

    ORCHARD_FN bool operator()(std::uint64_t result) const {
        const std::uint64_t point = result / last * each + result % last;
        const below of = initial;
        const auto coordinate = [of, point](std::uint64_t d) { return of(point * dimensions + d); };
        const auto mean = [of](std::uint32_t c, std::uint64_t d) { return of(c * dimensions + d); };
        return cluster_of[point].get() == nearest(coordinate, mean);
    }
};

/// Adds the numbers of points of all clusters to the total.
struct add_counts {
    parts<word64> sums;
    tally* counts;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t c = at.global_thread();
        if (c < clusters) {
            const std::uint64_t n = sums[c * sum_words + dimensions].template load<simt::order::relaxed>();
            counts->total.template fetch_add<simt::order::relaxed>(n);
        }
    }
};

}  // namespace
}  // namespace of_k_means

void run_k_means(app_run& s) {
    using namespace of_k_means;
    const std::uint64_t threads = s.threads();
    const std::uint64_t each = s.at_least_one(s.what().bytes / (4 * (dimensions + 1) * threads), "points");
    const below initial{s.seed(), 1, 256};
    // Of all words, those that all threads share come first.
    const auto sums = s.array<word64>(clusters * sum_words, sum_words, constant{});
    const auto means = s.array<number>(clusters * dimensions, dimensions, initial);
    const auto cluster_of = s.array<index>(threads * each, each, constant{});
    const auto points = s.array<number>(threads * each * dimensions, each * dimensions, initial);
    // The point, all means, the cluster; then the point again, and the cluster's sums.
    const double words = dimensions + clusters * dimensions + 1 + dimensions;
    const double accesses = words + sum_words;
    const std::uint64_t last = s.passes(
        {each, accesses, 4 * words + 8.0 * sum_words},
        [&] {
            s.fill(means, clusters * dimensions, initial);
            s.reset_total();
        },
        [&](item_range r) {
            s.timed(assign<std::uint64_t>{points, means, sums, cluster_of, threads, each, r.first, r.last});
        },
        [&] {
            s.launch(add_counts{sums, s.counts()}, clusters);
            s.timed(take_means<std::uint64_t>{means, sums, threads});
        });
    s.check_number(s.total(), threads * last);
    s.check(cluster_of, threads * last, is_nearest{cluster_of, initial, each, last});
}

}  // namespace orchard::apps
