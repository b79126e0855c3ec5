// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Measures the steps of the published walks: runs each walk on a pool with random free pages, counts steps on the
/// device, and puts the means beside the predictions.

#include "profiling/bench/pages_theory.hpp"

#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/str_format.h"
#include "device/published/get_page.cuh"
#include "device/published/page_pool.cuh"
#include "profiling/bench/random_walk_theory.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/launch_status.hpp"

namespace orchard::bench {
namespace {

// Two namespaces of this name: the walks that run on the device, and their theory.
namespace walk = device::random_walk;
namespace theory = bench::random_walk;
using device::page_policy;
using nlohmann::ordered_json;

/// Each thread takes a page, and records the page and the number of steps. All threads of a launch take their pages at
/// the same time, as in the paper.
template <page_policy P, class Word>
struct take_kernel {
    walk::page_pool<Word> pool;
    std::uint64_t* taken;  ///< [threads]: the page; more than any page's number if there was none
    std::uint32_t* steps;  ///< [threads]
    std::uint64_t threads;
    std::uint64_t seed;  ///< other random numbers in each run

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t >= threads) {
            return;
        }
        // Seeded by run and thread: unrelated numbers for all.
        walk::walker<walk::counted> w;
        w.random = walk::random_bits(seed << 32 | t);
        w.max_steps = 1u << 30;  // so that no sweep ends the walk
        taken[t] = static_cast<std::uint64_t>(walk::get_page<P>(pool, simt::converge(), w));
        steps[t] = w.count.steps;
    }
};

/// The measured means: of all threads' steps, and of each warp's greatest (random_walk_theory.hpp).
struct measured {
    double tas = 0;
    double was = 0;
};

/// The bitmap of T pages, and the results of the threads on it. The pages themselves have no memory, because no thread
/// uses them.
class walk_bench {
public:
    walk_bench(const simt::executor& on, std::uint32_t pages) : on_{on}, pages_{pages} {}

    /// Creates the arrays. Errors: those of `device_array`.
    absl::Status prepare() {
        // Smaller words have more locks: memory for 32-bit words suffices for both widths.
        auto metadata =
            device_array<std::uint64_t>::create(on_, walk::page_pool<std::uint32_t>::metadata_bytes(pages_) / 8);
        auto taken = device_array<std::uint64_t>::create(on_, pages_);
        auto steps = device_array<std::uint32_t>::create(on_, pages_);
        for (const absl::Status& s : {metadata.status(), taken.status(), steps.status()}) {
            if (!s.ok()) {
                return s;
            }
        }
        metadata_ = *std::move(metadata);
        taken_ = *std::move(taken);
        steps_ = *std::move(steps);
        return absl::OkStatus();
    }

    /// Returns means over as many runs as about `least` threads require; each run has other free pages. Errors: the
    /// device's own; Internal if a page was not free, or was given twice.
    template <page_policy P, class Word>
    absl::StatusOr<measured> measure(const theory::setting& s, std::uint64_t least) {
        // Few threads a run need many runs; the sum of all threads is at least `least`.
        const std::uint64_t runs = least / s.threads + 1;
        double steps = 0;
        double worst = 0;
        for (std::uint64_t run = 1; run <= runs; ++run) {
            absl::Status status = leave_free(s.free, run);
            if (status.ok()) {
                // The pool's base is null: addresses are not asked for.
                const walk::page_pool<Word> pool(nullptr, 1, pages_, metadata_.data());
                const auto result =
                    simt::launch(on_, simt::grid_for(s.threads, 256),
                                 take_kernel<P, Word>{pool, taken_.data(), steps_.data(), s.threads, run});
                status.Update(result.ok ? check(s) : to_status(result));
            }
            // Only the steps of this row's threads.
            std::vector<std::uint32_t> counts(s.threads);
            status.Update(steps_.download(counts));
            if (!status.ok()) {
                return status;
            }
            // N is a multiple of 32 (`threads_for`), so that each warp is full.
            for (std::size_t warp = 0; warp < counts.size(); warp += theory::warp_lanes) {
                const auto first = counts.begin() + static_cast<std::ptrdiff_t>(warp);
                worst += *std::max_element(first, first + theory::warp_lanes);
            }
            for (const std::uint32_t n : counts) {
                steps += n;
            }
        }
        // `worst` is a sum over warps, `threads` / 32 of them.
        const double threads = static_cast<double>(s.threads) * static_cast<double>(runs);
        return measured{steps / threads, worst * theory::warp_lanes / threads};
    }

private:
    /// Takes all pages but `free` ones chosen at random. Words of 64 bits are words of 32 bits in the same order, so
    /// that one image serves both widths. The other metadata, end words and locks, is cleared.
    absl::Status leave_free(std::uint64_t free, std::uint64_t seed) {
        std::mt19937_64 random(seed);
        free_.assign(pages_, false);
        std::vector<std::uint64_t> words(metadata_.size(), 0);
        // Pages that are not free are set bits; the bitmap comes first in the metadata.
        std::uint64_t left = free;
        for (std::uint64_t page = 0; page < pages_; ++page) {
            // Selection sampling: each page is chosen with probability (pages left to choose) / (pages left to look
            // at), so that exactly `free` pages are chosen, each set of them equally likely.
            if ((random() >> 32) * (pages_ - page) >> 32 < left) {
                --left;
                free_[page] = true;
            } else {
                words[page / 64] |= std::uint64_t{1} << (page % 64);
            }
        }
        return metadata_.upload(words);
    }
    /// Checks that every thread has one page of those that were free, and that no two threads have the same. A page
    /// that is found is crossed off, so that a second owner fails.
    absl::Status check(const theory::setting& s) {
        std::vector<std::uint64_t> taken(s.threads);
        absl::Status status = taken_.download(taken);
        for (std::size_t t = 0; status.ok() && t < taken.size(); ++t) {
            // A page beyond the pool is what a thread without a page has stored.
            if (taken[t] >= pages_ || !free_[taken[t]]) {
                status.Update(absl::InternalError(
                    absl::StrFormat("thread %d of %d got page %d, which was not free", t, s.threads, taken[t])));
            } else {
                free_[taken[t]] = false;
            }
        }
        return status;
    }

