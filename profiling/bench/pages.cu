// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench pages`: what do `malloc` and `free` of small blocks cost, compared with a lower bound in the same
/// kernels? The lower bound (*floor*) is a bump pointer, one atomic for each warp, whose free does nothing.
///
///     what             one repetition                                  columns beside malloc_us, free_us
///     fixed            all threads allocate `bytes`; all free          floor_*: the floor; empty_us: an empty kernel;
///                                                                      cold_us: the first malloc of a trimmed heap
///     mixed            as above, `bytes` to `bytes_to`, at random
///     full warps, one lane, seven lanes, each its class                which lanes allocate (`lanes_asking`)
///     churn            16 rounds of malloc, write, free in one kernel  malloc_us: the kernel; pairs_per_us: the rate
///     nearly full      5,000 threads allocate, in a heap in which      free_percent: free pages of all pages
///                      only a share of the pages is free
///
/// Times are whole kernels, in microseconds; malloc and free are a kernel each, launched in turn, so that each malloc
/// finds the heap empty (or as full as the row says). `malloc_us` and `free_us` are medians after the warm-up;
/// `_first`, `_third`, `_tenth` and `_settled` are those of repetitions.hpp. `slabs` and the counts of path_counts.hpp
/// say which paths the row took. The numbers above are those of CUDA; the emulated device and --quick use fewer
/// threads.
///
/// Then the steps of the published walks are compared with their equations (pages_theory.hpp).

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/pages_kernels.cuh"
#include "profiling/bench/pages_theory.hpp"
#include "profiling/bench/path_counts.hpp"
#include "profiling/bench/repetitions.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// The times of malloc and free of one row, in order. The medians leave out the first `warm_up` of them, in which slabs
/// are created; the rows show these separately.
struct pair_times {
    std::vector<double> malloc_us;
    std::vector<double> free_us;
    std::size_t warm_up = 0;

    void add(double m, double f) {
        malloc_us.push_back(m);
        free_us.push_back(f);
    }
    [[nodiscard]] double malloc_median() const { return median_after(warm_up, malloc_us); }
    [[nodiscard]] double free_median() const { return median_after(warm_up, free_us); }
};

/// One heap, the lower bound, and the pointers of its threads. After a failed step later ones may still run; `finish`
/// returns the first error instead of rows, so that no wrong time is reported.
class bench_run {
public:
    /// @param max_threads  of all rows; the array of pointers is made once
    bench_run(const settings& s, std::uint32_t max_threads) : settings_{s}, most_{max_threads} {}

    /// Creates the heap and the arrays. Errors: those of the heap and of `device_array`.
    /// @param capacity  of the heap, in bytes; 0: enough for everything but `nearly_full`
    absl::Status prepare(std::uint64_t capacity) {
        options values = settings_.heap;
        cuda_ = settings_.device == simt::device_kind::cuda;
        values.device = cuda_ ? device_option::cuda : device_option::emulated;
        // 24 GiB: 1,000,000 blocks of 8 KiB are 7.6 GiB, and blocks of mixed sizes need slabs of many classes.
        values.capacity =
            capacity != 0 ? capacity : std::max<std::uint64_t>(values.capacity, cuda_ ? 24ull << 30 : 1ull << 30);
        auto made = heap::create(values);
        if (!made.ok()) {
            return made.status();
        }
        heap_.emplace(*std::move(made));
        on_ = heap_->executor();
        on_.timed = true;
        auto out = device_array<void*>::create(on_, most_);
        // 16 words, so that the counter shares its cache line with no other array.
        auto top = device_array<simt::device_word<std::uint64_t>>::create(on_, 16);
        if (!out.ok() || !top.ok()) {
            return out.ok() ? top.status() : out.status();
        }
        out_ = *std::move(out);
        top_ = *std::move(top);
        // The floor returns addresses in the heap's range, but no thread writes there: only its pointers are stored.
        floor_ = {top_.data(), heap_->ref().view().base};
        return absl::OkStatus();
    }

