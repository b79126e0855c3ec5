// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The search for pages for lanes that found none at their hints. Where only a few lanes of a group lack a page, each
/// of them walks first (walk.cuh). The search of all others has three stages:
///
/// 1. *Probing* (a collaborative random walk). Every lane looks at random words. A lane that sees enough pages for its
///    group claims them; otherwise the lanes that see pages share the claims.
/// 2. *Reserving.* A reservation (an atomic add on the class's high-water mark) names the next pages of the class's
///    sequence of slabs. Demand thereby determines which slabs are missing. The first lane that reaches a missing slab
///    gets a segment for it; the other lanes wait for it. The lanes of a warp make one request for all their segments.
/// 3. *Scanning* (a scan). If no segment can be got, the lanes look at all words of the class. If they see no free
///    page, the group needs a reclaim that begins afterwards, and then asks for a segment once more. If that fails too,
///    and no other group has got segments meanwhile, the request fails.
///
/// In each step, a group looks at the words that its stage requires, and then claims and shares the pages it saw
/// (share.cuh). All groups of a warp make their steps together, each in its own stage:
///
///     search_page                       until each lane has a page, or a reason
///       walk                            walk.cuh: a lane by itself; ends most searches
///       plan                            groups whose stage is over (`left` = 0) choose the next one
///         read_head, next_stage
///       free_before_scans               blocks that the host freed, if a scan begins
///       begin, begin_stages             the new stages: reserve_pages, choose_hole, begin_scan
///       look                            search_steps.cuh: what each lane sees
///       open_slabs                      if a lane's reserved index has no slab
///         begin_opening, open_wanted, end_opening
///       claim, share                    share.cuh
///       advance                         the next position of the stage
///     collect_empty_slabs, grow_ahead   what the search noticed about the class, once at the end
///
/// A group reserves pages before a slab is created, so that n groups that lack pages at the same time create as many
/// slabs as their pages need, and not n slabs.
///
/// Source: M. Pham et al., ICS 2022, section 4 (collaborative random walk); reservations and shares are Orchard's own.

#include <new>

#include "device/hardened/guarded_block.cuh"
#include "device/reclaim/host_frees.cuh"
#include "device/small/search_steps.cuh"
#include "device/small/walk.cuh"
#include "uvm/geometry/block_request.hpp"

