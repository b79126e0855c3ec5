// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Segments with advice of their own: an array may ask that the UVM driver be advised about its chunk
/// (`heap_ref::allocate_array`). Device code cannot call the driver, so that the advice is part of the request.
///
///     request ---> find_place ---> begin_advice ---> growth: the driver's calls ---> end_advice ---> response
///     return  ---> give_up_advised ---> growth: decommit, which gives the heap's advice again ---> committed on demand
///
/// The driver's calls may be held up by other calls of the process. The service would then serve no request at all, so
/// growth makes them. And the group gets its response after the advice, not before: its first touch decides where a
/// page lies, and advice that comes later moves nothing. The group waits for its response anyway, and a driver's call
/// is no longer than the commit that many such requests wait for. After half of the time that the group waits, the
/// response goes out without the advice: advice is a hint, and the memory is there. Half, since the group began to wait
/// earlier.

#include <algorithm>

#include "host/segment_service.hpp"

namespace orchard {

/// Notes segments, which are granted from now on, as advised, and asks growth for the advice.
void segment_service::begin_advice(const parked_request& p, segment_index first) {
    const segment_run run{first, p.count};
    for (std::uint32_t i = 0; i < run.count; ++i) {
        advised_[to_underlying(run.first + i)] = true;
    }
    advised_count_ += run.count;
    advising_.push_back({p, run, simt::clock_ns()});
    hand_over_advice();
}

/// Asks growth for the advice of those grants that it was not asked for yet, as far as its ring has room.
void segment_service::hand_over_advice() {
    while (handed_over_ - answered_ < advising_.size()) {
        const advised_grant& next = advising_[handed_over_ - answered_];
        if (!grower_.advise(next.run, next.request.advice)) {
            return;
        }
        ++handed_over_;
    }
}

/// Answers the grants whose advice was given, those that have waited too long, and all if the heap is being closed.
/// Called in each turn while there are any. A grant that is answered before its advice was asked for gets none.
///
///     advising_      | 7 | 8 | 9 | 10 |       answered_ = 6, handed_over_ = 9, growth has advised 8: 7 and 8 go
void segment_service::end_advice() {
    hand_over_advice();
    // The acquire pairs with the release in `growth::give_advice`.
    const std::uint64_t advised = line_.advised.load<simt::order::acquire>() + skipped_;
    std::uint64_t done = is_closing() ? advising_.size() : advised - std::min(advised, answered_);
    const std::uint64_t now = simt::clock_ns();
    while (done < advising_.size() && now - advising_[done].since_ns > settings_.patience_ns / 2) {
        ++done;
    }
    for (std::uint64_t i = 0; i < done; ++i) {
        respond(advising_[i].request, advising_[i].run.first, 0);
    }
    advising_.erase(advising_.begin(), advising_.begin() + static_cast<std::ptrdiff_t>(done));
    answered_ += done;
    // Those that were never asked for count as advised, so that the numbers of later ones agree with growth's count.
    if (handed_over_ < answered_) {
        skipped_ += answered_ - handed_over_;
        handed_over_ = answered_;
    }
}

/// Gives up those segments of a run, which is free, that have advice of their own, whatever else memory is kept for:
/// another owner would get that advice. They leave all structures, so that no request can get them. Cost: a look at
/// each segment, a few stores for each one given up.
void segment_service::give_up_advised(segment_run run) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
        const segment_index segment = run.first + i;
        if (!advised_[to_underlying(segment)]) {
            continue;
        }
        advised_[to_underlying(segment)] = false;
        --advised_count_;
        (void)tree_.take({segment, 1});                // cannot fail: the segment is free
        (void)directory_.decommit({segment, 1}).ok();  // likewise
        extents_.remove({{segment, 1}, memory_tier::device});
        ++released_;
        --committed_;
        counters_.segments_released.add(1);
        given_up_.push_back(segment);
    }
    hand_over_given_up();
}

/// Lets growth decommit what was given up, as far as its ring has room; the rest follows in later turns.
void segment_service::hand_over_given_up() {
    // The lowest first, since growth decommits neighbours together; they were pushed in that order.
    std::size_t handed = 0;
    while (handed < given_up_.size() && grower_.release({{given_up_[handed], 1}, memory_tier::device})) {
        ++handed;
    }
    given_up_.erase(given_up_.begin(), given_up_.begin() + static_cast<std::ptrdiff_t>(handed));
}

}  // namespace orchard
