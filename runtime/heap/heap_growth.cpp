// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The functions of a heap that commit memory ahead of demand and release it. They run on the caller's thread; the
/// service's thread changes the structures (`service_thread::run`), the growth thread makes the calls, and the caller
/// waits for both by polling their counters, always with a deadline.
///
///     reserve            begin_want, wait for the commits, take_turns, end_want
///     set_device_budget  the backing's limit, then release_unused
///     trim               host_blocks::give_up, settle, kernels that retire slabs and empty the segment cache, then
///       release_unused   want_no_more, wait for the commit under way, release_unused again and again

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "host/monotonic_clock.hpp"
#include "runtime/heap/detail_kernels.hpp"
#include "runtime/heap/heap_impl.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard {
namespace {

/// Calls `done` every 20 us until it returns true, and then returns true; returns false at the deadline. It sleeps,
/// since the threads that it waits for may share its core.
template <class Done>
bool wait_until(absl::Duration timeout, Done done) {
    // The condition is tested before the time, so that it is not missed if the deadline passes during a sleep.
    const absl::Time deadline = monotonic_now() + timeout;
    while (!done()) {
        if (monotonic_now() > deadline) {
            return false;
        }
        absl::SleepFor(absl::Microseconds(20));
    }
    return true;
}

}  // namespace

/// Lets the service commit until it has `target` segments, with `longest` of the new ones contiguous, or until it
/// cannot. Returns OK if the wait is over, and sets `*failed` if a commit failed meanwhile; DeadlineExceeded after
/// `request_timeout`, with the name `call` if the service does not turn to it. The caller must post the service's
/// `end_want` afterwards, whatever the result: until then the memory stays committed, so that the caller can take it.
absl::Status heap::impl::grow(std::string_view call, std::uint32_t target, std::uint32_t longest, bool* failed) {
    const growth_line& line = growth_->line();
    // These counters never decrease, unlike the current state. Memory that is committed now may be released before this
    // thread reads it, and a failure may be cleared by another request.
    const std::uint32_t failures = line.failures.load<simt::order::acquire>();
    // Posted, as `end_want` is: both take place, in this order, however late the service is.
    const auto goal = std::make_shared<std::uint64_t>(0);
    thread_->post([&service = *service_, goal, target, longest] { *goal = service.begin_want(target, longest); });
    if (absl::Status begun = run(call, [] {}); !begun.ok()) {
        return begun;
    }
    // The acquires pair with releases of the growth thread, in `growth::note_failure` and `growth::commit_wanted`.
    const bool done = wait_until(values.request_timeout, [&] {
        *failed = line.failures.load<simt::order::acquire>() != failures;
        return *failed || line.committed.load<simt::order::acquire>() >= *goal;
    });
    if (!done) {
        return absl::DeadlineExceededError(
            absl::StrFormat("%d segments were not committed within %s; a CUDA call of the application may be waiting "
                            "for a kernel that runs",
                            target, absl::FormatDuration(values.request_timeout)));
    }
    return take_turns(call);
}

/// Runs a job on the service's thread, for the function `call` of the heap, and waits for it. Errors:
/// DeadlineExceeded if the service has not begun it within `request_timeout`; it is then not run.
absl::Status heap::impl::run(std::string_view call, std::function<void()> job) {
    return thread_->run(call, values.request_timeout, std::move(job));
}

/// Lets the service take over the memory that was committed, and waits for it. A job runs between two turns of the
/// service, and `run` waits for its job; after the second job, one whole turn lies behind that began after this call.
/// Errors: those of `run`.
absl::Status heap::impl::take_turns(std::string_view call) {
    absl::Status status;
    for (int turn = 0; turn < 2 && status.ok(); ++turn) {
        status = run(call, [] {});  // one turn of the service takes place between two calls
    }
    return status;
}

/// Errors: ResourceExhausted if the budgets are too small; those of `grow`; why the last commit failed.
absl::Status heap::impl::reserve(std::uint64_t bytes) {
    const std::uint64_t wanted = bytes / segment_bytes + (bytes % segment_bytes != 0 ? 1 : 0);
    // Before any commit: a part of an impossible amount would only hold memory.
    if (wanted > view.max_slabs) {
        return absl::ResourceExhaustedError(absl::StrFormat(
            "cannot reserve %d bytes: the heap may commit %d on the device and %d on the host; raise the "
            "option capacity or host_budget",
            bytes, values.capacity, values.backing == backing_option::elastic ? values.host_budget : 0));
    }
    // As of the end of the service's last turn; `grow` lets it take two.
    const auto has_enough = [&] { return service_->counters().segments_committed.get() >= wanted; };
    if (has_enough()) {
        return await_moves();
    }
    bool failed = false;
    // `end_want` follows in any case, or the service would never give memory up again.
    const absl::Status grown = grow("reserve", static_cast<std::uint32_t>(wanted), 0, &failed);
    const bool enough = has_enough();
    thread_->post([&service = *service_] { service.end_want(); });
    if (!grown.ok()) {
        return grown;
    }
    return enough || !failed ? await_moves() : growth_->last_error();
}

absl::Status heap::impl::set_device_budget(std::uint64_t bytes) {
    if (bytes < segment_bytes || bytes > values.capacity) {
        return absl::OutOfRangeError(
            absl::StrFormat("the device's budget cannot be %s: give 2 MiB or more, and at most the option capacity, %s",
                            format_bytes(bytes), format_bytes(values.capacity)));
    }
    if (absl::Status s = memory_->limit_device(bytes); !s.ok()) {
        return s;
    }
    growth_->note_new_budget();
    return memory_->use().device_bytes > bytes ? release_unused() : absl::OkStatus();
}

