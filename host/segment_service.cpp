// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The requests of a heap; see segment_service.hpp. segment_service_parking.cpp has the requests that wait,
/// segment_service_advice.cpp those with advice, segment_service_host.cpp those of the host.
///
///     poll_once()
///       heartbeat
///       retry_parked()                parked requests, after `take_up_growth`; or else only
///       take_up_growth()              committed extents -> directory, OR-tree, extent map
///       grant_together()              up to 256 requests, in the order of the ring: a sequence of exact ones at once
///       handle()                      or one by one
///         handle_grant()
///           try_grant()               find_place() -> take_segments() for segments, the last of them for a tail
///                                                  -> place_tail() for a tail alone
///           handle_refill()           segments for the device's segment cache; any number will do
///           park() or reject_grant()  if there is no place
///         handle_extend()             exactly the segments behind a chunk
///         handle_give_back()          take_back() or take_back_portion() -> note_room()
///       flush                         sends the responses
///       enter_tails()                 of the chunks that were granted together
///       keep_ahead()                  asks growth for more before it is needed

#include "host/segment_service.hpp"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_format.h"
#include "device/simt/mutation.cuh"
#include "host/monotonic_clock.hpp"

namespace orchard {

using mailbox::response_status;

/// All structures begin without memory. `take_up_growth` then enters the extent that the backing has committed from the
/// start, as it enters every later one.
segment_service::segment_service(mailbox_server server, growth& grower, const service_settings& settings)
    : server_{server},
      grower_{grower},
      line_{grower.line()},
      settings_{settings},
      tree_{line_.segments, false},
      directory_{line_.segments},
      extents_{line_.segments},
      portions_{{line_.segments, settings.policy}} {
    // At most one request for each slot is in flight, so that `parked_` never grows beyond this.
    parked_.reserve(server_.shape().slots);
    tails_.reserve(batch);
    if (grower_.takes_advice()) {
        advising_.reserve(server_.shape().slots);
        advised_.resize(line_.segments);
        given_up_.reserve(line_.segments);
    }
    take_up_growth();
    publish_counts();
}

std::uint32_t segment_service::poll_once() {
    counters_.polls.add(1);
    turn_ns_ = 0;
    server_.heartbeat();
    // The blocked commit has ended: device threads may ask again. While it lasts, this costs two loads a turn.
    if (server_.shown_blocked() != 0 && !grower_.is_blocked(settings_.patience_ns)) {
        server_.show_blocked(0);
    }
    if (apart_) {
        retry_apart();
    }
    if (!advising_.empty()) {
        end_advice();
    }
    if (!given_up_.empty()) {
        hand_over_given_up();
    }
    if (!parked_.empty()) {
        retry_parked();
    } else if (line_.committed.load<simt::order::relaxed>() != taken_up_) {
        take_up_growth();
    }
    std::uint32_t arrived = 0;
    // Bounded, so that the heartbeat, growth and the responses of this batch are not delayed by endless traffic.
    while (arrived < batch && server_.next(&requests_[arrived])) {
        ++arrived;
    }
    if (reports_.observer != nullptr && arrived != 0) {
        reports_.observer->begin(activity::serve, arrived);
    }
    const bool measures = arrived != 0 && counters_.busy_polls.get() % polls_per_measure == 0;
    const std::uint64_t read_ns = measures ? monotonic_ns() : 0;
    // The requests in order: sequences of exact grants together if possible, all others one by one.
    for (std::span<const mailbox::request> left(requests_.data(), arrived); !left.empty();) {
        const std::size_t length = exact_grants(left);
        if (length < 2 || !grant_together(left.first(length))) {
            enter_tails();
            // One by one, the next request at least.
            for (const mailbox::request& p : left.first(std::max<std::size_t>(length, 1))) {
                handle(p);
            }
        }
        left = left.subspan(std::max<std::size_t>(length, 1));
    }
    server_.flush();
    if (measures) {
        counters_.answer_ns.note(monotonic_ns() - read_ns);
    }
    enter_tails();
    if (arrived != 0) {
        counters_.busy_polls.add(1);
        counters_.queue_depth.note(arrived);
        keep_ahead();
        publish_counts();
        if (reports_.observer != nullptr) {
            reports_.observer->end(activity::serve, arrived);
        }
    }
    turn_ns_ = 0;
    return arrived;
}

/// Returns the number of requests at the beginning of `from` for exactly as many segments as they say, with a tail or
/// without one.
std::size_t segment_service::exact_grants(std::span<const mailbox::request> from) const {
    if (settings_.apart_one_of != 0) {
        return 0;  // each request is looked at by itself
    }
    const auto is_other = [&](const mailbox::request& p) {
        return p.kind != mailbox::request_kind::grant || p.or_fewer || p.run.count == 0 || p.advice != 0 ||
               portion_leaves(portions_.shape().policy, p.leaves) != p.leaves;
    };
    return static_cast<std::size_t>(std::ranges::find_if(from, is_other) - from.begin());
}

/// Grants all these exact requests, at least one, and returns true, if the same places would be theirs one by one: if
/// the lowest run that has room for the smallest of them has room for all. Otherwise changes nothing. The tree and the
/// directory are changed once, and the tails are entered by `enter_tails`, when their groups have their responses.
/// Cost: as a grant of all segments, and a few ns for each request.
///
/// Three requests of 2 segments, 1 segment and a tail, and 4 segments take 8 in one piece:
///
///     | 2 segments | segment | tail . . . | 4 segments |
bool segment_service::grant_together(std::span<const mailbox::request> requests) {
    if (is_closing()) {
        return false;
    }
    std::uint64_t total = 0;
    std::uint32_t least = ~0u;
    for (const mailbox::request& p : requests) {
        const std::uint32_t segments = p.run.count + (to_underlying(p.leaves) != 0 ? 1 : 0);
        total += segments;
        least = std::min(least, segments);
    }
    // They cannot all be granted. One by one, some may be, and the others are parked.
    if (total > tree_.free_count()) {
        return false;
    }
    const auto found = tree_.find_run(least);
    const segment_run all{found.value_or(segment_index{0}), static_cast<std::uint32_t>(total)};
    if (!found || !tree_.take(all)) {
        return false;
    }
    (void)directory_.grant(all).ok();  // cannot fail: the tree holds exactly the free segments
    segment_index at = all.first;
    for (const mailbox::request& p : requests) {
        server_.respond({response_status::granted, p.slot, p.tag, {at, 0}});
        if (reports_.events != nullptr) {
            report_grant({at, leaf_index{0}, p.leaves}, p.run.count, p.slot);
        }
        at = at + p.run.count;
        if (to_underlying(p.leaves) != 0) {
            tails_.push_back({at, leaf_index{0}, p.leaves});
            at = at + 1;
        }
    }
    counters_.grants.add(requests.size());
    return true;
}

/// Enters the tails of chunks that were granted together. Called before another request can need them: the next one of
/// this turn that is handled alone, or one that arrives after the responses.
void segment_service::enter_tails() {
    for (const portion& tail : tails_) {
        // Cannot fail: a granted segment is in no other use, and `exact_grants` has checked the number of leaves.
        if (!simt::mutation::is(simt::mutation::fault::pending_tails)) {
            (void)portions_.take_leftmost(tail.block, tail.leaves);
        }
    }
    tails_.clear();
}

/// Handles one request. An unknown kind is answered like a ping: every request must be answered, or its slot is lost.
void segment_service::handle(const mailbox::request& p) {
    switch (p.kind) {
        case mailbox::request_kind::grant: handle_grant(p); break;
        case mailbox::request_kind::extend: handle_extend(p); break;
        case mailbox::request_kind::give_back: handle_give_back(p); break;
        default:
            counters_.pings.add(1);
            server_.respond({response_status::acknowledged, p.slot, p.tag, {segment_index{0}, 0}});
    }
}

/// Answers a grant. `count` is what the response carries: the length granted to a refill, the first leaf of a tail
/// alone, and otherwise 0 (uvm/geometry/mailbox.hpp).
void segment_service::respond(const parked_request& p, segment_index first, std::uint32_t count) {
    counters_.grants.add(1);
    server_.respond({response_status::granted, p.slot, p.tag, {first, count}});
    if (reports_.events != nullptr) {
        report_grant({first, leaf_index{p.count == 0 ? count : 0}, p.leaves}, p.count, p.slot);
    }
}

/// Takes a run of free segments, which are granted from then on. Returns its first; nothing if no run is that long.
std::optional<segment_index> segment_service::take_segments(std::uint32_t count) {
    const auto found = count == 1 ? tree_.take_lowest() : tree_.take_run(count);
    if (found) {
        (void)directory_.grant({*found, count}).ok();  // cannot fail: the tree holds exactly the free segments
    }
    return found;
}

/// Takes a place for a tail without segments: in a VA block that has portions, else in a free segment that becomes one.
/// Returns nothing if there is neither. Blocks in use come first, so that tails occupy as few segments as possible.
std::optional<portion> segment_service::place_tail(leaf_count leaves) {
    if (const auto found = portions_.take(leaves)) {
        return found;
    }
    const auto fresh = take_segments(1);
    if (!fresh) {
        return std::nullopt;
    }
    return portions_.take_leftmost(*fresh, leaves);
}

/// Takes a place for segments with a tail, granted from then on. Returns where the segments begin; for a tail alone,
/// its block and first leaf; nothing if there is no place. The chunk must be one range, so that the tail begins right
/// behind the segments: a request for k segments and a tail takes k + 1 segments in one piece.
///
///     3 segments and 5 leaves   | segment | segment | segment | 5 leaves . . . |     the rest of the last one is room
///                                                                                    for other portions
std::optional<portion> segment_service::find_place(std::uint32_t count, leaf_count leaves) {
    if (count == 0) {
        return place_tail(leaves);
    }
    const std::uint32_t tail = to_underlying(leaves) != 0 ? 1 : 0;
    const auto found = take_segments(count + tail);
    if (!found) {
        return std::nullopt;
    }
    if (tail != 0) {
        // The last segment becomes a block of portions, and the tail its leftmost portion.
        // Cannot fail: a granted segment is in no other use, and the caller has checked the number of leaves.
        (void)portions_.take_leftmost(*found + count, leaves);
    }
    return portion{*found, leaf_index{0}, leaves};
}

/// Grants a request if there is a place, and answers it; one with advice is answered when the advice was given. Returns
/// false, and changes nothing, if there is no place.
bool segment_service::try_grant(const parked_request& p) {
    const auto place = find_place(p.count, p.leaves);
    if (place && p.advice != 0 && p.count != 0 && grower_.takes_advice()) {
        begin_advice(p, place->block);
    } else if (place) {
        respond(p, place->block, to_underlying(place->first));
    }
    return place.has_value();
}

/// Grants segments to the segment cache: one run, of at most the length asked for. No group waits for the response, so
/// that the request is never parked; it gets free segments that are there, or is rejected.
///
///     asked for 16    a run of 16 is free                16
///                     the longest free run has 5         5
///                     memory is scarce                   rejected, whatever is free
///
/// Memory is scarce if at most an eighth of what may be committed is free or still to come, or if a request was
/// rejected for lack of memory and at most half is free since. A group that was rejected waits for a reclaim and asks
/// again. If a refill could take the memory in between, and the next reclaim of other groups returned it, the group
/// would find it neither here nor in the segment cache, and its request would fail beside free memory.
void segment_service::handle_refill(const mailbox::request& p) {
    // A refill may be shorter than asked for, so that no refill is too large to serve. A response carries at most
    // `max_refill`.
    const std::uint32_t most = std::min({p.run.count, mailbox::max_refill, line_.segments});
    // No more comes once a commit has found the budgets spent, whatever `most` says.
    const std::uint64_t to_come = grower_.is_spent() ? 0 : std::max(line_.most, committed_) - committed_;
    const std::uint64_t left = tree_.free_count() + to_come;
    has_lacked_ =
        has_lacked_ && left * 2 <= line_.most && !simt::mutation::is(simt::mutation::fault::refill_after_lack);
    const bool scarce = left * 8 <= line_.most || has_lacked_ || !parked_.empty();
    const std::uint32_t count = scarce ? 0 : tree_.find_run(most) ? most : std::min(most, tree_.longest_run());
    const auto found = count != 0 ? take_segments(count) : std::nullopt;
    if (found) {
        respond({p.slot, p.tag, count, leaf_count{0}}, *found, count);
    } else {
        reject_grant({p.slot, p.tag, most, leaf_count{0}});
    }
}

/// Answers a request for memory, or parks it. The checks come in this order: a tail that no portion can hold (an error
/// of the device code), a request that can never be served, a refill, a request that gets an extent of its own, and
/// then the search for a place (`serve`).
void segment_service::handle_grant(const mailbox::request& p) {
    const parked_request request{p.slot, p.tag, p.run.count, p.leaves, p.advice};
    if (portion_leaves(portions_.shape().policy, p.leaves) != p.leaves) {
        // No portion has this many leaves; the request should have asked for a segment instead.
        counters_.requests_rejected.add(1);
        server_.respond({response_status::rejected, p.slot, p.tag, {segment_index{0}, 0}});
    } else if (is_closing() || request.most_segments() == 0 ||
               (request.most_segments() > line_.segments && !p.or_fewer)) {
        reject_grant(request);
    } else if (p.or_fewer) {
        handle_refill(p);
    } else if (is_sampled(request)) {
        park_apart(request);
    } else {
        serve(request);
    }
}

/// Grants exactly the segments that a request names, if all of them are free. They lie behind a chunk, which grows in
/// place. The request is never parked: its block moves instead. Parked requests come first.
void segment_service::handle_extend(const mailbox::request& p) {
    const bool inside = to_underlying(p.run.first) < line_.segments;
    if (inside && !is_closing() && parked_.empty() && tree_.take(p.run)) {
        (void)directory_.grant(p.run).ok();  // cannot fail: the tree holds exactly the free segments
        respond({p.slot, p.tag, p.run.count, leaf_count{0}}, p.run.first, 0);
    } else {
        server_.respond({response_status::fragmented, p.slot, p.tag, {segment_index{0}, 0}});
    }
}

/// Grants a request if there is a place. Otherwise it waits, unless waiting is of no use: every address of the heap is
/// committed, the budgets are spent, or a commit is blocked.
void segment_service::serve(const parked_request& p) {
    if (try_grant(p)) {
        return;
    }
    if (committed_ == line_.segments || grower_.is_spent() || grower_.is_blocked(settings_.patience_ns)) {
        note_lack(p);
        return reject_grant(p);
    }
    park(p);
}

/// Takes granted segments back: they are free again. Returns false, and changes nothing, if some were not granted or
/// hold portions. A block of portions is granted, too, but belongs to several owners; it is freed by
/// `take_back_portion` alone. Cost: a load for each segment, two words for 64 segments.
bool segment_service::take_back(segment_run run) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
        if (portions_.contains(run.first + i)) {
            return false;
        }
    }
    if (!directory_.give_back(run).ok()) {
        return false;
    }
    (void)tree_.give_back(run);  // cannot fail: the directory has checked every segment
    if (advised_count_ != 0) {
        give_up_advised(run);
    }
    note_room();
    if (grower_.releases_at_once()) {
        release_at_once(run);
    }
    return true;
}

