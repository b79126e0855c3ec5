// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The loop of the thread that reports failures; failure_watch.hpp has an outline.
///
///     time, s      0            1            2            3
///     failures     1 2 3 4 5                              6          of one reason
///     reports      1            5                         6
///
/// Numbers 2 to 4 are not reported by themselves: each report has the number of all failures.

#include "runtime/heap/failure_watch.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/time/clock.h"
#include "host/monotonic_clock.hpp"
#include "runtime/nvtx/domain.hpp"

namespace orchard {
namespace {

/// A look reads a few words of host memory, so that 5 ms cost little; a user may print each report, hence at most one a
/// second for each reason.
constexpr absl::Duration between_looks = absl::Milliseconds(5);
constexpr absl::Duration between_reports = absl::Seconds(1);

/// The reports so far for one reason: the number of the newest failure reported, 0 at first.
struct reported {
    std::uint64_t number = 0;
    absl::Time again = absl::InfinitePast();  ///< the earliest time of the next report

    /// Returns true if failures up to number `newest` are to be reported now.
    [[nodiscard]] bool is_due(std::uint64_t newest) const { return newest > number && monotonic_now() >= again; }
};

}  // namespace

/// The thread is started last, by its member's place in the class.
failure_watch::failure_watch(const device::failure_board& board, look now, callback report)
    : board_{board}, now_{std::move(now)}, report_{std::move(report)}, thread_{[this](const std::stop_token& stop) {
          watch(stop);
      }} {}

/// Looks until the thread is asked to stop. The destructor waits for the rest of a sleep, 5 ms at most, and for a look
/// or a report under way.
void failure_watch::watch(const std::stop_token& stop) const {
    nvtx::name_thread("failure watch");
    std::array<reported, failure_reasons> all;
    // The position in the array is the reason. Only the board is read, so that a look makes no call of the device while
    // nothing fails.
    const auto is_due = [&](const reported& r) {
        const auto found = board_.newest_of(static_cast<failure_reason>(&r - all.data()));
        return found && r.is_due(found->number);
    };
    for (; !stop.stop_requested(); absl::SleepFor(between_looks)) {
        if (std::none_of(all.begin(), all.end(), is_due)) {
            continue;
        }
        // `now_` may take a second, and each report as long as it wants. The reports of this round are made one after
        // the other, and end early if the heap ends.
        for (const numbered_failure& f : now_()) {
            // Failures may have been recorded since the test above; each comes with its own number.
            reported& r = all[static_cast<std::uint32_t>(f.what.reason)];
            if (!stop.stop_requested() && r.is_due(f.number)) {
                report_(f.what);
                // After the report: one that takes a minute is followed by a pause all the same.
                r = {f.number, monotonic_now() + between_reports};
            }
        }
    }
}

}  // namespace orchard