/// Returns the most that the heap may commit on the device now. Any thread.
std::uint64_t heap::impl::device_budget() const {
    return values.backing == backing_option::elastic ? memory_->use().device_budget : values.capacity;
}

/// Waits until memory that was committed is where the backing puts it. A commit of managed memory does not wait for its
/// move, since a kernel can use the memory meanwhile; a host that reserves memory before a launch wants it there.
/// Errors: DeadlineExceeded after `request_timeout`.
absl::Status heap::impl::await_moves() {
    return wait_until(values.request_timeout, [&] { return !memory_->is_moving(); })
               ? absl::OkStatus()
               : absl::DeadlineExceededError(absl::StrFormat(
                     "memory was committed, but not moved to the GPU within %s; kernels that run may hold the move up, "
                     "or other threads reserve more",
                     absl::FormatDuration(values.request_timeout)));
}

/// Releases all extents without an owner, and waits until they are released. Errors: DeadlineExceeded after
/// `request_timeout` for one step; the backing's own error if an extent could not be decommitted. Kernels may run, and
/// may take the memory again, so that the rounds are bounded: no more is released than was committed at the beginning.
absl::Status heap::impl::release_unused() {
    const growth_line& line = growth_->line();
    const std::uint64_t before = line.taken_again.load<simt::order::acquire>();
    // The commit in progress completes first. No other follows, except for a waiting request.
    absl::Status status = run("trim", [&] { service_->want_no_more(); });
    // Pairs with the releases in `growth::commit_wanted`: a commit that was announced before is waited for below, so
    // that its memory is released, too.
    const std::uint64_t begun = line.begun.load<simt::order::acquire>();
    // The second condition: the commit brought less than it began with, and is over as well.
    bool over = wait_until(values.request_timeout, [&] {
        return line.committed.load<simt::order::acquire>() >= begun || line.begun.load<simt::order::acquire>() < begun;
    });
    status.Update(take_turns("trim"));
    // One round releases as many extents as may be in progress at once. Running kernels may always return more.
    std::uint64_t left = service_->counters().segments_committed.get();
    for (std::uint64_t some = 1; some != 0; left -= std::min(left, some)) {
        if (!status.ok()) {
            return status;
        }
        // Read first: extents that were returned earlier may already be in release, which leaves no room for more.
        const std::uint64_t released = service_->counters().segments_released.get();
        over = over && wait_until(values.request_timeout, [&] { return service_->has_released(released); });
        if (!over) {
            return absl::DeadlineExceededError(absl::StrFormat(
                "memory was not given back within %s; a CUDA call of the application may be waiting for a kernel "
                "that runs",
                absl::FormatDuration(values.request_timeout)));
        }
        // An extent that could not be decommitted came back; another attempt would fail as well.
        if (line.taken_again.load<simt::order::acquire>() != before) {
            return growth_->last_error();
        }
        // The number of segments that this round gave up; none ends the loop.
        some = 0;
        if (left != 0) {
            status = run("trim", [&] { some = service_->release_unused(0); });
        }
    }
    return absl::OkStatus();
}

/// Returns the counts, from a copy of the mailbox's device part. Relaxed: the copy has ended, and no other thread
/// writes it.
absl::StatusOr<heap::impl::mailbox_counts> heap::impl::count_posted() {
    mailbox::device_part part;
    if (absl::Status s = memory_->read(static_cast<void*>(&part), view.mailbox.device, sizeof(part)); !s.ok()) {
        return s;
    }
    mailbox_counts counts{part.ticket.word.load<simt::order::relaxed>(), 0};
    for (const auto& poller : part.poller) {
        counts.delivered += mailbox::poller_word::cursor(poller.word.load<simt::order::relaxed>());
    }
    return counts;
}

/// Returns OK if as many requests were answered and delivered as there were `before`.
absl::Status heap::impl::check_settled(const mailbox_counts& before) {
    const auto now = count_posted();
    if (!now.ok()) {
        return now.status();
    }
    const std::uint64_t left = mailbox::poller_word::flying(before.posted, now->delivered);
    return left == 0
               ? absl::OkStatus()
               : absl::DeadlineExceededError(absl::StrFormat(
                     "%d requests were not answered within %s; a kernel may still be asking, or the service does not "
                     "answer",
                     left, absl::FormatDuration(values.request_timeout)));
}

/// Blocks that the host holds in reserve go first, then the queue of its frees: only then are their chunks free. The
/// counts of requests are read before the kernels are launched, and compared afterwards: every request that was posted
/// before must have been answered and delivered. Requests that kernels of the application post meanwhile are not waited
/// for.
absl::Status heap::impl::trim_now() {
    // Blocks that were cut for the host and not handed out would otherwise hold their chunks.
    absl::Status status = host_blocks_->give_up();
    if (memory_->can_move()) {
        status.Update(memory_->move({}));  // pieces that an earlier call has left moving could not be decommitted
        memory_->give_up_spares();
    }
    if (status.ok()) {
        status = settle();
    }
    const auto requests = count_posted();
    status.Update(requests.status());
    if (status.ok()) {
        // Before `run_trim`: the blocks in the quarantine keep their slabs from being empty.
        status = detail::run_empty_quarantine(own_executor(), view);
    }
    if (status.ok()) {
        status = detail::run_trim(own_executor(), view);
    }
    status.Update(run("trim", [] {}));  // after the service's current turn, which updates its counts at its end
    if (status.ok()) {
        status = check_settled(*requests);
    }
    return status.ok() ? release_unused() : status;
}

}  // namespace orchard
