// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The equations as sums, arranged so that no digits are lost: T goes up to 2^20, and terms differ by many orders of
/// magnitude. log1p and expm1 stand where 1 - x with a small x, or its logarithm, would cancel.

#include "profiling/bench/random_walk_theory.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace orchard::bench::random_walk {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// A sum that does not lose small addends, because it adds up what each addition rounds off. Method: Neumaier's variant
/// of Kahan's summation.
class careful_sum {
public:
    void add(double x) {
        const double next = sum_ + x;
        rest_ += std::abs(sum_) >= std::abs(x) ? (sum_ - next) + x : (x - next) + sum_;
        sum_ = next;
    }
    [[nodiscard]] double value() const { return sum_ + rest_; }

private:
    double sum_ = 0;   ///< rounded after each addition
    double rest_ = 0;  ///< the sum of what was rounded off
};

double as_double(std::uint64_t n) { return static_cast<double>(n); }

/// Returns the expected greatest of 32 geometric numbers of steps whose failures have probability exp(-rate): the sum
/// over k >= 0 of 1 - (1 - exp(-rate k))^32, the probability that the slowest lane takes more than k steps. Infinite if
/// the rate is 0.
double expected_worst(double rate) {
    if (rate <= 0) {
        return infinite;
    }
    // By Euler and Maclaurin: the integral, H_32 / rate, plus half the first term. The derivatives of the term at 0
    // vanish up to the 31st, so that the rest is below 1e-13 already here.
    constexpr double small = 1.0 / 64;
    if (rate < small) {
        double harmonic = 0;
        for (int i = warp_lanes; i >= 1; --i) {
            harmonic += 1.0 / i;
        }
        return harmonic / rate + 0.5;
    }
    careful_sum sum;
    for (std::uint64_t k = 0;; ++k) {
        // 1 - (1 - q)^32 without cancellation where q = exp(-rate k) is small.
        const double q = std::exp(-rate * as_double(k));
        const double term = k == 0 ? 1 : -std::expm1(warp_lanes * std::log1p(-q));
        sum.add(term);
        if (term < 1e-18) {
            return sum.value();
        }
    }
}

/// Returns -ln of the bound on the probability that a step finds no page: w pages, each in use with (T - A + N) / T.
double bound_rate(const setting& s, int width) {
    return -width * std::log1p(-as_double(s.free - s.threads) / as_double(s.pages));
}

/// The words of a bitmap, by their number of free pages. At first that number is binomial: each page is free with the
/// same probability. Then words are drawn at random, each a Poisson number of times, and each draw takes one free page
/// of its word if there is one.
class depleted_words {
public:
    /// @param free_share  A / T, more than 0
    /// @param width       pages of a word
    depleted_words(double free_share, int width) : first_(static_cast<std::size_t>(width) + 1) {
        for (int k = 0; k <= width; ++k) {
            // By logarithms, since the coefficient may be large and the powers small. For k = width the last factor is
            // 1; its logarithm is not computed, because log1p(-1) times 0 is no number if all pages are free.
            const double ways = std::lgamma(width + 1) - std::lgamma(k + 1) - std::lgamma(width - k + 1);
            const double taken = k == width ? 0 : (width - k) * std::log1p(-free_share);
            first_[static_cast<std::size_t>(k)] = std::exp(ways + k * std::log(free_share) + taken);
        }
    }
    /// Returns the share of the words that still have a free page after so many draws for each word.
    [[nodiscard]] double not_full(double draws) const {
        // P(K > M) for Poisson M: a word has free pages if it had more than the number of its draws.
        double share = 0;
        double probability = std::exp(-draws);  // of M = m
        double cumulated = 0;                   // of M < k
        for (std::size_t k = 1; k < first_.size(); ++k) {
            cumulated += probability;
            probability *= draws / static_cast<double>(k);
            share += first_[k] * cumulated;
        }
        return share;
    }

private:
    std::vector<double> first_;  ///< [k]: share of the words that have k free pages at first
};

/// The result of a simulated walk.
struct walked {
    double mean_steps;
    double found_last;  ///< share of words with a free page, at the end
};

