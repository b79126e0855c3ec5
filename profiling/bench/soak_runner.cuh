// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs the soak's kernels on any heap: owns the tables in device memory, launches, and reads the counts after each
/// launch.

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "profiling/bench/soak.hpp"
#include "profiling/bench/watchdog.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/launch_status.hpp"

namespace orchard::bench::soak {

/// Tables of blocks, and the operations on them. `Heap` has `malloc` and `free` like `heap_ref`.
template <class Heap>
class runner {
public:
    /// Returns a runner with empty tables. Errors: those of `device_array`.
    /// @param on_stuck  called from another thread when a launch takes longer than the plan's deadline, to end the
    ///     launch
    static absl::StatusOr<runner> create(const simt::executor& on, const Heap& heap, const plan& p,
                                         std::function<void()> on_stuck) {
        runner r(on, heap, p, std::move(on_stuck));
        auto slots = device_array<word64>::create(on, std::uint64_t{p.threads} * p.slots_each);
        auto board = device_array<word64>::create(on, p.threads);
        auto counted = device_array<tally>::create(on, 1);
        absl::Status status = slots.status();
        status.Update(board.status());
        status.Update(counted.status());
        if (!status.ok()) {
            return status;
        }
        r.slots_ = *std::move(slots);
        r.board_ = *std::move(board);
        r.tally_ = *std::move(counted);
        return r;
    }

    /// Makes one launch with `rounds` rounds for each thread. Errors: Internal if a block did not carry its tags;
    /// DeadlineExceeded; the launch's own.
    absl::StatusOr<sample> run(std::uint32_t rounds) {
        // The limit of a launch is the device's own; the deadline of the watchdog is the last resort.
        const auto limit = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(plan_.limit));
        // Counts are totals; the launch has made the difference.
        const counts before = counts_;
        const auto us = launch(run_kernel<Heap>{heap_, device_tables(), sequence_, rounds, limit});
        sequence_ += rounds;
        if (!us.ok()) {
            return us.status();
        }
        return sample{counts_.allocations - before.allocations, *us};
    }

    /// Checks and frees all blocks. Errors: those of `run`.
    absl::Status drain() { return launch(drain_kernel<Heap>{heap_, device_tables()}).status(); }

    /// Returns the counts of all launches so far.
    [[nodiscard]] const counts& counted() const { return counts_; }
    /// Returns, for tests, the words of all slots.
    [[nodiscard]] const device_array<word64>& slots() const { return slots_; }

private:
    runner(const simt::executor& on, const Heap& heap, const plan& p, std::function<void()> on_stuck)
        : on_{on}, heap_{heap}, plan_{p}, on_stuck_{std::move(on_stuck)} {
        on_.timed = true;
    }
    /// Returns the tables as kernels get them.
    [[nodiscard]] tables device_tables() const {
        return {slots_.data(), board_.data(), tally_.data(), plan_.threads, plan_.slots_each, plan_.sizes};
    }

    /// Launches a kernel, waits for its end, reads the counts, and returns its microseconds. Errors: the launch's own;
    /// DeadlineExceeded if the watchdog had to end it; Internal if a block did not carry its tags.
    template <class Kernel>
    absl::StatusOr<double> launch(const Kernel& kernel) {
        std::atomic<bool> stuck = false;
        simt::launch_result result;
        // The watchdog's destructor waits for its thread: `stuck` is final behind this block.
        {
            const watchdog guard(plan_.deadline, [this, &stuck] {
                stuck.store(true, std::memory_order_relaxed);  // read when the thread has been joined
                on_stuck_();
            });
            result = simt::launch(on_, simt::grid_for(plan_.threads), kernel);
        }
        if (!result.ok) {
            return to_status(result);
        }
        if (stuck.load(std::memory_order_relaxed)) {
            return absl::DeadlineExceededError(
                absl::StrCat("a launch took longer than ", absl::FormatDuration(plan_.deadline)));
        }
        tally t{};
        if (absl::Status s = tally_.download({&t, 1}); !s.ok()) {
            return s;
        }
        counts_ = {t.allocations.load<order::relaxed>(), t.frees.load<order::relaxed>(),
                   t.nulls.load<order::relaxed>(),       t.handed_over.load<order::relaxed>(),
                   t.bytes.load<order::relaxed>(),       t.mismatches.load<order::relaxed>()};
        if (absl::Status s = status_of(counts_, t.first); !s.ok()) {
            return s;
        }
        return result.microseconds;
    }

    simt::executor on_;
    Heap heap_;
    plan plan_;
    std::function<void()> on_stuck_;
    device_array<word64> slots_;
    device_array<word64> board_;
    device_array<tally> tally_;
    counts counts_;               ///< as of the last launch
    std::uint64_t sequence_ = 1;  // so that no id is 0
};

}  // namespace orchard::bench::soak