namespace orchard::device {

// --- progress within a stage ---

/// Goes on in the reserving stage after a step. A group with `on` ends its stage if it got no slab (`why`), or if no
/// lane of it waits for one. Lanes whose slab another lane has created look at it in the next step. All searching lanes
/// call it together. Cost: a ballot; an atomic if the high-water mark moves.
inline ORCHARD_FN void page_search::advance_reserved(bool on) {
    const bool failed = why != failure_reason::none;
    if (on && !failed && wanted != 0 && !missing && !served && index + 1 < entries) {
        // No reserved page was free: the slab is not fresh, but was filled by hints and probes. The high-water mark
        // skips the rest of it, so that later reservations do not try it word by word. It skips no further than to a
        // known index, because a reservation beyond all slabs creates one.
        head().high_water.raise<order::relaxed>(position_of(index + 1));
    }
    missing = missing && !failed;
    wanted = missing ? wanted : 0;
    const lane_mask waits = s.group & simt::ballot(s.here, missing);
    if (on) {
        left = waits != 0 ? 1 : 0;
        if (!failed && waits == 0) {
            // A slab was there: a new scan and a new reclaim must come before a failure.
            scanned = false;
            opening.reclaim = 0;
        }
    }
}

/// Goes on to the group's next parts, cyclically, unless the step gave a lane a page: there may be more pages at the
/// same position, since a lane keeps only one of the words that it read. Each lane calls it for itself.
///
/// An index without a slab is left at once, or one lane would look at it up to 512 times. If a slab appears there after
/// the look, it was published after the scan began, and the scan need not find it. While no lane of the group sees a
/// free page (`saw`), steps get longer, since a slab with one seems to be far away.
inline ORCHARD_FN void page_search::advance_scan(bool saw) {
    if (!served) {
        const std::uint32_t looked = static_cast<std::uint32_t>(simt::popcount(s.group)) * parts_in_step;
        const std::uint32_t rest = parts() - part % parts();
        const bool leaves = empty || simt::mutation::is(fault::scan_leave);
        const std::uint32_t all = leaves && looked < rest ? rest : looked;
        const std::uint32_t done = all < left ? all : left;
        const std::uint32_t total = entries * parts();
        const std::uint32_t next = part + done;
        part = next < total ? next : next - total;
        left -= done;
    }
    parts_in_step = saw ? 1 : parts_in_step * 2 < max_parts_in_step ? parts_in_step * 2 : max_parts_in_step;
}

/// Goes on to the next position of the stage, and ends the search of a group in which each lane has a page.
/// @param saw  a lane of the group saw free pages in the last step. A scan is then repeated before it counts as failed,
///     because pages that other groups claimed first, and then gave back, could be missed.
inline ORCHARD_NOINLINE void page_search::advance(bool saw) {
    contested = contested || saw;
    served = (s.group & simt::ballot(s.here, served && !s.lacks())) != 0;
    const bool reserves = stage == search_stage::reserving;
    switch (stage) {
        case search_stage::probing:
            --left;
            if (nearby) {
                nearby = false;
                stage = search_stage::reserving;  // go on as a search that begins without a slab to probe
            }
            break;
        case search_stage::scanning: advance_scan(saw); break;
        case search_stage::reserving:
        case search_stage::ended: break;
    }
    if (simt::ballot(s.here, reserves) != 0) {
        advance_reserved(reserves);
    }
    if (s.without() == 0) {
        stage = search_stage::ended;
    }
}

// --- the choice of the next stage ---

/// Returns whether the deadline has passed. Reading the clock is expensive, and most searches end soon, so that only
/// every eighth stage reads it unless a stage has failed. Each lane calls it for itself; the leader's result counts.
///
/// The deadline is `patience_ns`, counted from the first opening or the first reading of the clock, also for the wait
/// for another lane's slab (`await_slabs`). It ends a search whose pages other groups take first again and again.
inline ORCHARD_FN bool page_search::is_late() {
    return (why != failure_reason::none || steps % 8 == 7) && device::is_late(opening);
}

/// Reads the head of the class's slab table: sets `entries` and `spread`, and returns the `facts` that `next_stage`
/// needs. A leader calls it alone, so that a contended cache line is read once for a group. Cost: five independent
/// loads; after a failure to get a slab, two more that are in flight together, unless the group will probe anyway.
inline ORCHARD_FN std::uint32_t page_search::read_head() {
    // These loads are in flight together.
    const auto failure = slab_failure::unpack(head().failure.load<order::relaxed>());
    entries = head().count.load<order::relaxed>();
    spread = head().spread.load<order::relaxed>();
    const std::uint64_t high_water = head().high_water.load<order::relaxed>();
    // If reservations have run beyond the existing slabs, other groups are already creating new slabs.
    const bool beyond = high_water > position_of(entries);
    const bool probes = stage == search_stage::reserving && !beyond && spread != 0;
    const bool known =
        !probes && failure.why != failure_reason::none && known_lack(opening.h, 0) != failure_reason::none;
    // A reservation at or beyond `spread` comes to an index without a slab, and creates one. So does one at the place
    // of a retired slab, which is allowed although the class has room: hints that lead to an empty place would make a
    // search each time.
    const bool opens = high_water >= position_of(spread);
    const bool roomy = read_sample(opening.h, s.page_class).is_roomy(s.pages);
    return (known || !beyond ? facts::may_probe : 0) | (known ? facts::is_exhausted : 0) |
           (roomy && opens ? facts::has_room : 0);
}

/// Returns the stage that follows. Each lane calls it for itself; the arguments and the members that it reads are the
/// same in all lanes of a group, and so is the result. No memory access.
///
///                    has_room, at most 4 times
///                       +---------+
///                       v         |
///     begin -------> probing -----+---------------------------> scanning --(contested)--> scanning
///       |               ^     \                is_exhausted      ^  |  |
///       |     may_probe |      v                                 |  |  +--------(is_final)-----> ended
///       +----------> reserving ----------(no slab: `why`)--------+  |
///                       ^                                           |
///                       +------(no free page: hole, reclaim)--------+
///
/// - Probing and reserving alternate. A search begins as if reserved positions had just been used up.
/// - A scan that saw no free page leads to `reserving` with `scanned` set: `choose_hole` chooses an index, and
///   `open_wanted` waits for a reclaim and asks once more. A scan after that (`opening.reclaim` != 0) is the last one,
///   unless others got segments meanwhile (`is_worth_another`). Reasons other than shortage are final without a
///   reclaim.
/// - A search that is late, without any other reason, has the reason service_not_responding: it scans once and ends.
/// - A closing heap ends a search at once. A group in which each lane has a page ends in any stage (`advance`).
///
/// @param known  a set of `facts`
inline ORCHARD_FN search_stage page_search::next_stage(std::uint32_t known) {
    const bool late = (known & facts::is_late) != 0;
    if (late && why == failure_reason::none) {
        why = failure_reason::service_not_responding;
    }
    if (why == failure_reason::closing) {
        return search_stage::ended;
    }
    if (stage == search_stage::scanning) {
        if (contested && !late) {
            return search_stage::scanning;
        }
        const bool final = (known & facts::is_final) != 0 || (opening.reclaim != 0 && late);
        if (final || (why != failure_reason::none && !is_shortage(why))) {
            return search_stage::ended;
        }
        why = failure_reason::none;
        scanned = true;
        return search_stage::reserving;
    }
    if (why != failure_reason::none) {
        return search_stage::scanning;
    }
    if (stage == search_stage::reserving && (known & facts::may_probe) != 0 && spread != 0) {
        return search_stage::probing;
    }
    if ((known & facts::is_exhausted) != 0 && !scanned) {
        return search_stage::scanning;
    }
    constexpr std::uint32_t max_again = 4;
    if (stage == search_stage::probing && (known & facts::has_room) != 0 && again < max_again) {
        ++again;
        return search_stage::probing;
    }
    return search_stage::reserving;
}

/// Chooses the next stage of each group whose stage is over. Returns whether a group begins a scan. The lanes of a
/// group decide by the values that their leader read, so that they decide alike. Cost: a ballot if no stage is over.
inline ORCHARD_NOINLINE bool page_search::plan() {
    const bool on = left == 0 && stage != search_stage::ended;
    if (simt::ballot(s.here, on) == 0) {
        return false;
    }
    std::uint32_t known = on && is_leader(s.group) ? read_head() : 0;
    known = s.from_own_leader(known | (is_late() ? facts::is_late : 0));
    if (on && stage == search_stage::scanning && opening.reclaim != 0 &&
        !is_worth_another(opening.h, s.group, got_before, reclaims, 1)) {
        known |= facts::is_final;
    }
    const std::uint32_t agreed_entries = s.from_own_leader(entries);
    const std::uint32_t agreed_spread = s.from_own_leader(spread);
    if (on) {
        ++steps;
        entries = agreed_entries;
        spread = agreed_spread;
        stage = next_stage(known);
    }
    return simt::ballot(s.here, on && stage == search_stage::scanning) != 0;
}

/// Gives the lanes that lack a page, `lacking`, consecutive positions from `first` on, and divides the pages there
/// among them (`reach`). All lanes of a group call it.
inline ORCHARD_FN void page_search::take_positions(std::uint64_t first, lane_mask lacking) {
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(lacking));
    const auto count = static_cast<std::uint32_t>(simt::popcount(lacking));
    left = 1;
    if (!s.lacks()) {
        return;
    }
    go_to(first + rank);
    wanted = ones<std::uint64_t>(reach(rank, count), page % 64);
}

