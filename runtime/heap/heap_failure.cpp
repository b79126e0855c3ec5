// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The functions of a heap that report failed requests and invalid frees.
///
///     failure_board, in host memory      the requests that failed; read without a call of CUDA
///     failure_counts, in device memory   their number; read by a copy, which running kernels may hold up
///     levels()                           the memory that the heap holds; asked of the service, for a second at most
///
/// A caller that asks why requests fail must get an answer even if the device, the service or both are held up. The
/// last two therefore have a substitute: the numbers on the board, and the service's last report.

#include <algorithm>
#include <array>
#include <numeric>
#include <system_error>

#include "absl/strings/str_format.h"
#include "host/monotonic_clock.hpp"
#include "runtime/heap/heap_impl.hpp"

namespace orchard {

/// Returns a copy of the heap's state, in memory of its own, since it has half a megabyte. Kernels may change the words
/// meanwhile; each is right for some time during the call. Errors: the device's own.
absl::StatusOr<std::unique_ptr<device::heap_state>> heap::impl::read_state() {
    auto state = std::make_unique<device::heap_state>();
    absl::Status status = memory_->read(static_cast<void*>(state.get()), view.state, sizeof(device::heap_state));
    if (!status.ok()) {
        return status;
    }
    return state;
}

/// Returns how many requests have failed so far, by reason. It never fails: after an error of the copy the counts are
/// those of the newest records, which may be less than the truth, since not every failure is recorded.
std::array<std::uint64_t, failure_reasons> heap::impl::count_failures() {
    std::array<std::uint64_t, failure_reasons> counts{};
    // The counts alone, and not the whole state: a small copy.
    device::failure_counts found;
    if (memory_->read(static_cast<void*>(&found), &view.state->failure, sizeof(found)).ok()) {
        std::transform(std::begin(found.of_reason), std::end(found.of_reason), counts.begin(),
                       [](const auto& n) { return n.template load<simt::order::relaxed>(); });
    }
    // The newest record of a reason has its number. It exceeds the count if the device no longer responds, or if a
    // request has failed since the copy.
    for (std::uint32_t i = 0; i < failure_reasons; ++i) {
        if (const auto newest = view.failures->newest_of(static_cast<failure_reason>(i))) {
            counts[i] = std::max(counts[i], newest->number);
        }
    }
    return counts;
}

/// Returns the records as users see them: with the counts and the memory levels of this moment, the same ones for all.
/// Any host thread calls it; the thread of `failure_watch` does so beside the application's. Cost: none without
/// records.
std::vector<numbered_failure> heap::impl::explain_failures(const std::vector<device::recorded_failure>& recorded) {
    std::vector<numbered_failure> all;
    // The usual case: no copy is made, and no service is asked.
    if (recorded.empty()) {
        return all;
    }
    const auto counts = count_failures();
    const std::uint64_t count = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    const memory_levels now = levels();
    for (const device::recorded_failure& r : recorded) {
        // Larger numbers stand for requests that no page class serves.
        const std::uint32_t page_class = r.page_class < class_count ? r.page_class : chunk_class;
        const std::uint64_t of_reason = counts[static_cast<std::uint32_t>(r.reason)];
        all.push_back(
            {r.number, {r.reason, r.bytes, page_class, r.at.block, r.at.thread, r.time_ns, count, of_reason, now}});
    }
    return all;
}

/// Returns the newest record of each reason, in the order of the enumeration. Cost: reads host memory alone.
std::vector<device::recorded_failure> heap::impl::newest_failures() const {
    std::vector<device::recorded_failure> all;
    for (std::uint32_t i = 0; i < failure_reasons; ++i) {
        if (const auto newest = view.failures->newest_of(static_cast<failure_reason>(i))) {
            all.push_back(*newest);
        }
    }
    return all;
}

/// No lock: records are read as they are, and a newer one may replace one that was just read.
std::vector<failure> heap::impl::failures() {
    std::vector<failure> all;
    for (const numbered_failure& f : explain_failures(newest_failures())) {
        all.push_back(f.what);
    }
    return all;
}

std::optional<failure> heap::impl::last_failure() {
    const std::vector<device::recorded_failure> all = newest_failures();
    // By the time on the device's clock, which all reasons share; the numbers count each reason by itself.
    const auto last =
        std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
    return last == all.end() ? std::nullopt : std::optional(explain_failures({*last}).front().what);
}

/// The board keeps the first record for ever; its counts and levels are those of now.
std::optional<failure> heap::impl::first_failure() {
    const std::optional<device::recorded_failure> first = view.failures->first.read();
    return first ? std::optional(explain_failures({*first}).front().what) : std::nullopt;
}

/// Ends the reports of an earlier function before it starts new ones: two threads would report each failure twice. The
/// application's exceptions end here, because the thread of the heap would otherwise end the process.
absl::Status heap::impl::on_failure(failure_watch::callback report) {
    // Waits for a report under way, so that the old function is not called after this one has returned.
    watch_.reset();
    if (!report) {
        return absl::OkStatus();
    }
    const auto guarded = [this, report = std::move(report)](const failure& f) {
        try {
            report(f);
        } catch (...) {
            callback_exceptions_.fetch_add(1, std::memory_order_relaxed);
        }
    };
    try {
        watch_ = std::make_unique<failure_watch>(
            *view.failures, [this] { return explain_failures(newest_failures()); }, guarded);
    } catch (const std::system_error& error) {
        return no_thread("on_failure", error);
    }
    return absl::OkStatus();
}

/// The text names the usual cause, a limit on the processes of the user or the container.
absl::Status heap::impl::no_thread(const char* of, const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s: a thread cannot be started: %s; allow this user or container more processes (ulimit -u)",
                        of, error.code().message()));
}