    /// Returns the microseconds of one launch. If it failed, the status is set, and the result is meaningless.
    template <class Kernel>
    double time(const Kernel& kernel, std::uint32_t threads) {
        const auto result = simt::launch(on_, simt::grid_for(threads), kernel);
        if (!result.ok) {
            status_.Update(to_status(result));
        }
        return result.microseconds;
    }

    /// Returns the times of malloc and free in turn, after those of `before`. The medians leave out `before` and two
    /// more rounds.
    /// @param h         the heap or the floor, for the kernel that frees
    /// @param allocate  the kernel that allocates
    template <class Heap, class Allocate>
    pair_times pairs(const Heap& h, const Allocate& allocate, std::uint32_t threads, pair_times before = {}) {
        pair_times all = std::move(before);
        all.warm_up = all.malloc_us.size() + 2;
        for (int i = -2; i < settings_.repeats && status_.ok(); ++i) {
            // The floor's counter begins anew, so that its memory does not run out. The heap does not use it.
            const std::uint64_t zero = 0;
            status_.Update(copy_to_device(on_, top_.data(), &zero, sizeof(zero)));
            const double a = time(allocate, threads);
            all.add(a, time(free_kernel<Heap>{h, out_.data(), threads}, threads));
        }
        return all;
    }

    /// Measures one size: an empty kernel, the floor, then the heap from a trimmed state. The empty kernel shows the
    /// part of all times that is the launch itself.
    void fixed(std::uint32_t bytes, std::uint32_t threads) {
        std::vector<double> nothing;
        for (int i = 0; i < settings_.repeats; ++i) {
            nothing.push_back(time(empty_kernel{}, threads));
        }
        const auto floor = pairs(floor_, allocate_fixed_kernel<bump_ref>{floor_, bytes, out_.data(), threads}, threads);
        start_anew();
        const heap_ref h = heap_->ref();
        const allocate_fixed_kernel<heap_ref> allocate{h, bytes, out_.data(), threads};
        pair_times first;
        // The first malloc creates all slabs, with segments from the host; the heap was trimmed before.
        const double cold = time(allocate, threads);
        first.add(cold, time(free_kernel<heap_ref>{h, out_.data(), threads}, threads));
        const auto ours = pairs(h, allocate, threads, std::move(first));
        ordered_json row{{"what", "fixed"},
                         {"bytes", bytes},
                         {"threads", threads},
                         {"malloc_us", ours.malloc_median()},
                         {"floor_malloc_us", floor.malloc_median()},
                         {"free_us", ours.free_median()},
                         {"floor_free_us", floor.free_median()},
                         {"empty_us", median(nothing)},
                         {"cold_us", cold}};
        add_repetitions(row, "malloc", ours.malloc_us);
        add_repetitions(row, "floor_malloc", floor.malloc_us);
        add_repetitions(row, "free", ours.free_us);
        add_repetitions(row, "floor_free", floor.free_us);
        add_repetitions(row, "empty", nothing);
        add(std::move(row));
    }

    /// Measures requests of mixed sizes, or of some lanes of each warp. The first repetition is checked for overlapping
    /// blocks; its times are shown as `_first`, because stamps are kernels of their own.
    void several(const char* name, request what, std::uint32_t threads) {
        start_anew();
        const heap_ref h = heap_->ref();
        const allocate_kernel<heap_ref> allocate{h, what, out_.data(), threads};
        const auto ours = pairs(h, allocate, threads, check(allocate, what, threads));
        ordered_json row{{"what", name},
                         {"bytes", what.least},
                         {"bytes_to", what.most},
                         {"threads", threads},
                         {"malloc_us", ours.malloc_median()},
                         {"free_us", ours.free_median()}};
        add_repetitions(row, "malloc", ours.malloc_us);
        add_repetitions(row, "free", ours.free_us);
        add(std::move(row));
    }

    /// Measures rounds of malloc, write and free within one kernel: no thread waits for others, and blocks are reused
    /// at once. One launch is the warm-up. `pairs_per_us` counts all threads' pairs: millions a second.
    void churn(std::uint32_t least, std::uint32_t most, std::uint32_t threads) {
        constexpr std::uint32_t rounds = 16;
        start_anew();
        std::vector<double> times;
        for (int i = -1; i < settings_.repeats; ++i) {
            times.push_back(time(churn_kernel{heap_->ref(), {least, most}, rounds}, threads));
        }
        const double us = median_after(1, times);
        ordered_json row{{"what", "churn"},    {"bytes", least},  {"bytes_to", most},
                         {"threads", threads}, {"malloc_us", us}, {"pairs_per_us", threads * rounds / us}};
        add_repetitions(row, "malloc", times);
        add(std::move(row));
    }

