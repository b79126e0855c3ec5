// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench soak`: ten thousand million allocations of random sizes and lifetimes, by threads that pass blocks to
/// each other. Every block is checked when it is freed. At the end everything is freed, the heap must be empty, and the
/// last tenth should have been as fast as the first.
///
/// One row:
///
///     allocations, frees, nulls, handed_over, mean_bytes   what the threads did
///     mismatches, left_in_use, invalid_frees               0, or the run ends with an error
///     seconds, kernel_seconds                              the whole run by the host's clock; the sum of its kernels
///     launches, longest_launch_ms                          of rounds; each takes about a quarter of a second
///     pairs_per_us                                         allocations by that sum: millions a second
///     first_tenth_pairs_per_us, last_tenth_pairs_per_us    the same at the beginning and at the end; last_to_first
///     failed_allocations, abandoned, peak_segments_granted the heap's own counts
///
/// Kernel times include the checks: two words of each block are written and read. A first launch fills the tables and
/// is not part of the times. On the emulated device the numbers are smaller.

#include <cstdio>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "device/heap_ref.cuh"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/soak_runner.cuh"
#include "runtime/heap/heap.hpp"

namespace orchard::bench::soak {
namespace {

using nlohmann::ordered_json;

/// Reports the progress on standard error every few seconds, since a run takes long and says nothing else until its
/// end.
class reporter {
public:
    explicit reporter(std::uint64_t total) : total_{total} {}