/// Reserves as many pages as the group lacks, in the groups with `on`. Cost: one atomic of each such leader. Relaxed: a
/// reserved position is no claim, and the bitmap decides. A reserved page that the group does not take stays free.
inline ORCHARD_FN void page_search::reserve_pages(bool on) {
    const lane_mask lacking = s.without();
    std::uint64_t reservation = 0;
    if (on && is_leader(s.group)) {
        opening.h.add(counter::reservations, 1);
        reservation = head().high_water.fetch_add<order::relaxed>(static_cast<std::uint64_t>(simt::popcount(lacking)));
    }
    reservation = simt::shuffle(s.here, reservation, simt::leader_of(s.group));
    if (on) {
        take_positions(reservation, lacking);
    }
}

/// Begins a scan of all words in the groups with `on`. Each warp begins at a different part, so that warps that scan at
/// the same time do not want the same pages. Cost: one atomic of each such leader.
inline ORCHARD_FN void page_search::begin_scan(bool on) {
    std::uint32_t newest = 0;
    if (on && is_leader(s.group)) {
        opening.h.add(counter::scans, 1);
        // A scan must cover the newest count, which a read-modify-write reads. `reserve_index` raises the count before
        // a slab can appear at an index.
        newest = head().count.fetch_add<order::acquire>(0);
    }
    newest = s.from_own_leader(newest);
    if (!on) {
        return;
    }
    entries = newest;
    // The last scan met groups that were claiming pages or creating a slab: give them time to finish.
    if (contested) {
        simt::pause(500);
    }
    // Less than 2^32: the bitmaps of that many words would exceed the memory of any device.
    left = entries * parts();
    const std::uint32_t own = static_cast<std::uint32_t>(simt::position().global_warp()) * golden_ratio;
    part = fraction_of(left, own);
    contested = false;
    hole = no_index;
    parts_in_step = 1;
}