/// Gives up segments that were returned, except those to be kept ahead, for a backing that wants that
/// (`growth::releases_at_once`): the driver then need not write their contents back. A segment stays if too many
/// decommits are under way, or if memory is awaited.
void segment_service::release_at_once(segment_run run) {
    for (std::uint32_t i = 0; i < run.count && !is_awaited() && tree_.free_count() > ahead(); ++i) {
        // One that is not free any more was given up for its advice.
        if (directory_.state(run.first + i) == segment_state::free &&
            !release({{run.first + i, 1}, memory_tier::device})) {
            return;
        }
    }
}

/// Takes a portion back. If it was the last of its VA block, the block is free again as well. Returns false if there is
/// no such portion. Its length is not part of the request; the portion tree knows it.
bool segment_service::take_back_portion(segment_index block, leaf_index first) {
    const auto p = portions_.portion_at(block, first);
    if (!p) {
        return false;
    }
    note_room();
    if (portions_.release(*p) == portion_release::emptied) {
        (void)portions_.leave(block);
        (void)take_back({block, 1});
    }
    return true;
}

/// Answers a return. A return that is not right, such as a second one of the same segments, is counted and rejected; it
/// changes nothing.
void segment_service::handle_give_back(const mailbox::request& p) {
    // The length of a portion is known as long as it is granted.
    std::uint64_t at = event_offset(p.run.first, leaf_index{0});
    std::uint64_t bytes = std::uint64_t{p.run.count} << segment_shift;
    if (reports_.events != nullptr && p.is_of_portion()) {
        const auto granted = portions_.portion_at(p.run.first, p.portion_leaf());
        at = event_offset(p.run.first, p.portion_leaf());
        bytes = granted ? std::uint64_t{to_underlying(granted->leaves)} * big_page_bytes : 0;
    }
    const bool ok = p.is_of_portion() ? take_back_portion(p.run.first, p.portion_leaf()) : take_back(p.run);
    if (ok) {
        report(event_kind::give_back, at, bytes, p.slot);
    } else {
        counters_.requests_rejected.add(1);
    }
    server_.respond(
        {ok ? response_status::acknowledged : response_status::rejected, p.slot, p.tag, {segment_index{0}, 0}});
}

