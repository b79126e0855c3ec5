// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench storm`: several kernels in several streams use one heap at once. The heap begins without memory and
/// grows on the device and into the spill tier. Meanwhile the host trims it, reserves memory, queries it and uses it.
/// Every block is checked when it is freed; at the end no block may be left. Runs for ten seconds, or for a number of
/// allocations. A test of correctness under load, not of speed: no kernel is timed.
///
/// One row: counts of what was done (launches, allocations, nulls, trims, reserves, host_allocations, ebbs), and
///
///     mismatches                   0, or the run ends with an error
///     times_spent                  intervals between two ebbs in which a request failed: the budgets were spent
///     peak_committed_mib           the most that was committed at a time
///     committed_in_all_mib         sum of all commits; least_growth_mib: the least of them between two ebbs
///     released_before_end_mib      memory given back before the last trim
///     released_beside_kernels_mib  of it, what was not given back at ebbs
///     released_to_peak             released_before_end_mib by the peak: how often the heap shrank
///     left_committed_mib           0, or the run ends with an error
///
///     committed
///        |        ______                     ______
///        |    ___/      |                ___/      |
///        |   /          |   _   _ _     /          |   _
///        |  /           |  / |_/ | |_  /           |  / |_
///        |_/____________|_/__________|/____________|_/_____ time
///             high     ebb     low  ebb    high   ebb
///
/// While all streams hold blocks in all extents, no extent is ever free, and trims release nothing. Therefore the
/// streams hold much memory for a while, until both budgets are spent, and then little. Between the two is an ebb: all
/// streams free their blocks, and wait until the heap is found to be empty and has released all of its memory.

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/storm_meeting.hpp"
#include "profiling/bench/storm_sides.cuh"
#include "runtime/options/byte_size.hpp"