/// Chooses where a group asks for a slab after a scan that saw no free page: at an empty index that it saw, else at the
/// next index of the table. The group also needs a reclaim that begins now. The groups of a warp do this together, so
/// that one reclaim serves all. Cost: one atomic of each such leader (`next_reclaim`).
///
/// An empty index may lie below the high-water mark: its slab was retired, or no segment was got for it. No reservation
/// leads there, so that the group sets its position itself.
inline ORCHARD_NOINLINE void page_search::choose_hole(bool on) {
    if (simt::ballot(s.here, on) == 0) {
        return;
    }
    const lane_mask seen = s.group & simt::ballot(s.here, on && hole != no_index);
    const std::uint32_t chosen = simt::shuffle(s.here, hole, seen != 0 ? simt::lowest_bit(seen) : simt::lane_id());
    const lane_mask lacking = s.without();
    if (on) {
        take_positions(position_of(seen != 0 ? chosen : entries), lacking);
        // One slab at a time, so that a failure is that of a request for one segment.
        wanted = is_leader(lacking) ? wanted : 0;
        got_before = segments_got(opening.h, s.group);
        opening.reclaim = next_reclaim(opening.h, s.group);
        ++reclaims;
    }
}

/// Begins the new stage of each group that has just entered one. All searching lanes call it together.
inline ORCHARD_NOINLINE void page_search::begin_stages() {
    const bool on = left == 0;
    const bool reserves = on && stage == search_stage::reserving;
    if (simt::ballot(s.here, reserves) != 0) {
        reserve_pages(reserves && !scanned);
        choose_hole(reserves && scanned);
    }
    // Two steps of two words for each lane, or of four: a full warp looks at up to 128 or 256 words before it reserves.
    if (on && stage == search_stage::probing) {
        left = 2;
    }
    const bool scans = on && stage == search_stage::scanning;
    if (simt::ballot(s.here, scans) != 0) {
        begin_scan(scans);
    }
}

/// Returns whether all searches have ended, after `begin_stages` if a group has entered a new stage.
inline ORCHARD_NOINLINE bool page_search::begin() {
    if (simt::ballot(s.here, left == 0 && stage != search_stage::ended) != 0) {
        begin_stages();
    }
    return simt::ballot(s.here, stage != search_stage::ended) == 0;
}

/// Prepares the slabs that lanes need: sets `opening`. Each lane calls it for itself. A lane's opening fails if the
/// table has no such index. `opening.bits` are the reserved pages of one word, which the lane claims before it
/// publishes the slab.
inline ORCHARD_NOINLINE void page_search::begin_opening() {
    opening.begin();
    if (missing) {
        opening.index = index;
        opening.word = page / 64;
        opening.bits = wanted;
        opening.step = opening_step::wanted;
        if (opening.index >= opening.h.max_slabs) {
            opening.fail(failure_reason::out_of_memory_device_budget);
        }
    }
}

/// Takes the results of the openings. If a lane of the group knows why there is no slab, the group does. All searching
/// lanes call it together.
///
///     result                              then
///     the lane created the slab           it has claimed pages: `claim` shares them in this step
///     another lane created it             `missing` stays set: the next step looks at the same position again
///     no segment                          `why`; the high-water mark falls to the index, which is usually empty again
inline ORCHARD_NOINLINE void page_search::end_opening() {
    const lane_mask failed = s.group & simt::ballot(s.here, opening.why != failure_reason::none);
    const lane_mask makers = s.group & simt::ballot(s.here, opening.made);
    const std::uint32_t reason = simt::shuffle(s.here, static_cast<std::uint32_t>(opening.why),
                                               failed != 0 ? simt::lowest_bit(failed) : simt::lane_id());
    why = failed != 0 ? static_cast<failure_reason>(reason) : why;
    opened = opened || makers != 0;
    if (opening.why != failure_reason::none) {
        // The next reservation comes to this index again. Otherwise failures would leave empty indices behind the mark.
        head().high_water.lower<order::relaxed>(position_of(opening.index));
    }
    if (opening.made) {
        missing = false;
        s.seen = {opening.segment, opening.word, opening.bits};
        s.claimed = true;
    }
}

/// Returns the address of a page that was found for a request.
/// @param request  as in `search_page`
inline ORCHARD_FN void* give_page(const heap_view& h, const found_page& page, std::uint32_t page_class,
                                  std::uint64_t request) {
    char* const p = h.address(page.segment) + std::uint64_t{page.page} * class_bytes(page_class);
    if (h.instrumented != 0) {
        instrument_block(h, p, class_bytes(page_class), asked_word::number(request), asked_word::asked(request));
    }
    return p;
}