/// Enters an extent that was committed, as it will be given up: whole, or segment by segment if each is given up as
/// soon as it is free (`release_at_once`, `give_up_advised`). Cost: two words for each.
void segment_service::add_extent(const extent& e) {
    if (!grower_.releases_at_once() && !grower_.takes_advice()) {
        return extents_.add(e);
    }
    for (std::uint32_t i = 0; i < e.run.count; ++i) {
        extents_.add({{e.run.first + i, 1}, e.tier});
    }
}

/// Takes over the extents that growth has committed: they are free from now on. `pop` acquires what the growth thread
/// did, so that the mapping and the metadata exist before any response names the memory. The segments of an extent that
/// could not be decommitted come the same way.
void segment_service::take_up_growth() {
    bool any = false;
    while (const auto e = line_.ready.pop()) {
        any = true;
        // Cannot fail: growth commits only segments without memory.
        if (directory_.commit(e->run).ok() && tree_.give_back(e->run)) {
            add_extent(*e);
            taken_up_ += e->run.count;
            committed_ += e->run.count;
            grant_apart(e->run);
        }
    }
    if (any) {
        note_room();
        publish_longest_run();
        grower_.wake();  // the ring may have been full
    }
    publish_counts();
}

/// Returns the value of the counter of all segments ever committed at which `segments` are committed now: that many,
/// and all that were given up before. At most all addresses of the heap.
///
///     30 segments were given up so far; to have 80 committed, growth must have committed 110 in total
std::uint64_t segment_service::ever(std::uint64_t segments) const {
    return released_ + std::min<std::uint64_t>(line_.segments, segments);
}

