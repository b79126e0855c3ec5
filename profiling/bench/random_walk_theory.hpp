// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The cost of the random walks in theory: equations (1) to (5) and theorems 1 and 2 of M. Pham et al., Dynamic Memory
/// Management in Massively Parallel Systems: A Case on GPUs, ICS 2022.
///
/// T pages, A of them free at first, N threads that each take one, w pages read in a step; N <= A <= T. TAS is the mean
/// number of steps of a thread, WAS the mean over warps of the greatest number of its 32 threads.
///
/// Misprints and gaps of the paper that change a number:
/// - (1) lacks the factor 1 / N^32 and a bracket: it is N - (N^33/33 - N^32/2 + 8 N^31/3 - 124 N^29/3 + ...) / N^32,
///   which is 32 N / 33 + 1/2 - 8 / (3 N) + ... It also assumes that positions in the queue are drawn with replacement.
/// - Section 4.1.1 calls (3) the case w = 1 of (2). In fact (2) is the case w = 1 of (4), and (3) is that of (5). Fig.
///   4 (a) plots (2), not "(4)".
/// - (2) as printed is its approximation by logarithms, which has no value for N = A; the sum before it has one.
/// - (3) and (5) have no value for N = A, because their bound on the last thread's probability is 0. With A - N + 1 in
///   place of A - N, which is also true, they would have one.
/// - (4) assumes that the free pages are spread evenly, whatever was taken before. A walk by words takes as many pages
///   from a word with one free page as from one with many. The remaining free pages are therefore closer together. When
///   many of the free pages are taken, the walk takes longer than (4), and (5) is no bound: `..._by_words`.
/// - Theorem 1 leaves out the term (w - 1) / (2 w) that theorem 2 has: U' = U / w + (w - 1) / (2 w) + a rest of the
///   order of w A / T. The ratio U' w / U goes to 1 only if U itself is unbounded.
///
/// U and V are TAS and the bound on WAS of the basic walk, U' and V' those of a walk by words of w pages.

#include <cstdint>

namespace orchard::bench::random_walk {

/// The parameters of one measurement.
struct setting {
    std::uint64_t pages = 0;    ///< T
    std::uint64_t free = 0;     ///< A
    std::uint64_t threads = 0;  ///< N
};

/// Threads of a warp.
inline constexpr int warp_lanes = 32;

/// Returns TAS of a queue: (N + 1) / 2. @param threads at least 1
double queue_mean_steps(std::uint64_t threads);

/// Returns WAS of a queue, equation (1), as the sum that Faulhaber's formula expresses: N - sum of (k / N)^32 over k <
/// N. Cost: O(N).
double queue_worst_steps(std::uint64_t threads);

/// Returns WAS of a queue with distinct positions, as in a real queue: 32 (N + 1) / 33. @param threads at least 32
double queue_worst_steps_exact(std::uint64_t threads);

/// Returns TAS of the basic walk, equation (2) before its approximation: T / N (H_A - H_(A - N)). Cost: O(N).
double mean_steps(const setting& s);

/// Returns equation (2) as printed: T / N ln(A / (A - N)). Infinite if N = A.
double mean_steps_by_logarithm(const setting& s);

/// Returns the greatest number of additional steps, over all threads, that are caused by two threads at one page
/// (section 3.2.2): N (N - 1) / (2 T) A / T.
double expected_collisions(const setting& s);

/// Returns the bound on WAS of the basic walk, equation (3). Infinite if N = A.
double worst_steps_bound(const setting& s);

/// Returns TAS of RW-BM, equation (4). @param width w. Cost: O(N).
double mean_steps(const setting& s, int width);

/// Returns the bound on WAS of RW-BM, equation (5). Infinite if N = A.
double worst_steps_bound(const setting& s, int width);

/// Returns TAS of RW-BM if free pages are spread at random at first, and a step takes one page of its word whatever the
/// word holds. Not in the paper. Method: each word is drawn a Poisson number of times; the number of its free pages is
/// binomial at first; exact for T -> infinity at a fixed N / A. Infinite if N = A. Cost: O(w) at each of some thousand
/// points of time.
double mean_steps_by_words(const setting& s, int width);

/// Returns a bound on WAS of RW-BM as (5), with the share of words that have a free page when the last thread draws, as
/// in `mean_steps_by_words`. Not in the paper, whose (5) is exceeded. Infinite if N = A.
double worst_steps_bound_by_words(const setting& s, int width);

/// Returns the ratio of theorem 1: U' w / U, which according to the paper goes to 1 as A -> N.
double theorem_1_ratio(const setting& s, int width);

/// Returns the ratio of theorem 1 with the missing term: U' / (U / w + (w - 1) / (2 w)).
double theorem_1_ratio_corrected(const setting& s, int width);

/// Returns the ratio of theorem 2: V' / (V / w + (w - 1) / (2 w)), which goes to 1 as A -> N. @param s with N < A
double theorem_2_ratio(const setting& s, int width);

}  // namespace orchard::bench::random_walk
