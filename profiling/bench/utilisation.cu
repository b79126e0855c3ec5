// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench utilisation`: how much of a heap can be handed out in requests of one size, for sizes of 16 B to 8
/// KiB in steps of 16 B. A kernel allocates until the first null. The result is the memory that was handed out before
/// it, divided by the heap's memory including metadata. Then everything is freed and must return, and the next size
/// begins. Each row also has the share that the size classes allow.
///
///     what                   one size, or a summary: a doubling of sizes, all class sizes, all sizes
///     percent                requested bytes before the first null, by the heap's memory
///     reachable_percent      the same if the last page had been found: arithmetic (page_waste.hpp)
///     after_the_first_null   requests that succeeded later; not counted in `percent`
///     fill_us, free_us       the kernels, by CUDA events; one run

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "device/heap_ref.cuh"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/page_waste.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;
using simt::order;

/// The combined counts of the threads of one filling.
struct fill_tally {
    simt::device_word<std::uint32_t> ended;     ///< 1 once a thread got null
    simt::device_word<std::uint32_t> nulls;     ///< threads that got null
    simt::device_word<std::uint64_t> answered;  ///< before the first null
    simt::device_word<std::uint64_t> late;      ///< answered after it
};

/// Each thread allocates until any thread gets null, and chains its blocks: the first word of a block is the address of
/// the previous one. The blocks can then be freed without a list of them.
struct fill_kernel {
    heap_ref heap;
    std::uint64_t bytes;
    void** heads;  ///< [threads]: each thread's last block
    fill_tally* tally;
    std::uint32_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i >= threads) {
            return;
        }
        void* head = nullptr;
        std::uint64_t answered = 0;
        std::uint64_t late = 0;
        // Relaxed: it ends the other threads' loops and orders no other access.
        while (tally->ended.load<order::relaxed>() == 0) {
            void* p = heap.malloc(bytes);
            // Read after the request: an answer counts as late only if another thread had null before.
            const bool over = tally->ended.load<order::relaxed>() != 0;
            // Lanes that were answered together with a lane that got null check the flag before that lane sets it.
            simt::sync(simt::converge());
            if (p == nullptr) {
                tally->ended.store<order::relaxed>(1);
                tally->nulls.fetch_add<order::relaxed>(1);
                break;
            }
            *static_cast<void**>(p) = head;
            head = p;
            (over ? late : answered) += 1;
        }
        heads[i] = head;
        // Relaxed: read after the kernel.
        tally->answered.fetch_add<order::relaxed>(answered);
        tally->late.fetch_add<order::relaxed>(late);
    }
};

/// Each thread frees its chain.
struct free_kernel {
    heap_ref heap;
    void** heads;
    std::uint32_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i >= threads) {
            return;
        }
        // The link is read before the block is freed.
        for (void* p = heads[i]; p != nullptr;) {
            void* next = *static_cast<void**>(p);
            heap.free(p);
            p = next;
        }
    }
};

/// The results of one size.
struct filling {
    std::uint64_t answered = 0;  ///< requests before the first null
    std::uint64_t late = 0;      ///< requests after it
    double fill_us = 0;
    double free_us = 0;
};

/// One heap that is filled and emptied repeatedly, with one size after the other: memory of one class must become
/// memory of another.
class filler {
public:
    filler(heap h, std::uint32_t max_threads) : heap_{std::move(h)}, on_{heap_.executor()}, max_threads_{max_threads} {
        on_.timed = true;
    }

    /// Allocates the arrays and reads the heap's extent. Errors: those of `device_array` and of `stats`.
    absl::Status prepare() {
        auto heads = device_array<void*>::create(on_, max_threads_);
        auto tally = device_array<fill_tally>::create(on_, 1);
        auto stats = heap_.stats();
        absl::Status status = heads.status();
        status.Update(tally.status());
        status.Update(stats.status());
        if (status.ok()) {
            heads_ = *std::move(heads);
            tally_ = *std::move(tally);
            extent_ = {stats->capacity_bytes >> segment_shift, stats->metadata_bytes};
        }
        return status;
    }

    [[nodiscard]] const heap_extent& extent() const { return extent_; }

    /// Fills the heap with requests of `bytes`, checks its counts, frees everything and trims. Errors: those of the
    /// heap and of launches; Internal if the heap counts other pages than the threads, or a slab is left.
    absl::StatusOr<filling> fill(std::uint32_t bytes) {
        const auto threads = threads_for(bytes);
        // The chains of the previous size have been freed; only the counts begin anew.
        absl::Status status = tally_.zero();
        filling result;
        const simt::grid shape = simt::grid_for(threads);
        auto launched =
            simt::launch(on_, shape, fill_kernel{heap_.ref(), bytes, heads_.data(), tally_.data(), threads});
        status.Update(to_status(launched));
        result.fill_us = launched.microseconds;
        fill_tally tally{};
        status.Update(tally_.download({&tally, 1}));
        result.answered = tally.answered.load<order::relaxed>();
        result.late = tally.late.load<order::relaxed>();
        status.Update(expect_pages(bytes, result.answered + result.late));
        if (!status.ok()) {
            return status;
        }
        launched = simt::launch(on_, shape, free_kernel{heap_.ref(), heads_.data(), threads});
        status.Update(to_status(launched));
        result.free_us = launched.microseconds;
        status.Update(heap_.trim());
        // After `trim` no slab of this size may be left: the next size needs the memory.
        status.Update(expect_pages(bytes, 0));
        if (!status.ok()) {
            return status;
        }
        return result;
    }