/// `taken_up_` is the number of segments committed so far, in total: no more are wanted.
void segment_service::want_no_more() {
    if (!is_awaited()) {
        grower_.want_no_more(taken_up_);
    }
}

std::uint32_t segment_service::ahead() const {
    if (settings_.ahead == 0) {
        return 0;
    }
    const std::uint32_t quarter = directory_.count(segment_state::granted) / 4;
    return std::max(settings_.ahead, quarter - std::min(quarter, settings_.cached));
}

/// Asks growth for memory before it is needed, so that requests seldom wait for a commit. Called after each turn with
/// traffic.
///
///     64 segments are to be kept ahead:   40 free    nothing is asked: at least half of 64, and one, are there
///                                         20 free    44 more are asked for, as far as the device's budget goes
void segment_service::keep_ahead() {
    const std::uint32_t wanted = ahead();
    // Asks only when half of the amount is missing, so that one call commits enough to be worthwhile. After a failed
    // commit, only a request that needs memory has it tried again.
    if (committed_ < line_.segments && tree_.free_count() < wanted / 2 + 1 && wanted != 0 &&
        line_.failed.load<simt::order::relaxed>() == 0) {
        line_.longest.store<simt::order::relaxed>(std::max(longest_, host_longest_));
        // The spill tier is used only for requests that wait, as far as the budgets tell.
        grower_.want_ahead(ever(committed_ + std::min(wanted - tree_.free_count(), grower_.device_left())));
    }
}