    /// Prints one line unless the last one is less than three seconds ago. @param last  the launch that has just ended
    void tell(const counts& c, const sample& last) {
        constexpr absl::Duration interval = absl::Seconds(3);
        const absl::Time now = absl::Now();
        if (now - told_ < interval) {
            return;
        }
        told_ = now;
        absl::FPrintF(stderr, "soak: %5.1f %%, %d allocations, %.3g a microsecond, %d nulls\n",
                      100 * static_cast<double>(c.allocations) / static_cast<double>(total_), c.allocations,
                      last.us > 0 ? static_cast<double>(last.allocations) / last.us : 0, c.nulls);
    }

private:
    std::uint64_t total_;
    absl::Time told_ = absl::Now();
};

/// Returns the plan of a device; --operations and --quick change the number of allocations, --large the blocks.
plan plan_of(const settings& s) {
    const bool cuda = s.device == simt::device_kind::cuda;
    plan p;
    // On CUDA as many threads as an H200 runs at once (132 SMs of 2,048 threads).
    p.threads = cuda ? 270'336 : 256;
    if (s.large) {
        // Some 12 GiB on CUDA, 96 MiB on the emulated device.
        p.threads = cuda ? 4'096 : 32;
        p.slots_each = 4;
        p.sizes = {.larger_one_in = 0, .chunk_one_in = 1};
    }
    p.allocations = s.operations != 0 ? s.operations
                    : s.quick         ? (cuda ? 20'000'000 : 20'000)
                    : s.large         ? (cuda ? 100'000'000 : 100'000)
                                      : (cuda ? 10'000'000'000 : 1'000'000);
    // A kernel ends at the latest when each of its threads has waited for the service once in vain.
    p.deadline = std::max(p.deadline, 4 * s.heap.request_timeout);
    return p;
}

/// Checks that the heap is empty and that its counts agree with those of the run. Errors: Internal with the first count
/// that differs.
absl::Status expect_all_freed(const statistics& s, const counts& c) {
    if (c.frees != c.allocations) {
        return absl::InternalError(absl::StrFormat("%d blocks were allocated and %d freed", c.allocations, c.frees));
    }
    absl::Status status = expect_count("pages in use", s.pages_in_use, 0);
    status.Update(expect_count("live chunks", s.live_chunks, 0));
    status.Update(expect_count("slabs in use", s.slabs_in_use, 0));
    status.Update(expect_count("segments granted", s.segments_granted, 0));
    status.Update(expect_count("allocations", s.allocations, c.allocations));
    status.Update(expect_count("frees", s.frees, c.frees));
    status.Update(expect_count("failed allocations", s.failed_allocations, c.nulls));
    status.Update(expect_count("invalid frees", s.invalid_frees, 0));
    return status;
}

/// All rounds, then the end: drain, validate, trim, validate again, compare counts.
class soak_run {
public:
    soak_run(heap& h, const plan& p) : heap_{h}, plan_{p} {}

    /// Runs everything and returns the one row. Errors: those of the launches; ResourceExhausted if the heap is too
    /// small; Internal if a block or a count is wrong.
    absl::StatusOr<ordered_json> run() {
        // A launch that hangs is ended by closing the heap: requests that wait then fail.
        auto made = runner<heap_ref>::create(heap_.executor(), heap_.ref(), plan_, [this] { (void)heap_.close(); });
        if (!made.ok()) {
            return made.status();
        }
        runner<heap_ref>& r = *made;
        const absl::Time began = absl::Now();
        absl::Status status = run_rounds(r);
        if (status.ok()) {
            status.Update(r.drain());
        }
        // Twice: with free memory on the device, and after it has returned to the host.
        status.Update(heap_.validate());
        status.Update(status.ok() ? heap_.trim() : absl::OkStatus());
        status.Update(status.ok() ? heap_.validate() : absl::OkStatus());
        auto stats = heap_.stats();
        status.Update(stats.status());
        if (status.ok()) {
            status.Update(expect_all_freed(*stats, r.counted()));
        }
        if (!status.ok()) {
            return status;
        }
        return ordered_json::array({row(r.counted(), *stats, absl::Now() - began)});
    }

private:
    /// Launches rounds until all allocations are made. The length of each launch follows from the one before.
    absl::Status run_rounds(runner<heap_ref>& r) {
        // Fills the tables; not measured.
        if (auto filling = r.run(4 * plan_.slots_each); !filling.ok()) {
            return filling.status();
        }
        reporter progress(plan_.allocations);
        std::uint32_t rounds = next_rounds(plan_, plan_.slots_each, plan_.launch_us);
        while (r.counted().allocations < plan_.allocations) {
            const auto one = r.run(rounds);
            if (!one.ok()) {
                return one.status();
            }
            // More nulls than blocks: the run would measure failed requests.
            if (r.counted().nulls > r.counted().allocations) {
                return absl::ResourceExhaustedError(
                    absl::StrFormat("%d allocations and %d nulls: the heap is too small for the blocks that live at a "
                                    "time; give it a larger --capacity",
                                    r.counted().allocations, r.counted().nulls));
            }
            launches_.push_back(*one);
            progress.tell(r.counted(), *one);
            rounds = next_rounds(plan_, rounds, one->us);
        }
        return absl::OkStatus();
    }

    /// Returns the row. Rates are those of measured launches only; counts are those of all.
    [[nodiscard]] ordered_json row(const counts& c, const statistics& stats, absl::Duration took) const {
        const tenths rates = rates_of_tenths(launches_);
        double us = 0;
        double longest_us = 0;
        std::uint64_t measured = 0;
        for (const sample& s : launches_) {
            us += s.us;
            longest_us = std::max(longest_us, s.us);
            measured += s.allocations;
        }
        return {{"what", "soak"},
                {"threads", plan_.threads},
                {"slots_each", plan_.slots_each},
                {"allocations", c.allocations},
                {"frees", c.frees},
                {"nulls", c.nulls},
                {"mismatches", c.mismatches},
                {"handed_over", c.handed_over},
                {"mean_bytes", static_cast<double>(c.bytes) / static_cast<double>(c.allocations)},
                {"seconds", absl::ToDoubleSeconds(took)},
                {"kernel_seconds", us * 1e-6},
                {"launches", launches_.size()},
                {"longest_launch_ms", longest_us * 1e-3},
                {"pairs_per_us", us > 0 ? static_cast<double>(measured) / us : 0},
                {"first_tenth_pairs_per_us", rates.first},
                {"last_tenth_pairs_per_us", rates.last},
                {"last_to_first", rates.first > 0 ? rates.last / rates.first : 0},
                {"left_in_use", stats.pages_in_use + stats.live_chunks},
                {"failed_allocations", stats.failed_allocations},
                {"invalid_frees", stats.invalid_frees},
                {"abandoned", stats.abandoned},
                {"peak_segments_granted", stats.peak_segments_granted}};
    }

    heap& heap_;
    plan plan_;
    std::vector<sample> launches_;  ///< measured ones, in order
};

absl::StatusOr<ordered_json> run_soak(const settings& s) {
    options values = s.heap;
    const bool cuda = s.device == simt::device_kind::cuda;
    values.device = cuda ? device_option::cuda : device_option::emulated;
    // The default capacity would be most of the GPU's memory.
    if (values.capacity == options{}.capacity) {
        values.capacity = cuda ? 24ull << 30 : 1ull << 30;
    }
    auto made = heap::create(values);
    if (!made.ok()) {
        return made.status();
    }
    // So that no launch is timed with the loading of its kernel.
    if (absl::Status status = made->preload<run_kernel<heap_ref>, drain_kernel<heap_ref>>(); !status.ok()) {
        return status;
    }
    return soak_run(*made, plan_of(s)).run();
}

const registrar soak_registered{
    {"soak", "--operations allocations of random sizes and lifetimes, every block checked", run_soak,
     "pairs_per_us is of all launches after the tables were filled, first_tenth and last_tenth "
     "are of a tenth of these"}};

}  // namespace
}  // namespace orchard::bench::soak
