// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/failure_watch.hpp"

#include <utility>

#include "absl/time/clock.h"

namespace orchard {
namespace {

constexpr absl::Duration until_first = absl::Milliseconds(5);
constexpr absl::Duration between = absl::Seconds(1);

/// Sleeps, but no longer than until it is to stop.
void sleep(absl::Duration time, const std::stop_token& stop) {
    const absl::Time end = absl::Now() + time;
    while (!stop.stop_requested() && absl::Now() < end) {
        absl::SleepFor(std::min(end - absl::Now(), until_first));
    }
}

}  // namespace

failure_watch::failure_watch(const simt::host_word<std::uint32_t>& signal, look now, callback report)
    : signal_{signal}, now_{std::move(now)}, report_{std::move(report)}, thread_{[this](const std::stop_token& stop) {
          watch(stop);
      }} {}

void failure_watch::watch(const std::stop_token& stop) const {
    while (!stop.stop_requested() && signal_.load<simt::order::acquire>() == 0) {  // pairs with `record_failure`
        absl::SleepFor(until_first);
    }
    std::uint64_t reported = 0;
    while (!stop.stop_requested()) {
        const std::optional<failure> found = now_();
        if (found && found->count != reported) {
            reported = found->count;
            report_(*found);
        }
        sleep(found ? between : until_first, stop);
    }
}

}  // namespace orchard