    /// Checks the heap (`heap::validate`).
    absl::Status validate() { return heap_.validate(); }

private:
    /// Returns so many threads that each makes about 256 requests: whole warps. Few requests are then in progress when
    /// the heap is full, compared with those that have ended.
    [[nodiscard]] std::uint32_t threads_for(std::uint32_t bytes) const {
        const std::uint64_t wanted = requests_that_fit(bytes, extent_) / 256 / simt::warp_size * simt::warp_size;
        return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, simt::warp_size, max_threads_));
    }
    /// Checks that the heap agrees about the allocated pages; with none, that no slab is left either.
    absl::Status expect_pages(std::uint32_t bytes, std::uint64_t pages) {
        // The heap's own counts, from its bitmaps.
        auto stats = heap_.stats();
        if (!stats.ok()) {
            return stats.status();
        }
        if (stats->pages_in_use != pages || (pages == 0 && stats->slabs_in_use != 0)) {
            return absl::InternalError(absl::StrFormat("at %d B: %d pages are allocated, the heap says %d, in %d slabs",
                                                       bytes, pages, stats->pages_in_use, stats->slabs_in_use));
        }
        return absl::OkStatus();
    }

    heap heap_;
    simt::executor on_;
    std::uint32_t max_threads_;
    heap_extent extent_;         ///< capacity and metadata at the start
    device_array<void*> heads_;  ///< [max_threads_]
    device_array<fill_tally> tally_;
};

/// Returns a row that summarises several sizes, with their required shares.
ordered_json summary_row(const char* what, std::span<const size_utilisation> sizes,
                         std::optional<double> target_average, std::optional<double> target_worst) {
    const utilisation_summary s = summarise(sizes);
    ordered_json row{{"what", what},
                     {"sizes", s.sizes},
                     {"average_percent", s.average_percent},
                     {"reachable_average_percent", s.reachable_average_percent},
                     {"worst_percent", s.worst_percent},
                     {"worst_at_bytes", s.worst_at_bytes},
                     {"reachable_worst_percent", s.reachable_worst_percent}};
    if (target_average) {
        row["target_average_percent"] = *target_average;
    }
    if (target_worst) {
        row["target_worst_percent"] = *target_worst;
    }
    return row;
}

/// Adds rows for each doubling of sizes, for the class sizes, and for all.
void add_summaries(ordered_json& rows, const std::vector<size_utilisation>& sizes) {
    std::vector<size_utilisation> classes;
    std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(classes),
                 [](const size_utilisation& s) { return is_class_size(s.bytes); });
    for (std::uint32_t high = 16; high <= 8192; high *= 2) {
        std::vector<size_utilisation> doubling;
        // A size belongs to the doubling in whose range it lies, the upper end included.
        std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(doubling),
                     [high](const size_utilisation& s) { return s.bytes > high / 2 && s.bytes <= high; });
        if (!doubling.empty()) {
            rows.push_back(
                summary_row(absl::StrFormat("over %d B, up to %d B", high / 2, high).c_str(), doubling, {}, {}));
        }
    }
    rows.push_back(summary_row("class sizes", classes, {}, 97));
    rows.push_back(summary_row("all sizes", sizes, 90, 80));
}

absl::StatusOr<ordered_json> run_utilisation(const settings& s) {
    options values = s.heap;
    const bool cuda = s.device == simt::device_kind::cuda;
    values.device = cuda ? device_option::cuda : device_option::emulated;
    if (values.capacity == options{}.capacity) {
        // Small on the emulated device, since each of 512 sizes fills all of it.
        values.capacity = cuda ? 2ull << 30 : s.quick ? 16ull << 20 : 64ull << 20;
    }
    auto made = heap::create(values);
    if (!made.ok()) {
        return made.status();
    }
    filler f(*std::move(made), cuda ? 270'336 : 256);
    if (absl::Status status = f.prepare(); !status.ok()) {
        return status;
    }
    const std::uint32_t step = s.quick ? 1024 : 16;
    std::vector<size_utilisation> sizes;
    ordered_json rows = ordered_json::array();
    for (std::uint32_t bytes = s.quick ? 1024 : 16; bytes <= 8192; bytes += step) {
        const absl::StatusOr<filling> filled = f.fill(bytes);
        if (!filled.ok()) {
            return filled.status();
        }
        // Divided by all of the heap's memory, so that metadata counts as used.
        const double percent = utilisation_percent(bytes, filled->answered, f.extent());
        const double reachable = utilisation_percent(bytes, requests_that_fit(bytes, f.extent()), f.extent());
        sizes.push_back({bytes, percent, reachable});
        rows.push_back({{"what", "one size"},
                        {"bytes", bytes},
                        {"class_bytes", class_bytes(class_of(bytes))},
                        {"is_class", is_class_size(bytes)},
                        {"allocations", filled->answered},
                        {"after_the_first_null", filled->late},
                        {"percent", percent},
                        {"reachable_percent", reachable},
                        {"fill_us", filled->fill_us},
                        {"free_us", filled->free_us}});
    }
    add_summaries(rows, sizes);
    if (absl::Status status = f.validate(); !status.ok()) {
        return status;
    }
    return rows;
}

const registrar utilisation_registered{
    {"utilisation", "how much of a heap can be handed out in requests of one size", run_utilisation,
     "fill_us and free_us are of the one launch for each size, of a heap that has had the sizes "
     "before"}};

}  // namespace
}  // namespace orchard::bench