    /// Fills a heap of `pages` pages of 256 B, and frees a share of them at random: `threads` threads then allocate one
    /// each of these. Searches get longer as fewer pages are free; this row shows by how much. `threads` is at most the
    /// number of free pages.
    void nearly_full(std::uint32_t pages, std::uint32_t threads, double free_percent) {
        constexpr std::uint32_t bytes = 256;
        start_anew();
        const heap_ref h = heap_->ref();
        auto held = device_array<void*>::create(on_, pages);
        auto which = device_array<std::uint32_t>::create(on_, pages);
        if (!held.ok() || !which.ok()) {
            status_.Update(held.ok() ? which.status() : held.status());
            return;
        }
        // A shuffled list of pages: its first part is freed now, the rest after the row. The seed is constant, so that
        // every run has the same holes.
        std::vector<std::uint32_t> shuffled(pages);
        std::iota(shuffled.begin(), shuffled.end(), 0u);
        std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(1));
        status_.Update(copy_to_device(on_, which->data(), shuffled.data(), pages * sizeof(std::uint32_t)));
        const auto free = static_cast<std::uint32_t>(pages * free_percent / 100);
        time(allocate_fixed_kernel<heap_ref>{h, bytes, held->data(), pages}, pages);
        time(free_some_kernel{h, held->data(), which->data(), free}, free);
        const auto ours = pairs(h, allocate_fixed_kernel<heap_ref>{h, bytes, out_.data(), threads}, threads);
        // Each repetition frees what it allocated. Another number means that a page was lost, or allocated twice.
        const auto stats = heap_->stats();
        if (stats.ok() && stats->pages_in_use != pages - free) {
            status_.Update(absl::InternalError(
                absl::StrFormat("%d pages are in use, where %d were left", stats->pages_in_use, pages - free)));
        }
        ordered_json row{{"what", "nearly full"},
                         {"bytes", bytes},
                         {"free_percent", free_percent},
                         {"threads", threads},
                         {"malloc_us", ours.malloc_median()},
                         {"free_us", ours.free_median()}};
        add_repetitions(row, "malloc", ours.malloc_us);
        add_repetitions(row, "free", ours.free_us);
        add(std::move(row));
        // Frees the pages that were held, so that the next row begins with an empty heap.
        time(free_some_kernel{h, held->data(), which->data() + free, pages - free}, pages - free);
    }

    /// Returns the rows so far, or the first error. The last trim and `validate` check that the measured heap is
    /// intact.
    absl::StatusOr<ordered_json> finish() {
        start_anew();
        status_.Update(heap_->validate());
        // Churn and the rows of a nearly full heap do not look at each pointer. A null would make them fast.
        if (heap_->last_failure().has_value()) {
            status_.Update(absl::InternalError("malloc gave null"));
        }
        return status_.ok() ? absl::StatusOr<ordered_json>(std::move(rows_)) : status_;
    }