    simt::executor on_;
    std::uint32_t pages_;                   ///< T
    device_array<std::uint64_t> metadata_;  ///< of the pool: used words, end words, locks
    device_array<std::uint64_t> taken_;
    device_array<std::uint32_t> steps_;
    std::vector<bool> free_;  ///< [page]: free at first, and not yet seen in `check`
};

/// Returns a row with its axes alone.
ordered_json row_of(const char* what, std::string_view policy, double share, const theory::setting& s) {
    return {{"what", what},   {"policy", std::string(policy)}, {"free_share", share}, {"pages", s.pages},
            {"free", s.free}, {"threads", s.threads}};
}

/// Adds the predictions of the equations for a walk by `width` pages a step; 1: the basic walk. `holds`: TAS is within
/// 5 % of the equation and WAS within the bound. A walk by words that misses them gets a note with the reason, and the
/// predictions by words beside it.
void compare(ordered_json& row, const theory::setting& s, int width, const measured& m) {
    // The basic walk has equations of its own; they are those of width 1.
    const double predicted = width == 1 ? theory::mean_steps(s) : theory::mean_steps(s, width);
    const double bound = width == 1 ? theory::worst_steps_bound(s) : theory::worst_steps_bound(s, width);
    const bool near = std::abs(m.tas / predicted - 1) <= 0.05;
    row["equation"] = width == 1 ? "2, 3" : "4, 5";
    row["predicted"] = predicted;
    row["ratio"] = m.tas / predicted;
    row["bound"] = bound;
    row["holds"] = near && m.was <= bound;
    if (width == 1) {
        return;
    }
    // Predictions that follow how words are depleted, and hold where (4) does not.
    const double by_words = theory::mean_steps_by_words(s, width);
    row["by_words"] = by_words;
    row["ratio_by_words"] = m.tas / by_words;
    row["bound_by_words"] = theory::worst_steps_bound_by_words(s, width);
    if (!near) {
        row["note"] = "(4) takes what is left free as spread evenly";
    } else if (m.was > bound) {
        row["note"] = "(5) is no bound: what is left free is not spread evenly";
    }
}

/// Returns the numbers of threads N to measure with A = `free`: some from T / 1024 on, by factors of 8, then 3/4 of A,
/// and the last multiple of 32 below A. Small N leave the pool nearly as it was; the last one takes nearly all free
/// pages, which is where the equations differ most. All are multiples of 32 and ascend.
std::vector<std::uint64_t> threads_for(std::uint64_t pages, std::uint64_t free) {
    const std::uint64_t last = (free - 1) / theory::warp_lanes * theory::warp_lanes;
    std::vector<std::uint64_t> all;
    for (std::uint64_t n = std::max<std::uint64_t>(pages / 1024, theory::warp_lanes); n < free / 2; n *= 8) {
        all.push_back(n);
    }
    for (const std::uint64_t n : {free * 3 / 4 / theory::warp_lanes * theory::warp_lanes, last}) {
        if (n != 0 && (all.empty() || n > all.back())) {
            all.push_back(n);
        }
    }
    return all;
}