/// Gives up one extent, so that growth decommits it. Returns false, and changes nothing, if a segment of it is not free
/// or if too many decommits are under way. It leaves the OR-tree first, so that no request can get it any more.
bool segment_service::release(const extent& e) {
    if (!tree_.take(e.run)) {
        return false;
    }
    if (!grower_.release(e)) {
        (void)tree_.give_back(e.run);
        return false;
    }
    (void)directory_.decommit(e.run).ok();  // cannot fail: the segments were free
    extents_.remove(e);
    released_ += e.run.count;
    committed_ -= e.run.count;
    counters_.segments_released.add(e.run.count);
    return true;
}

/// One step of giving up unused memory. The thread calls it again after each sleep until it returns true.
///
///     a decommit failed since the last call        true: ends, although memory is left
///     memory that was asked for is on its way      false: it must not be given up as soon as it comes
///     some was given up, or is being decommitted   false
///     otherwise                                    true: nothing is left to be given up
bool segment_service::decay() {
    // A decommit has failed since the last call: ends as if all was given up. The acquire pairs with the release in
    // `growth::decommit_released`.
    const std::uint64_t rejected = line_.taken_again.load<simt::order::acquire>();
    if (rejected != rejected_) {
        rejected_ = rejected;
        return true;  // otherwise segments that cannot be decommitted would be tried forever
    }
    // Memory that was asked for is being committed.
    if (line_.wanted.load<simt::order::relaxed>() > taken_up_ && line_.failed.load<simt::order::relaxed>() == 0) {
        return false;
    }
    return release_unused(settings_.ahead) == 0 && has_released_all();
}

