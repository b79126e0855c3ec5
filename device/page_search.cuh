// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The search for pages where the homes had none: a collaborative random walk, tickets for fresh pages, and a sweep.
///
/// 1. *Probing.* Every lane looks at random words. A lane that sees enough for its group claims it; otherwise the lanes
///    that see something share.
/// 2. *Redeeming.* A ticket names the next pages of the class's sequence of slabs. So demand says exactly which slabs
///    are missing. The group that comes to such a place first gets a segment for it, the other groups wait for it.
/// 3. *Sweeping.* Where no segment is to be had, all words are looked at. Null only where that saw no free page.
///
/// A step looks at words as its stage says, and then claims and shares what was seen (page_share.cuh); the groups of a
/// warp make their steps together, each in its own stage.
/// Source: M. Pham et al., ICS 2022, section 4 (collaborative random walk); tickets and shares are Orchard's own.

#include "device/host_frees.cuh"
#include "device/page_looks.cuh"

namespace orchard::device {

// --- going on ---

inline ORCHARD_FN void page_search::advance_ticket() {
    if (why != failure_reason::none) {
        left = 0;
    } else if (!missing) {
        const std::uint64_t next = (position >> log_pages()) + 1;
        if (!served && next < places && is_leader(s.group)) {
            head().frontier.raise<order::relaxed>(next << log_pages());  // not fresh: on to the next slab
        }
        const std::uint32_t n = reach();
        position += n;
        left -= n;
    }
}

inline ORCHARD_FN void page_search::advance_sweep() {
    if (!served) {  // otherwise there may be more at the same place
        const auto width = static_cast<std::uint32_t>(simt::popcount(s.group));
        const std::uint32_t total = places * parts();
        const std::uint32_t next = static_cast<std::uint32_t>(position) + width;
        position = next < total ? next : next - total;
        left -= width < left ? width : left;
    }
}

/// Goes on to what the stage looks at next. `saw`: a lane of the group has seen free pages in the step before.
inline ORCHARD_NOINLINE void page_search::advance(bool saw) {
    contested = contested || saw;
    served = (s.group & simt::ballot(s.here, served && !s.lacks())) != 0;
    switch (stage) {
        case search_stage::probing:
            --left;
            if (nearby) {
                nearby = false;
                stage = search_stage::redeeming;  // as a search begins that knows no slab
            }
            break;
        case search_stage::redeeming: advance_ticket(); break;
        case search_stage::sweeping: advance_sweep(); break;
        case search_stage::ended: break;
    }
    if (s.without() == 0) {
        stage = search_stage::ended;
    }
}

// --- from one stage to the next ---

/// Reading the clock is dear, and most searches end soon. Each lane for itself.
inline ORCHARD_FN bool page_search::is_late() {
    constexpr int unit = 16;  // 65 us, so that 32 bits reach for days
    if (why == failure_reason::none && steps % 8 != 7) {
        return false;
    }
    const auto now = static_cast<std::uint32_t>(simt::clock_ns() >> unit) | 1;
    started = started != 0 ? started : now;
    return now - started > static_cast<std::uint32_t>(4 * opening.h.mailboxes[0].timeout_ns >> unit) + 1;
}

/// Returns whether random looks say that the class has room; lets old looks count less. A leader, alone.
inline ORCHARD_FN bool page_search::is_roomy() {
    const std::uint64_t word = head().sample.load<order::relaxed>();
    const fill_sample sample = fill_sample::unpack(word);
    if (sample.words >= fill_sample::most_words) {
        std::uint64_t found = word;
        head().sample.compare_exchange<order::relaxed>(found, fill_sample::pack(sample.words / 2, sample.free / 2));
    }
    return sample.is_roomy(s.pages);
}

/// Reads the head of the class's slab table: `places`, `spread`, and what follows for `next_stage`. A leader, alone, so
/// that a hot line is read once for a group.
inline ORCHARD_FN std::uint32_t page_search::read_head() {
    // Before null is returned, the newest value.
    places =
        why != failure_reason::none ? head().count.fetch_add<order::acquire>(0) : head().count.load<order::relaxed>();
    const bool known = head().refusal.load<order::relaxed>() % 256 != 0;
    spread = head().spread.load<order::relaxed>();
    const std::uint64_t frontier = head().frontier.load<order::relaxed>();
    // Where demand has run beyond what there is, others are getting new slabs already.
    const bool beyond = frontier > std::uint64_t{places} << log_pages();
    const bool opens = frontier >= std::uint64_t{spread} << log_pages();
    return (known || !beyond ? facts::may_probe : 0) | (known ? facts::is_refused : 0) |
           (is_roomy() && opens ? facts::has_room : 0);
}

/// @param known  of `facts`
inline ORCHARD_FN search_stage page_search::next_stage(std::uint32_t known) {
    const bool late = (known & facts::is_late) != 0;
    if (late && why == failure_reason::none) {
        why = failure_reason::service_not_answering;
        return search_stage::sweeping;
    }
    if (why == failure_reason::closing) {
        return search_stage::ended;
    }
    if (why != failure_reason::none) {
        if (stage != search_stage::sweeping) {
            return search_stage::sweeping;
        }
        surveys = is_shortage(why) && !contested && !surveyed;
        return surveys || (contested && !late) ? search_stage::sweeping : search_stage::ended;
    }
    if (stage == search_stage::redeeming && (known & facts::may_probe) != 0 && spread != 0) {
        return search_stage::probing;
    }
    if ((known & facts::is_refused) != 0 && !swept && places != 0) {
        swept = true;
        return search_stage::sweeping;
    }
    constexpr std::uint32_t most_again = 4;
    if (stage == search_stage::probing && (known & facts::has_room) != 0 && again < most_again) {
        ++again;
        return search_stage::probing;
    }
    return search_stage::redeeming;
}

/// Where a stage is over: what follows. Whether a group must look at the slab table first.
inline ORCHARD_NOINLINE bool page_search::plan() {
    surveys = false;
    const bool on = left == 0 && stage != search_stage::ended;
    if (simt::ballot(s.here, on) == 0) {
        return false;
    }
    std::uint32_t known = on && is_leader(s.group) ? read_head() : 0;
    known = s.from_own_leader(known | (is_late() ? facts::is_late : 0));
    const std::uint32_t agreed_places = s.from_own_leader(places);
    const std::uint32_t agreed_spread = s.from_own_leader(spread);
    if (on) {
        ++steps;
        places = agreed_places;
        spread = agreed_spread;
        stage = next_stage(known);
    }
    return simt::ballot(s.here, surveys) != 0;
}

/// A ticket for as many pages as the group lacks.
inline ORCHARD_FN void page_search::buy_ticket(bool on) {
    const auto n = static_cast<std::uint32_t>(simt::popcount(s.without()));
    std::uint64_t ticket = 0;
    if (on && is_leader(s.group)) {
        opening.h.add(counter::tickets, 1);
        ticket = head().frontier.fetch_add<order::relaxed>(n);
    }
    ticket = simt::shuffle(s.here, ticket, simt::leader_of(s.group));
    if (on) {
        position = ticket;
        left = n;
    }
}

/// All words, from where the warp's share of them begins: warps begin apart from each other. Each lane for itself.
inline ORCHARD_FN void page_search::begin_sweep() {
    if (is_leader(s.group)) {
        opening.h.add(counter::sweeps, 1);
    }
    if (why != failure_reason::none) {
        simt::pause(500);
    }
    // Less than 2^32: the bitmaps of so many words would fill any device.
    left = places * parts();
    const std::uint32_t own = static_cast<std::uint32_t>(simt::position().global_warp()) * golden_ratio;
    position = std::uint64_t{own} * left >> 32;
    contested = false;
}

/// Begins the stages of the groups that have just come to one. Whether all searches have ended.
inline ORCHARD_NOINLINE bool page_search::begin() {
    const bool on = left == 0;
    const bool buys = on && stage == search_stage::redeeming;
    if (simt::ballot(s.here, buys) != 0) {
        buy_ticket(buys);
    }
    if (on && stage == search_stage::probing) {
        left = 2;
    }
    if (on && stage == search_stage::sweeping) {
        begin_sweep();
    }
    return simt::ballot(s.here, stage != search_stage::ended) == 0;
}

/// Makes ready to open the place that the ticket is at. All lanes of a group.
inline ORCHARD_NOINLINE bool page_search::begin_opening() {
    const std::uint32_t n = reach();
    opening.place = static_cast<std::uint32_t>(position >> log_pages());
    opening.word = ticket_page() / 64;
    opening.bits = (n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1) << ticket_page() % 64;
    opening.entry = 0;
    opening.made = false;
    opening.why = failure_reason::out_of_memory_device_budget;
    if (swept && opening.got.refused_at == 0) {
        // As good as refused: others of the class were, and a sweep since has left the group without.
        opening.got.refused_at = next_clearance(opening.h, s.group);
    }
    return opening.place < opening.h.places;
}

/// After that: the group has a slab there, or knows why there is none.
inline ORCHARD_NOINLINE void page_search::end_opening() {
    if (opening.entry == 0) {
        why = opening.why;
        if (is_leader(s.group)) {
            head().frontier.lower<order::relaxed>(std::uint64_t{opening.place} << log_pages());
        }
        return;
    }
    surveyed = false;
    missing = !opening.made;
    opened = opened || opening.made;
    if (opening.made && is_leader(s.group)) {
        s.seen = {opening.entry - 1, opening.word, opening.bits};
        s.claimed = true;
    }
}

/// Looks at the slab table of a group; where a place is empty, the group gets a ticket for that. All lanes of the
/// group.
inline ORCHARD_NOINLINE void page_search::look_at_table() {
    surveyed = true;
    const std::uint32_t hole = survey(opening.h, s.group, s.page_class, places);
    if (hole != no_place) {
        // What was proven before is of no use: there may have been a page at that time, whose slab has become free
        // behind the group's back.
        opening.got.refused_at = next_clearance(opening.h, s.group);
        why = failure_reason::none;
        stage = search_stage::redeeming;
        position = std::uint64_t{hole} << log_pages();
        left = static_cast<std::uint32_t>(simt::popcount(simt::ballot(s.group, s.lacks())));
    }
}

/// Which groups are to act one after the other.
inline ORCHARD_NOINLINE void page_search::take_turns(bool wanted) {
    turns = simt::ballot(s.here, wanted && is_leader(s.group));
}

/// Whether it is the turn of this lane's group.
ORCHARD_INLINE bool page_search::is_its_turn() const { return (s.group >> simt::lowest_bit(turns) & 1) != 0; }

/// Ends a turn. What one class of a heap was refused the others need not wait to find out.
inline ORCHARD_NOINLINE void page_search::end_turn() {
    const int lane = simt::lowest_bit(turns);
    const std::uint64_t refused_at = simt::shuffle(s.here, opening.got.refused_at, lane);
    const std::uint64_t heap = simt::shuffle(s.here, reinterpret_cast<std::uintptr_t>(opening.h.state), lane);
    if (opening.got.refused_at == 0 && heap == reinterpret_cast<std::uintptr_t>(opening.h.state)) {
        opening.got.refused_at = refused_at;
    }
    turns &= turns - 1;
    simt::sync(s.here);
}

/// At the end: the lane's page, or null, whose reason is recorded.
inline ORCHARD_NOINLINE void* page_search::finish() {
    if (is_leader(s.group)) {
        opening.h.add(counter::searches, 1);
        opening.h.add(counter::probes, steps);
    }
    if (!s.lacks()) {
        return opening.h.address(s.mine.segment) + std::uint64_t{s.mine.page} * class_bytes(s.page_class);
    }
    record_no_page(opening.h, why, bytes, s.page_class);
    return nullptr;
}

/// Gets slabs for the groups whose tickets ask for them.
ORCHARD_INLINE void open_places(page_search& p) {
    (void)apply_host_free(p.opening.h);
    simt::sync(p.s.here);
    ORCHARD_NO_UNROLL
    for (p.take_turns(p.missing); p.turns != 0; p.end_turn()) {
        if (p.is_its_turn()) {
            if (p.begin_opening()) {
                open_place(p.opening);
            }
            p.end_opening();
        }
    }
}

/// After the blocks that the host had freed were freed: groups that still lack pages look for a slab again.
inline ORCHARD_NOINLINE void page_search::look_again(bool freed) {
    const lane_mask all = simt::ballot(s.here, freed);
    if (all != 0) {
        opening.got.refused_at = 0;  // that it was refused then says nothing any more
    }
    if ((s.group & all) != 0 && surveys) {
        why = failure_reason::none;
    }
}

/// Looks at the slab table for the groups whose sweeps saw nothing.
ORCHARD_INLINE void survey_tables(page_search& p) {
    std::uint64_t freed = p.opening.h.host_frees->freed.load<order::relaxed>();
    p.look_again(free_for_host(p.opening.h, &freed));
    ORCHARD_NO_UNROLL
    for (p.take_turns(p.surveys); p.turns != 0; p.end_turn()) {
        if (p.is_its_turn()) {
            p.look_at_table();
        }
    }
}

/// A page for every lane of `here`, as far as there are any, or null, whose reason is recorded; all of them are
/// converged. `group`: those of the lane's own heap and class. Waits for slabs that are on their way, until the
/// deadline.
/// Cost: four trips to memory for each step; mostly one or two.
inline ORCHARD_NOINLINE void* search_page(const heap_view& h, lane_mask here, lane_mask group, std::uint32_t page_class,
                                          std::uint64_t bytes, std::uint32_t home_segment) {
    page_search p(h, here, group, page_class, bytes, home_segment);
    ORCHARD_NO_UNROLL
    for (;;) {
        if (p.plan()) {
            survey_tables(p);
        }
        if (p.begin()) {
            break;
        }
        if (p.look()) {
            open_places(p);
        }
        const bool saw = p.s.claim();
        p.s.share();
        p.advance(saw);
    }
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