namespace orchard::bench::storm {
namespace {

using nlohmann::ordered_json;
using soak::counts;

/// Returns whether kernels run on a GPU.
bool on_cuda(const settings& s) { return s.device == simt::device_kind::cuda; }

/// Returns the heap's options: small budgets, which the requests exceed at times.
options heap_of(const settings& s) {
    options values = s.heap;
    const bool cuda = on_cuda(s);
    values.device = cuda ? device_option::cuda : device_option::emulated;
    values.backing = backing_option::elastic;
    // At times this is less than a slab for each requested size, so that budgets are also spent.
    values.capacity = cuda ? 8 * gib : 96 * mib;
    values.host_budget = cuda ? 4 * gib : 16 * mib;
    // Unused memory is given back soon, so that it also happens beside kernels.
    values.decay = absl::Milliseconds(50);
    if (!cuda) {
        // With the defaults, all of so small a heap would be committed in one or two extents.
        values.extent = values.commit_ahead = 8 * mib;
    }
    return values;
}

/// Returns the plans of a stream for high and for low water. Both use the kernels of the soak.
plans plans_of(const settings& s) {
    soak::plan high;
    // Half of the slots are full most of the time, with about 15 KB each: the device budget sometimes suffices and
    // sometimes does not.
    high.threads = on_cuda(s) ? 8'192 : 32;
    // Slots, and sizes: one block in 16 has 8 KiB or more, one in 256 has 512 KiB or more.
    high.slots_each = 16;
    high.sizes = {16, 256};
    high.deadline = std::max(absl::Minutes(2), 4 * s.heap.request_timeout);
    // A thirty-second of the threads.
    soak::plan low = high;
    low.threads = high.threads / 8;
    low.slots_each = 4;
    return {high, low};
}

/// Few on the emulated device, because waiting lanes occupy the cores that the others need.
int streams_of(const settings& s) { return on_cuda(s) ? 4 : 2; }

/// The time until the next ebb: a number of launches and of turns of the host (about 5 ms each on a GPU). Then the
/// streams continue until a request fails, so that failures are tested too, up to `max_turns`.
struct phase {
    std::uint64_t launches;  ///< of all streams together, at least
    int turns;               ///< of the host, at least, if a request failed
    int max_turns;           ///< of the host, at least, if none did
};
/// Returns the phase at a level: long at high water, so that the budgets are spent; short at low water.
phase phase_of(const settings& s, water level) {
    const auto launches = static_cast<std::uint64_t>(4 * streams_of(s));
    if (!on_cuda(s)) {
        return {launches, 10, level == water::high ? 50 : 10};
    }
    return {launches, level == water::high ? 200 : 100, level == water::high ? 2'000 : 100};
}

/// The ebbs of a run for a number of allocations: from high water, from low water, and once more.
constexpr std::uint64_t least_ebbs = 3;

/// The amounts of memory committed and released.
struct levels {
    std::uint64_t ebbs = 0;
    std::uint64_t spent = 0;                         ///< intervals between two ebbs in which requests failed
    std::uint64_t committed_bytes = 0;               ///< total, at the last ebb
    std::uint64_t least_growth = ~std::uint64_t{0};  ///< the fewest bytes committed between two ebbs
    std::uint64_t released_at_ebbs = 0;              ///< bytes
    std::uint64_t released_before_end = 0;           ///< bytes, including those at ebbs
};

/// Checks that the heap is empty and agrees with the streams' counts. The host allocates, too, so that the heap may
/// have more allocations than `allocations`.
absl::Status expect_nothing_left(const statistics& s, std::uint64_t allocations, std::uint64_t nulls) {
    absl::Status status = soak::expect_count("pages in use", s.pages_in_use, 0);
    status.Update(soak::expect_count("live chunks", s.live_chunks, 0));
    status.Update(soak::expect_count("segments granted", s.segments_granted, 0));
    status.Update(soak::expect_count("bytes committed", s.committed_bytes, 0));
    status.Update(soak::expect_count("frees", s.frees, s.allocations));
    status.Update(s.allocations >= allocations ? absl::OkStatus()
                                               : soak::expect_count("allocations", s.allocations, allocations));
    status.Update(soak::expect_count("failed allocations", s.failed_allocations, nulls));
    status.Update(soak::expect_count("invalid frees", s.invalid_frees, 0));
    return status;
}

/// Runs all streams until `goal` allocations or the end of the time; then checks the end.
class run_of_storm {
public:
    run_of_storm(const settings& s, heap& h)
        : settings_{s},
          heap_{h},
          host_{h, h.configuration().capacity},
          meeting_{static_cast<std::size_t>(streams_of(s))} {}

    /// Runs everything and returns the one row. Errors: those of streams and of the host; Internal if a block or a
    /// count is wrong.
    absl::StatusOr<ordered_json> run() {
        for (int i = 0; i < streams_of(settings_); ++i) {
            auto made =
                stream_side::create(heap_, plans_of(settings_), settings_.device, static_cast<std::uint64_t>(i));
            if (!made.ok()) {
                return made.status();
            }
            streams_.push_back(*std::move(made));
        }
        // Before any kernel runs: a first launch could wait for running kernels.
        if (absl::Status s = heap_.preload<soak::run_kernel<heap_ref>, soak::drain_kernel<heap_ref>>(); !s.ok()) {
            return s;
        }
        const absl::Time began = absl::Now();
        absl::Status status = rage(began);
        // Also after an error; the first one is returned.
        for (stream_side& one : streams_) {
            status.Update(one.free_all());
        }
        const auto before = heap_.stats();
        status.Update(before.status());
        if (!status.ok()) {
            return status;
        }
        levels_.released_before_end = before->released_bytes;
        const auto after = empty_heap();
        if (!after.ok()) {
            return after.status();
        }
        return ordered_json::array({row(*after, absl::Now() - began)});
    }

private:
    /// Runs the streams, a thread for each, and the host's side in this thread, until the end. Returns the first error.
    absl::Status rage(absl::Time began) {
        std::vector<absl::Status> ends(streams_.size());
        absl::Status of_host;
        {
            std::vector<std::jthread> threads;
            for (std::size_t i = 0; i < streams_.size(); ++i) {
                threads.emplace_back([this, i, &ends] { ends[i].Update(play_stream(streams_[i])); });
            }
            of_host.Update(play_host(began));
            // The end of the block joins the threads: each ends after its current launch.
            over_.store(true, std::memory_order_relaxed);
        }
        absl::Status status;
        for (const absl::Status& s : ends) {
            status.Update(s);
        }
        status.Update(of_host);  // last, because it may only be a consequence of a stream's error
        return status;
    }
    /// A stream's thread: launches until the end; at a meeting, it frees its blocks and waits. An error ends all
    /// streams.
    absl::Status play_stream(stream_side& one) {
        absl::Status status;
        while (status.ok() && !over_.load(std::memory_order_relaxed)) {
            if (meeting_.is_called()) {
                status.Update(one.free_all());
                if (status.ok()) {
                    meeting_.attend();
                }
                continue;
            }
            const counts before = one.counted();
            status.Update(one.turn(level_));
            allocations_.fetch_add(one.counted().allocations - before.allocations, std::memory_order_relaxed);
            nulls_.fetch_add(one.counted().nulls - before.nulls, std::memory_order_relaxed);
            launches_.fetch_add(1, std::memory_order_relaxed);
        }
        over_.store(true, std::memory_order_relaxed);
        // So that the caller of a meeting does not wait for this stream.
        meeting_.leave();
        return status;
    }
    /// The host's thread: uses the heap, and calls the ebbs.
    absl::Status play_host(absl::Time began) {
        const std::uint64_t goal = settings_.operations != 0 ? settings_.operations : settings_.quick ? 3'000 : 0;
        const absl::Duration time = settings_.seconds != 0 ? absl::Seconds(settings_.seconds)
                                    : goal != 0            ? absl::Minutes(10)
                                                           : absl::Seconds(10);
        absl::Status status;
        for (int turns = 1; status.ok() && !over_.load(std::memory_order_relaxed); ++turns) {
            status.Update(host_.turn());
            absl::SleepFor(absl::Milliseconds(1));
            const bool is_done =
                goal != 0 && levels_.ebbs >= least_ebbs && allocations_.load(std::memory_order_relaxed) >= goal;
            if (is_done || absl::Now() - began >= time) {
                break;
            }
            if (status.ok() && is_phase_over(turns)) {
                status.Update(ebb());
                turns = 0;
            }
        }
        return status;
    }
    /// Returns whether the streams have held memory long enough at this level. Launches count, too, because a launch
    /// may take longer than many turns of the host.
    [[nodiscard]] bool is_phase_over(int turns) const {
        const phase p = phase_of(settings_, level_);
        const bool some_failed = nulls_.load(std::memory_order_relaxed) != nulls_before_;
        return turns >= (some_failed ? p.turns : p.max_turns) &&
               launches_.load(std::memory_order_relaxed) - launches_before_ >= p.launches;
    }

    /// Lets all streams free their blocks, checks that the heap is empty, and changes the water.
    absl::Status ebb() {
        meeting_.call();
        absl::Status status;
        if (!over_.load(std::memory_order_relaxed)) {  // otherwise a stream has ended with an error, and still holds
                                                       // its blocks
            status.Update(give_all_back());
        }
        level_ = level_ == water::high ? water::low : water::high;
        launches_before_ = launches_.load(std::memory_order_relaxed);
        nulls_before_ = nulls_.load(std::memory_order_relaxed);
        meeting_.dismiss();
        return status;
    }
    /// At a meeting: empties the heap and counts what was committed and released since the last one. Errors: those of
    /// `empty_heap`.
    absl::Status give_all_back() {
        const auto before = heap_.stats();
        if (!before.ok()) {
            return before.status();
        }
        const auto after = empty_heap();
        if (!after.ok()) {
            return after.status();
        }
        // All that was ever committed: what was given back, and what is left.
        const std::uint64_t committed = before->released_bytes + before->committed_bytes;
        levels_.least_growth = std::min(levels_.least_growth, committed - levels_.committed_bytes);
        levels_.committed_bytes = after->released_bytes;
        levels_.released_at_ebbs += after->released_bytes - before->released_bytes;
        levels_.spent += sum().nulls != nulls_before_ ? 1 : 0;
        ++levels_.ebbs;
        return absl::OkStatus();
    }
    /// After all streams have freed their blocks: checks that the heap is empty and releases all memory. Returns the
    /// statistics then. Errors: Internal if a block or committed memory is left, or a count differs.
    absl::StatusOr<statistics> empty_heap() {
        absl::Status status = host_.free_all();
        status.Update(heap_.validate());
        auto stats = status.ok() ? trim_to_nothing() : status;
        status.Update(stats.status());
        if (status.ok()) {
            const counts all = sum();
            status.Update(expect_nothing_left(*stats, all.allocations, all.nulls));
        }
        return status.ok() ? stats : status;
    }
    /// Trims until nothing is committed, or for as long as a request may take, because a commit may still be in
    /// progress for a request that has ended.
    absl::StatusOr<statistics> trim_to_nothing() {
        const absl::Time deadline = absl::Now() + settings_.heap.request_timeout;
        for (;;) {
            const absl::Status trimmed = host_.trim();
            auto stats = heap_.stats();
            if (!trimmed.ok() || !stats.ok()) {
                return trimmed.ok() ? stats.status() : trimmed;
            }
            if (stats->committed_bytes == 0 || absl::Now() > deadline) {
                return stats;
            }
            absl::SleepFor(absl::Milliseconds(1));
        }
    }

    /// Returns the sum of all streams' counts. Exact while no stream runs.
    [[nodiscard]] counts sum() const {
        counts all;
        for (const stream_side& one : streams_) {
            all = all + one.counted();
        }
        return all;
    }
    /// Returns the row. @param s  statistics when all was freed and trimmed
    [[nodiscard]] ordered_json row(const statistics& s, absl::Duration took) const {
        const counts c = sum();
        std::uint64_t launches = 0;
        for (const stream_side& one : streams_) {
            launches += one.launches();
        }
        const std::uint64_t released = levels_.released_before_end;
        const auto peak = static_cast<double>(s.peak_committed_bytes);
        return {{"what", "storm"},
                {"streams", streams_of(settings_)},
                {"seconds", absl::ToDoubleSeconds(took)},
                {"launches", launches},
                {"allocations", c.allocations},
                {"nulls", c.nulls},
                {"mismatches", c.mismatches},
                {"handed_over", c.handed_over},
                {"trims", host_.trims()},
                {"reserves", host_.reserves()},
                {"host_allocations", host_.allocations()},
                {"ebbs", levels_.ebbs},
                {"times_spent", levels_.spent},
                {"peak_committed_mib", s.peak_committed_bytes / mib},
                {"committed_in_all_mib", s.released_bytes / mib},
                {"least_growth_mib", levels_.ebbs != 0 ? levels_.least_growth / mib : 0},
                {"released_before_end_mib", released / mib},
                {"released_beside_kernels_mib", (released - levels_.released_at_ebbs) / mib},
                {"released_to_peak", peak > 0 ? static_cast<double>(released) / peak : 0},
                {"left_committed_mib", s.committed_bytes / mib}};
    }

    const settings& settings_;
    heap& heap_;
    host_side host_;
    std::vector<stream_side> streams_;
    meeting meeting_;
    levels levels_;
    // Changed only while all streams are at the meeting.
    water level_ = water::high;
    std::uint64_t launches_before_ = 0;  ///< at the last ebb, as `launches_`
    std::uint64_t nulls_before_ = 0;     ///< nulls at the last ebb
    // Counts and a flag. Relaxed: the joining of the threads, or their meeting, orders all other accesses.
    std::atomic<std::uint64_t> allocations_{0};
    std::atomic<std::uint64_t> nulls_{0};
    std::atomic<std::uint64_t> launches_{0};
    std::atomic<bool> over_{false};  ///< the streams and the host end
};

absl::StatusOr<ordered_json> run_storm(const settings& s) {
    auto h = heap::create(heap_of(s));
    if (!h.ok()) {
        return h.status();
    }
    return run_of_storm(s, *h).run();
}

const registrar storm_registered{
    {"storm", "kernels in several streams, growth, trims and the host, all at once", run_storm}};

}  // namespace
}  // namespace orchard::bench::storm