/// Ends a walk that has found a page: returns its address, after it has created a slab ahead of need if the class is
/// nearly full. Walks find a last free page sooner or later, and would otherwise keep the class as it is. Each lane
/// calls it for itself.
ORCHARD_INLINE void* end_walk(const heap_view& h, const page_walk& w) {
    void* const p = give_page(h, w.mine, w.page_class, w.request);
    if (w.tight) {
        grow_ahead(h, w.page_class, h.state->slabs[w.page_class].spread.load<order::relaxed>());
    }
    return p;
}

/// The memory of a walk, and then of the search behind it: the stack is reserved for each thread that the GPU can hold.
union walk_or_search {
    page_walk walk;
    page_search search;
    ORCHARD_FN walk_or_search() {}
};

/// Ends the search. Returns the lane's page, or null after recording the reason. Each lane calls it for itself.
inline ORCHARD_NOINLINE void* page_search::finish() {
    if (is_leader(s.group)) {
        opening.h.add(counter::probes, steps);
    }
    if (!s.lacks()) {
        return give_page(opening.h, s.mine, s.page_class, request);
    }
    record_no_page(opening.h, why, asked_word::number(request), s.page_class);
    return nullptr;
}

/// Gets the slabs that lanes need. Before that, each lane frees one block that the host has freed, if there is one.
ORCHARD_INLINE void open_slabs(page_search& p) {
    (void)apply_host_free(p.opening.h);
    simt::sync(p.s.here);
    p.begin_opening();
    open_wanted(p.opening);
    p.end_opening();
}

/// Frees blocks that the host has freed, so that scans find their pages. The barrier orders the frees of all lanes
/// before the scans of all.
inline ORCHARD_NOINLINE void free_before_scans(page_search& p) {
    std::uint64_t freed = 0;
    (void)free_for_host(p.opening.h, &freed);
    simt::sync(p.s.here);
}

/// Returns a page for the calling lane, or null, whose reason is recorded. All lanes of `here` call it, converged;
/// `group` are those that ask the same heap for the same class. Waits, until the deadline, for slabs that are being
/// created. Cost: a walk; then four to six dependent memory accesses for each step, usually one or two steps.
///
/// Errors, as recorded: those of `acquire` (out of memory, commit_failed, commit_blocked, closing);
/// service_not_responding also if the deadline of the search has passed. A shortage of memory is an error only after a
/// scan without a free page, a reclaim that began afterwards, and another failure.
///
/// @param request       bytes that this lane asks for, for the record of a failure; with the program's request above
///     them in an instrumented heap (`asked_word`)
/// @param hint_segment  the segment of the slab at the hint; no segment of the heap if there was none
inline ORCHARD_NOINLINE void* search_page(const heap_view& h, lane_mask here, lane_mask group, std::uint32_t page_class,
                                          std::uint64_t request, std::uint32_t hint_segment) {
    if (is_leader(group)) {
        h.add(counter::searches, 1);
    }
    walk_or_search memory;
    page_walk& w = *::new (&memory.walk) page_walk{here, group, page_class, request, hint_segment};
    if (simt::popcount(group) <= max_walkers) {
        walk(h, w);
        w.segment = hint_claim::nothing;  // a search need not look there again
    }
    const bool found = w.mine.page != found_page::none;
    w.here = simt::ballot(w.here, !found);
    if (found) {
        return end_walk(h, w);
    }
    const bool tight = w.tight;
    page_search& p =
        *::new (&memory.search) page_search(h, w.here, w.group & w.here, w.page_class, w.request, w.segment);
    p.tight = tight;
    ORCHARD_NO_UNROLL
    for (;;) {
        if (p.plan()) {
            free_before_scans(p);
        }
        if (p.begin()) {
            break;
        }
        if (p.look()) {
            open_slabs(p);
        }
        const bool saw = p.s.claim();
        p.s.share();
        p.advance(saw);
    }
    // Upkeep, once for a search: a class that has grown looks for slabs that other classes no longer need.
    if (p.opened) {
        collect_empty_slabs(p.opening.h, p.s.group);
    }
    if (p.tight && is_leader(p.s.group)) {
        grow_ahead(p.opening.h, p.s.page_class, p.head().spread.load<order::relaxed>());
    }
    simt::sync(p.s.here);
    return p.finish();
}

}  // namespace orchard::device