std::uint32_t segment_service::release_unused(std::uint32_t keep) {
    std::uint32_t released = 0;
    // Memory that is being gathered for a waiting request must stay.
    if (!grower_.can_release() || is_awaited()) {
        return released;
    }
    want_no_more();
    for (const memory_tier tier : {memory_tier::host, memory_tier::device}) {
        // From the highest extent to the lowest: each result bounds the next search. An extent that is in use, or
        // larger than what may go, is passed over.
        std::uint32_t end = line_.segments;
        while (!line_.released.is_full() && extents_.segments(tier) != 0 && tree_.free_count() > keep) {
            const auto e = extents_.last_before(end, tier);
            if (!e) {
                break;
            }
            end = to_underlying(e->run.first);
            if (tree_.free_count() >= keep + e->run.count && release(*e)) {
                released += e->run.count;
            }
        }
    }
    publish_counts();
    return released;
}

/// Stores the levels for other threads. Called at the end of each turn that may have changed them. Cost: a few stores.
void segment_service::publish_counts() {
    const std::uint32_t granted = directory_.count(segment_state::granted);
    counters_.segments_granted.set(granted);
    counters_.portions_granted.set(portions_.portions());
    counters_.portion_blocks.set(portions_.blocks());
    counters_.peak_segments_granted.raise_to(granted);
    counters_.segments_free.set(tree_.free_count());
    counters_.segments_committed.set(committed_);
    counters_.segments_on_host.set(extents_.segments(memory_tier::host));
    counters_.peak_segments_committed.raise_to(committed_);
}

/// Checks the OR-tree first, then the directory against it, then the portions against the directory. Uncommitted and
/// committed segments together must be all segments of the heap.
absl::Status segment_service::validate() const {
    if (auto s = tree_.validate(); !s.ok()) {
        return s;
    }
    if (auto s = directory_.validate(tree_); !s.ok()) {
        return s;
    }
    if (auto s = portions_.validate(directory_); !s.ok()) {
        return s;
    }
    const std::uint32_t uncommitted = directory_.count(segment_state::uncommitted);
    if (uncommitted + committed_ != line_.segments) {
        return absl::InternalError(absl::StrFormat("the service counts %d segments committed and %d uncommitted, of %d",
                                                   committed_, uncommitted, line_.segments));
    }
    return absl::OkStatus();
}

bool segment_service::is_granted(segment_index i) const { return directory_.state(i) == segment_state::granted; }

}  // namespace orchard
