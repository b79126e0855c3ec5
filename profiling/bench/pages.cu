// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench pages`: small requests compared with a lower bound in the same kernels. The lower bound is a bump
/// pointer, one atomic for each warp, whose free does nothing. Rows give the size, the number of threads and the time.
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

/// The times of malloc and free of one row, in order. The medians leave out the first `warm_up` of them.
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

/// One heap, the lower bound, and the pointers of its threads.
class bench_run {
public:
    bench_run(const settings& s, std::uint32_t max_threads) : settings_{s}, most_{max_threads} {}

    /// @param capacity  of the heap, in bytes; 0: enough for everything but `nearly_full`
    absl::Status prepare(std::uint64_t capacity) {
        options values = settings_.heap;
        cuda_ = settings_.device == simt::device_kind::cuda;
        values.device = cuda_ ? device_option::cuda : device_option::emulated;
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
        auto top = device_array<simt::device_word<std::uint64_t>>::create(on_, 16);
        if (!out.ok() || !top.ok()) {
            return out.ok() ? top.status() : out.status();
        }
        out_ = *std::move(out);
        top_ = *std::move(top);
        floor_ = {top_.data(), heap_->ref().view().base};
        return absl::OkStatus();
    }

    /// Returns the microseconds of one launch; a negative number if it failed.
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
    template <class Heap, class Allocate>
    pair_times pairs(const Heap& h, const Allocate& allocate, std::uint32_t threads, pair_times before = {}) {
        pair_times all = std::move(before);
        all.warm_up = all.malloc_us.size() + 2;
        for (int i = -2; i < settings_.repeats && status_.ok(); ++i) {
            const std::uint64_t zero = 0;
            status_.Update(copy_to_device(on_, top_.data(), &zero, sizeof(zero)));
            const double a = time(allocate, threads);
            all.add(a, time(free_kernel<Heap>{h, out_.data(), threads}, threads));
        }
        return all;
    }

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

    /// Fills a heap of `pages` pages of 256 B, and frees a share of them at random: `threads` threads allocate one each
    /// of these.
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
        std::vector<std::uint32_t> shuffled(pages);
        std::iota(shuffled.begin(), shuffled.end(), 0u);
        std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(1));
        status_.Update(copy_to_device(on_, which->data(), shuffled.data(), pages * sizeof(std::uint32_t)));
        const auto free = static_cast<std::uint32_t>(pages * free_percent / 100);
        time(allocate_fixed_kernel<heap_ref>{h, bytes, held->data(), pages}, pages);
        time(free_some_kernel{h, held->data(), which->data(), free}, free);
        const auto ours = pairs(h, allocate_fixed_kernel<heap_ref>{h, bytes, out_.data(), threads}, threads);
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
        time(free_some_kernel{h, held->data(), which->data() + free, pages - free}, pages - free);
    }

    /// Returns the rows so far, or the error.
    absl::StatusOr<ordered_json> finish() {
        start_anew();
        status_.Update(heap_->validate());
        return status_.ok() ? absl::StatusOr<ordered_json>(std::move(rows_)) : status_;
    }

private:
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
    void add(ordered_json row) {
        auto stats = heap_->stats();
        row["slabs"] = stats.ok() ? stats->slabs_in_use : 0;
        status_.Update(counts_.add_to(row, *heap_));
        rows_.push_back(std::move(row));
    }

    const settings& settings_;
    std::uint32_t most_;
    bool cuda_ = false;
    std::optional<heap> heap_;
    simt::executor on_;
    device_array<void*> out_;
    device_array<simt::device_word<std::uint64_t>> top_;
    bump_ref floor_;
    absl::Status status_;
    path_counts counts_;
    ordered_json rows_ = ordered_json::array();
};

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
    const std::uint32_t churning = large ? 270'336 : 512;
    b.churn(64, 64, churning);
    b.churn(16, 256, churning);
    b.churn(256, 4096, churning);
    return b.finish();
}

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