/// Returns 0 also if the state cannot be copied: the function has no status.
std::uintptr_t heap::impl::first_invalid_free() {
    auto state = read_state();
    return state.ok() ? (*state)->failure.first_invalid_free.load<simt::order::relaxed>() : 0;
}

/// The board lies in host memory, so that the faults can be read even after a kernel has ended by a trap. A record that
/// is being written is left out.
std::vector<block_fault> heap::impl::block_faults() const {
    std::vector<block_fault> all;
    if (view.block_faults == nullptr) {
        return all;
    }
    // A thread's name is its block's index in the high half of a word, and its own in the low half.
    const auto thread = [](std::uint64_t name) {
        return block_fault::thread_name{static_cast<std::uint32_t>(name >> 32), static_cast<std::uint32_t>(name)};
    };
    for (const device::block_fault_record& r : view.block_faults->first) {
        if (const auto found = r.read()) {
            all.push_back({found->kind, found->address, found->bytes,
                           thread(device::block_owner::name_of(found->owner)), thread(found->finder), found->time_ns,
                           device::block_owner::tag_of(found->owner)});
        }
    }
    return all;
}

/// Returns the memory levels.
memory_levels heap::impl::levels() {
    // A service that is delayed or has stopped must not delay a caller that queries failures.
    constexpr absl::Duration patience = absl::Seconds(1);
    memory_levels now;
    // The other numbers of a service that does not respond in time are those of its last turn.
    now.is_late = !thread_->publish(monotonic_now() + patience);
    const service_counters& c = service_->counters();
    now.in_use = c.segments_granted.get() << segment_shift;
    now.committed = c.segments_committed.get() << segment_shift;
    now.largest_free = c.longest_free_run.get() << segment_shift;
    // The options have the numbers that the heap chose; an elastic heap has those of now.
    now.device_budget = device_budget();
    // Only an elastic heap has a host budget.
    now.host_budget = values.backing == backing_option::elastic ? values.host_budget : 0;
    return now;
}

}  // namespace orchard