/// Simulates a walk by words, in the limit of many pages; N < A. It goes through the walk in small steps: while p pages
/// for each word are taken, p / (share of words with a free page) words are drawn. The sum of the draws is the steps of
/// all threads.
walked walk_by_words(const setting& s, int width) {
    const depleted_words words(as_double(s.free) / as_double(s.pages), width);
    const double words_of_space = as_double(s.pages) / width;
    const double wanted = as_double(s.threads) / words_of_space;  // pages for each word
    const double free = as_double(s.free) / words_of_space;
    careful_sum draws;
    careful_sum taken;
    // The loop ends when all but a rounding error is taken.
    for (double left = wanted; left > wanted * 1e-12; left = wanted - taken.value()) {
        // So few pages at once that the share of words with free pages hardly changes. By the midpoint rule.
        const double pages = std::min({wanted / 1000, (free - taken.value()) / 100, left});
        const double half = pages / 2 / words.not_full(draws.value());
        draws.add(pages / words.not_full(draws.value() + half));
        taken.add(pages);
    }
    return {draws.value() / wanted, words.not_full(draws.value())};
}

}  // namespace

double queue_mean_steps(std::uint64_t threads) { return (as_double(threads) + 1) / 2; }

double queue_worst_steps(std::uint64_t threads) {
    careful_sum below;
    // The mean of the greatest of 32 positions is the sum over k < N of the probability that it exceeds k: 1 - (k /
    // N)^32.
    for (std::uint64_t k = 1; k < threads; ++k) {
        below.add(std::pow(as_double(k) / as_double(threads), warp_lanes));
    }
    return as_double(threads) - below.value();
}

double queue_worst_steps_exact(std::uint64_t threads) {
    return (as_double(threads) + 1) * warp_lanes / (warp_lanes + 1);
}

double mean_steps(const setting& s) {
    careful_sum harmonic;
    for (std::uint64_t free = s.free; free > s.free - s.threads; --free) {
        harmonic.add(1 / as_double(free));
    }
    return as_double(s.pages) / as_double(s.threads) * harmonic.value();
}

double mean_steps_by_logarithm(const setting& s) {
    const double t_over_n = as_double(s.pages) / as_double(s.threads);
    return s.threads == s.free ? infinite : -t_over_n * std::log1p(-as_double(s.threads) / as_double(s.free));
}

double expected_collisions(const setting& s) {
    const double n = as_double(s.threads);
    const double t = as_double(s.pages);
    return n * (n - 1) / (2 * t) * as_double(s.free) / t;
}

double worst_steps_bound(const setting& s) { return expected_worst(bound_rate(s, 1)); }

double mean_steps(const setting& s, int width) {
    careful_sum sum;
    for (std::uint64_t free = s.free; free > s.free - s.threads; --free) {
        // 1 - (1 - x)^w without cancellation, x = free / T.
        const double found =
            free == s.pages ? 1 : -std::expm1(width * std::log1p(-as_double(free) / as_double(s.pages)));
        sum.add(1 / found);
    }
    return sum.value() / as_double(s.threads);
}

double worst_steps_bound(const setting& s, int width) { return expected_worst(bound_rate(s, width)); }

double mean_steps_by_words(const setting& s, int width) {
    return s.threads == s.free ? infinite : walk_by_words(s, width).mean_steps;
}

double worst_steps_bound_by_words(const setting& s, int width) {
    return s.threads == s.free ? infinite : expected_worst(-std::log1p(-walk_by_words(s, width).found_last));
}

double theorem_1_ratio(const setting& s, int width) { return mean_steps(s, width) * width / mean_steps(s); }

double theorem_1_ratio_corrected(const setting& s, int width) {
    return mean_steps(s, width) / (mean_steps(s) / width + (width - 1) / (2.0 * width));
}

double theorem_2_ratio(const setting& s, int width) {
    return worst_steps_bound(s, width) / (worst_steps_bound(s) / width + (width - 1) / (2.0 * width));
}

}  // namespace orchard::bench::random_walk
