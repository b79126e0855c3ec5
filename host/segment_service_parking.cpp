// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Parked requests: requests that wait for memory to be committed, and the end of their wait by a grant or a rejection.
///
/// Parked requests do not wait for ever: once no commit can help, each of them is granted or rejected. A group that
/// gives up before leaves its slot unattended. Its request stays parked, is answered like the others, and the poller
/// puts a late grant into the segment cache.

#include <algorithm>

#include "host/segment_service.hpp"

namespace orchard {

using mailbox::response_status;

/// Lets a request wait, and asks growth for the memory. Cost: allocates nothing, as `parked_` was reserved.
void segment_service::park(const parked_request& p) {
    counters_.requests_parked.add(1);
    report_wait(p);
    parked_.push_back(p);
    parked_leaves_ += leaves_of(p);
    longest_ = std::max(longest_, p.most_segments());
    // A commit that failed before is tried again, since memory may have become free elsewhere: in another heap, or in
    // another process.
    want_for_parked();
}

/// Asks growth for the sum of what all parked requests need, so that growth need not be asked again for each, and
/// commits large extents. Free segments are not subtracted: they did not serve these requests, and may not do so after
/// a commit.
///
///     committed 100, parked: 3 segments, and 2 x (1 segment and 5 leaves)      96 + 37 + 37 = 170 leaves
///     170 / 32, rounded up, is 6: 106 segments are to be committed at the same time
void segment_service::want_for_parked() {
    line_.longest.store<simt::order::relaxed>(std::max(longest_, host_longest_));
    grower_.want(ever(committed_ + (parked_leaves_ + leaves_per_segment - 1) / leaves_per_segment));
}

/// Tries all parked requests, in the order of their arrival, and rejects those without a place if no memory can come
/// any more. Called in each turn while requests are parked; a turn in which nothing has changed ends at the first
/// return. Otherwise the cost is one search a request.
///
///     place found    memory can still come    the request
///     yes            (any)                    is granted
///     no             it is being committed    stays parked
///     no             all of it has come       stays parked, and growth is asked for the sum of all parked requests
///     no             no                       is rejected, with the reason
void segment_service::retry_parked() {
    // Read before the committed memory is taken over: `has_failed` acquires the failure, and the extents that were
    // committed before it. A failure then implies that no more memory came after the memory that is taken over here.
    // The other way round, an extent could arrive between the two, and requests would be rejected although it holds
    // them.
    const bool failed = grower_.has_failed();
    if (line_.committed.load<simt::order::relaxed>() != taken_up_) {
        take_up_growth();
    }
    const bool hopeless =
        is_closing() || committed_ == line_.segments || failed || grower_.is_blocked(settings_.patience_ns);
    // Returns true if memory is still being committed. It may not be enough: other requests may have taken the memory
    // that was committed for these. And after a failure, memory given up since may suffice.
    const auto is_under_way = [&] {
        return line_.failed.load<simt::order::acquire>() == 0 && line_.wanted.load<simt::order::relaxed>() > taken_up_;
    };
    if (!may_fit_ && !hopeless && is_under_way()) {
        return;  // nothing has changed since they were last tried, and new requests only queue behind them
    }
    may_fit_ = false;
    std::erase_if(parked_, [&](const parked_request& p) {
        const bool granted = !is_closing() && try_grant(p);
        if (!granted && hopeless) {
            note_lack(p);
            reject_grant(p);
        }
        if (granted || hopeless) {
            parked_leaves_ -= leaves_of(p);
            report_wait_end(p);
        }
        return granted || hopeless;
    });
    if (parked_.empty()) {
        longest_ = 0;
    } else if (!is_under_way() && !grower_.has_failed()) {
        want_for_parked();  // all memory asked for has come, and did not suffice
    }
    keep_ahead();
    publish_counts();
    if (parked_.empty() && grower_.releases_at_once()) {
        release_unused(ahead());  // segments that were returned while requests waited
    }
}

/// `longest` is kept until the last call has ended, even if the calls differ: a run that is longer than needed does no
/// harm.
std::uint64_t segment_service::begin_want(std::uint32_t segments, std::uint32_t longest) {
    ++host_wants_;
    host_longest_ = std::max(host_longest_, longest);
    line_.longest.store<simt::order::relaxed>(std::max(longest_, host_longest_));
    grower_.want(ever(segments));
    return ever(segments);
}

/// The thread that waited has seen its memory, or has given up. Memory that was committed for it stays, until `decay`
/// or a trim.
void segment_service::end_want() {
    if (--host_wants_ == 0) {
        host_longest_ = 0;
    }
}

/// Returns whether this request gets an extent of its own: one of `apart_one_of` requests for whole segments, if the
/// device's budget has room for it and nothing else waits for a commit.
bool segment_service::is_sampled(const parked_request& p) {
    if (settings_.apart_one_of == 0 || p.count == 0 || p.advice != 0 || ++unsampled_ < settings_.apart_one_of ||
        is_awaited() || grower_.device_left() < p.most_segments() || grower_.has_failed()) {
        return false;
    }
    unsampled_ = 0;
    return true;
}

/// Lets a request wait for an extent of its own. One request at a time does so.
void segment_service::park_apart(const parked_request& p) {
    counters_.requests_parked.add(1);
    report_wait(p);
    apart_ = p;
    grower_.want_apart(p.most_segments());
}

/// Grants an extent that was just added to the free segments to the request that waits for it, if it is that one.
void segment_service::grant_apart(segment_run extent) {
    if (!apart_ || to_underlying(extent.first) != line_.apart_at.load<simt::order::relaxed>() ||
        extent.count != apart_->most_segments() || is_closing() || !tree_.take(extent)) {
        return;
    }
    (void)directory_.grant(extent).ok();  // cannot fail: the segments were free
    if (to_underlying(apart_->leaves) != 0) {
        (void)portions_.take_leftmost(extent.first + apart_->count, apart_->leaves);  // as in `find_place`
    }
    respond(*apart_, extent.first, 0);
    report_wait_end(*apart_);
    apart_.reset();
}

/// Serves the request that waits for an extent of its own like any other one, if that extent cannot come any more.
void segment_service::retry_apart() {
    // Read before the memory is taken over, as in `retry_parked`: an extent that comes later is not waited for.
    const bool over = line_.apart.load<simt::order::acquire>() == 0 || grower_.has_failed() || is_closing() ||
                      grower_.is_blocked(settings_.patience_ns);
    if (line_.committed.load<simt::order::relaxed>() != taken_up_) {
        take_up_growth();
    }
    if (!apart_ || !over) {
        return;
    }
    const parked_request p = *apart_;
    report_wait_end(p);
    apart_.reset();
    line_.apart.store<simt::order::relaxed>(0);
    if (is_closing()) {
        reject_grant(p);
    } else {
        serve(p);
    }
}

/// The word in host-visible memory is written only if a commit was shown as blocked.
void segment_service::note_room() {
    may_fit_ = true;
    server_.show_blocked(0);
}

void segment_service::note_lack(const parked_request& p) {
    has_lacked_ = true;
    if (grower_.is_blocked(settings_.patience_ns)) {
        const std::uint64_t leaves = std::uint64_t{p.count} * leaves_per_segment + to_underlying(p.leaves);
        const std::uint64_t shown = server_.shown_blocked();
        server_.show_blocked(shown == 0 ? leaves : std::min(shown, leaves));
    }
}

/// Answers a request that cannot be granted with the reason, the most specific one first, and with the number of free
/// segments. From that number the device derives for which smaller requests the heap is exhausted, too.
///
///     closing            the heap is being closed
///     too_large          more than the heap has, or nothing at all
///     commit_blocked     a commit is under way for too long: the memory may come later
///     commit_failed      the machine gave no memory although the budgets allow it
///     fragmented         enough segments are free, but not in one piece
///     out_of_host_budget both budgets are spent
///     out_of_range       all addresses have memory; the budgets would allow more
///     out_of_memory      otherwise: the device's budget is spent
void segment_service::reject_grant(const parked_request& p) {
    // Acquire: pairs with the release in `growth::note_failure`.
    const auto failed = static_cast<failure_reason>(line_.failed.load<simt::order::acquire>());
    response_status why = response_status::out_of_memory;
    if (is_closing()) {
        why = response_status::closing;
    } else if (p.most_segments() == 0 || p.most_segments() > line_.segments) {
        why = response_status::too_large;
    } else if (grower_.is_blocked(settings_.patience_ns)) {
        why = response_status::commit_blocked;
    } else if (failed == failure_reason::commit_failed) {
        why = response_status::commit_failed;
    } else if (tree_.free_count() >= p.most_segments()) {
        why = response_status::fragmented;
    } else if (failed == failure_reason::out_of_memory_host_budget) {
        why = response_status::out_of_host_budget;
    } else if (committed_ == line_.segments && grower_.is_limited_by_range()) {
        why = response_status::out_of_range;
    }
    publish_longest_run();
    server_.respond(mailbox::response::rejection(why, p.slot, p.tag, tree_.free_count()));
    report(event_kind::refuse, 0, bytes_of(p), static_cast<std::uint32_t>(reason_of(why)));
}

}  // namespace orchard