private:
    /// Trims the heap, so that the next row starts without slabs, and its first malloc gets segments from the host.
    void start_anew() { status_.Update(heap_->trim()); }

    /// Checks that no two blocks overlap and none is missing. Returns the times of the malloc and the free, which are
    /// the first ones of a row.
    template <class Allocate>
    pair_times check(const Allocate& allocate, request what, std::uint32_t threads) {
        pair_times first;
        auto wrong = device_array<simt::device_word<std::uint64_t>>::create(on_, 1);
        if (!wrong.ok()) {
            status_.Update(wrong.status());
            return first;
        }
        const double allocated = time(allocate, threads);
        time(stamp_kernel{out_.data(), what, threads, nullptr}, threads);
        time(stamp_kernel{out_.data(), what, threads, wrong->data()}, threads);
        std::uint64_t bad = 0;
        status_.Update(copy_to_host(on_, &bad, wrong->data(), sizeof(bad)));
        if (bad != 0 || heap_->last_failure().has_value()) {
            status_.Update(absl::InternalError("blocks overlap, or malloc gave null"));
        }
        first.add(allocated, time(free_kernel<heap_ref>{heap_->ref(), out_.data(), threads}, threads));
        return first;
    }
    /// Adds the counts of the heap to a row, and the row to the rows.
    void add(ordered_json row) {
        auto stats = heap_->stats();
        row["slabs"] = stats.ok() ? stats->slabs_in_use : 0;
        status_.Update(counts_.add_to(row, *heap_));
        rows_.push_back(std::move(row));
    }

    const settings& settings_;
    std::uint32_t most_;  ///< elements of `out_`
    bool cuda_ = false;
    std::optional<heap> heap_;
    simt::executor on_;
    device_array<void*> out_;                             ///< [most_]: the block of each thread
    device_array<simt::device_word<std::uint64_t>> top_;  ///< the floor's counter, in the first word
    bump_ref floor_;
    absl::Status status_;  ///< the first error
    path_counts counts_;   ///< the counts at the end of the previous row
    ordered_json rows_ = ordered_json::array();
};

/// Returns the rows of requests in a heap with much free memory. @param large  the full sizes, for a GPU
absl::StatusOr<ordered_json> time_requests(const settings& s, bool large) {
    const std::uint32_t million = large ? 1'000'000 : 2'000;
    bench_run b(s, million);
    if (absl::Status status = b.prepare(0); !status.ok()) {
        return status;
    }
    for (const std::uint32_t threads : {million / 100, million / 10, million}) {
        for (const std::uint32_t bytes : {16u, 64u, 256u, 1024u, 4096u, 8192u}) {
            b.fixed(bytes, threads);
        }
    }
    b.several("mixed", {16, 512}, million);
    b.several("mixed", {16, 8192}, million / 10);
    for (const std::uint32_t threads : {million / 10, million}) {
        b.several("full warps", {64, 64, lanes_asking::all}, threads);
        b.several("one lane", {64, 64, lanes_asking::one}, threads);
        b.several("seven lanes", {64, 64, lanes_asking::seven}, threads);
        b.several("each its class", {64, 64, lanes_asking::each_its_class}, threads);
    }
    // 270,336 threads: what an H200 runs at once (132 SMs of 2,048 threads).
    const std::uint32_t churning = large ? 270'336 : 512;
    b.churn(64, 64, churning);
    b.churn(16, 256, churning);
    b.churn(256, 4096, churning);
    return b.finish();
}

/// Returns the rows of a heap that is nearly full.
absl::StatusOr<ordered_json> time_nearly_full(const settings& s, bool large) {
    const std::uint32_t pages = large ? 1u << 20 : 1u << 16;
    bench_run b(s, pages);
    // A small heap keeps no more than its share in the segment cache, so that all of it can become slabs.
    if (absl::Status status = b.prepare(std::uint64_t{pages} * 256); !status.ok()) {
        return status;
    }
    for (const double free_percent : {50.0, 10.0, 1.0, 0.5}) {
        b.nearly_full(pages, large ? 5'000 : 300, free_percent);
    }
    return b.finish();
}

/// Returns all rows of the benchmark, of all three parts; the first error ends it.
absl::StatusOr<ordered_json> run_pages(const settings& s) {
    const bool large = s.device == simt::device_kind::cuda && !s.quick;
    ordered_json rows = ordered_json::array();
    for (const auto& part : {time_requests(s, large), time_nearly_full(s, large), measure_walks(s)}) {
        if (!part.ok()) {
            return part.status();
        }
        rows.insert(rows.end(), part->begin(), part->end());
    }
    return rows;
}

const registrar pages_registered{
    {"pages", "small requests beside a bump pointer: fixed and mixed sizes, churn, nearly full; steps of walks",
     run_pages,
     "malloc_us, free_us and the floor's are medians after three rounds that do not count (the floor and nearly full: "
     "two; churn: one); _first, _third and _tenth are those rounds, counted from the first on, _settled the median of "
     "the last half"}};

}  // namespace
}  // namespace orchard::bench