/// A / T, the share of pages that are free at first.
constexpr double shares[] = {0.5, 0.1, 0.01, 0.005};

/// The rows of all policies at one T, A and N.
class walk_rows {
public:
    /// @param least  threads that a mean is taken over, at least
    walk_rows(walk_bench& bench, std::uint64_t least) : bench_{bench}, least_{least} {}

    /// Adds a row for a queue, which is not measured, and one for each policy. Errors: those of `measure`.
    absl::Status add(double share, const theory::setting& s) {
        ordered_json queue = row_of("queue", "queue", share, s);
        queue["equation"] = "1";
        queue["predicted"] = theory::queue_mean_steps(s.threads);
        queue["bound"] = theory::queue_worst_steps(s.threads);
        rows_.push_back(std::move(queue));
        // The last argument is the width of the equation; 0: the paper has none for the policy.
        absl::Status status = add<page_policy::rw, std::uint32_t>(share, s, 1);
        status.Update(add<page_policy::rw_bm32, std::uint32_t>(share, s, 32));
        status.Update(add<page_policy::rw_bm64, std::uint64_t>(share, s, 64));
        status.Update(add<page_policy::corw, std::uint32_t>(share, s, 0));
        status.Update(add<page_policy::corw_locked, std::uint32_t>(share, s, 0));
        status.Update(add<page_policy::rw_malloc, std::uint32_t>(share, s, 0));
        return status;
    }
    /// Adds the ratios of the theorems as A -> N: N is as near A as one page. Computed only; no walk is run.
    void add_theorems(double share, std::uint64_t pages) {
        const auto free = static_cast<std::uint64_t>(static_cast<double>(pages) * share);
        for (const int width : {32, 64}) {
            const theory::setting s{pages, free, free - 1};
            const char* policy = width == 32 ? "rw_bm32" : "rw_bm64";
            ordered_json first = row_of("theorem 1", policy, share, s);
            first["ratio"] = theory::theorem_1_ratio(s, width);
            first["ratio_corrected"] = theory::theorem_1_ratio_corrected(s, width);
            first["note"] = "it lacks the term (w - 1) / (2 w), which ratio_corrected has";
            rows_.push_back(std::move(first));
            ordered_json second = row_of("theorem 2", policy, share, s);
            second["ratio"] = theory::theorem_2_ratio(s, width);
            rows_.push_back(std::move(second));
        }
    }
    [[nodiscard]] ordered_json take() { return std::move(rows_); }

private:
    /// Measures one policy and adds its row.
    template <page_policy P, class Word>
    absl::Status add(double share, const theory::setting& s, int width) {
        // Without an equation to compare with, fewer threads suffice.
        const auto m = bench_.measure<P, Word>(s, width != 0 ? least_ : least_ / 20);
        if (!m.ok()) {
            return m.status();
        }
        ordered_json row = row_of("walk", device::name_of(P), share, s);
        row["tas"] = m->tas;
        row["was"] = m->was;
        if (width != 0) {
            compare(row, s, width, *m);
        }
        rows_.push_back(std::move(row));
        return absl::OkStatus();
    }

    walk_bench& bench_;
    std::uint64_t least_;
    ordered_json rows_ = ordered_json::array();
};

}  // namespace

absl::StatusOr<ordered_json> measure_walks(const settings& s) {
    const bool cuda = s.device == simt::device_kind::cuda;
    const std::uint32_t pages = 1u << (s.quick ? 12 : cuda ? 20 : 14);
    simt::executor on;
    on.kind = s.device;
    walk_bench bench(on, pages);
    if (absl::Status status = bench.prepare(); !status.ok()) {
        return status;
    }
    // The mean of the basic walk's steps is then known to about half a per cent, because its spread is about its mean.
    walk_rows rows(bench, s.quick ? 1'000 : 40'000);
    for (const double share : shares) {
        const auto free = static_cast<std::uint64_t>(pages * share);
        for (const std::uint64_t threads : threads_for(pages, free)) {
            if (absl::Status status = rows.add(share, {pages, free, threads}); !status.ok()) {
                return status;
            }
        }
    }
    for (const double share : shares) {
        rows.add_theorems(share, pages);
    }
    return rows.take();
}

namespace {

const registrar pages_theory_registered{
    {"walks", "steps of the published random walks beside the equations of their paper", measure_walks}};

}  // namespace
}  // namespace orchard::bench
