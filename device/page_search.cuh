// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The search for pages where the homes had none: a collaborative random walk, tickets for fresh pages, and a sweep.
///
/// 1. *Probing.* Every lane looks at random words; who sees enough for its group claims it, else those that see
///    something share.
/// 2. *Redeeming.* A ticket names the next pages of the class's sequence of slabs. So demand says exactly which slabs
///    are missing, and whoever comes to such a place first gets a segment for it, others wait for him.
/// 3. *Sweeping.* Where no segment is to be had, all words are looked at. Null only where that saw no free page.
///
/// A step looks at words as its stage says, and then claims and shares what was seen (page_share.cuh); the groups of a
/// warp make their steps together, each in its own stage.
/// Source: M. Pham et al., ICS 2022, section 4 (collaborative random walk); tickets and shares are Orchard's own.

#include "device/page_share.cuh"
#include "device/page_survey.cuh"

namespace orchard::device {

/// What a group does in its next step.
enum class search_stage : std::uint32_t { probing, redeeming, sweeping, ended };

/// One lane's part in a search. Unless it says otherwise, a value is the same in all lanes of a group, and a function is
/// a collective of all lanes that search.
class page_search {
public:
    ORCHARD_INLINE page_search(const heap_view& h, lane_mask here, lane_mask group, std::uint32_t page_class)
        : h_{h}, s_{h, here, group, page_class} {}

    /// A page for every lane, as far as there are any. Waits for slabs that are on their way, until the deadline.
    ORCHARD_INLINE found_page run() {
        turn(true);
        while (simt::ballot(s_.here, stage_ != search_stage::ended) != 0) {
            bool missing = false;
            bool growing = false;
            const seen_word seen = look(missing, growing);
            missing = s_.from_own_leader(missing ? 1 : 0) != 0;
            open(missing);
            const bool lacked = s_.lacks();
            const bool saw = claim_and_share(s_, seen);
            const bool served = (s_.group & simt::ballot(s_.here, lacked && !s_.lacks())) != 0;
            const bool comes = (s_.group & simt::ballot(s_.here, growing)) != 0;
            contested_ = contested_ || saw || comes;
            const bool over = advance(missing, served);
            if (s_.without() == 0) {
                stage_ = search_stage::ended;
            }
            const bool turns = over && stage_ != search_stage::ended;
            if (simt::ballot(s_.here, turns) != 0) {
                turn(turns);
            }
        }
        if (is_leader(s_.group)) {
            count();
        }
        simt::sync(s_.here);
        return s_.lacks() ? no_page(why_) : s_.mine;
    }

private:
    /// A word with fewer free pages makes the search open one more slab, ahead of need.
    static constexpr int nearly_full = 16;
    /// Words that a lane of a sweep looks at side by side.
    static constexpr std::uint32_t at_once = 4;

    [[nodiscard]] ORCHARD_INLINE slab_table_head& head() const { return h_.state->slabs[s_.page_class]; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t log_pages() const { return shape_of(s_.page_class).log_pages(); }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t width() const {
        return static_cast<std::uint32_t>(simt::popcount(s_.group));
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t rank() const {
        return static_cast<std::uint32_t>(simt::rank_in(s_.group));
    }
    /// Of a slab, for a sweep.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t parts() const { return (s_.words() + at_once - 1) / at_once; }

    /// Runs `act` for one group at a time of those for which `wanted`; the others stand by.
    template <class Act>
    ORCHARD_INLINE void by_turns(bool wanted, Act act) {
        for (lane_mask leaders = simt::ballot(s_.here, wanted && is_leader(s_.group)); leaders != 0;
             leaders &= leaders - 1) {
            if ((s_.group >> simt::lowest_bit(leaders) & 1) != 0) {
                act();
            }
            simt::sync(s_.here);
        }
    }

    /// Looks as the stage says. Each lane for itself.
    ORCHARD_INLINE seen_word look(bool& missing, bool& growing) {
        switch (stage_) {
            case search_stage::probing: return look_at_two();
            case search_stage::redeeming: return is_leader(s_.group) ? redeem(missing) : seen_word{};
            case search_stage::sweeping: return look_at_four(growing);
            case search_stage::ended: break;
        }
        return {};
    }

    /// Two random words of a random slab.
    ORCHARD_INLINE seen_word look_at_two() {
        const std::uint32_t entry = s_.slabs.table[s_.below(places_)].load<order::relaxed>();
        if (!is_slab_entry(entry)) {
            return {};
        }
        const std::uint32_t first = s_.below(s_.words());
        const std::uint32_t second = s_.below(s_.words());
        const std::uint64_t in_first = s_.free_in(entry - 1, first);
        const std::uint64_t in_second = s_.free_in(entry - 1, second);
        tight_ = tight_ || simt::popcount(in_first) < nearly_full;
        const bool swap = simt::popcount(in_second) > simt::popcount(in_first);
        return {entry - 1, swap ? second : first, swap ? in_second : in_first};
    }

    /// How many of the ticket's next positions one look takes: up to the end of a word, or of what is void.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t reach() const {
        const std::uint32_t page = static_cast<std::uint32_t>(position_) & ((1u << log_pages()) - 1);
        const std::uint32_t in_word = 64 - page % 64;
        const std::uint32_t in_slab = (page < s_.pages ? s_.pages : 1u << log_pages()) - page;
        const std::uint32_t n = page >= s_.pages || in_slab < in_word ? in_slab : in_word;
        return n < left_ ? n : left_;
    }
    /// The ticket's next pages; `missing` where no slab is there yet. A leader, alone.
    ORCHARD_INLINE seen_word redeem(bool& missing) const {
        const auto place = static_cast<std::uint32_t>(position_ >> log_pages());
        const std::uint32_t page = static_cast<std::uint32_t>(position_) & ((1u << log_pages()) - 1);
        if (page >= s_.pages) {
            return {};
        }
        const std::uint32_t entry = place < h_.segments ? s_.slabs.table[place].load<order::acquire>() : 0;
        if (!is_slab_entry(entry)) {
            missing = true;
            return {};
        }
        const std::uint32_t n = reach();
        const std::uint64_t ones = n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
        return {entry - 1, page / 64, ones << page % 64};
    }

    /// Four words of a slab, the lanes of the group side by side: the one with most free pages.
    ORCHARD_INLINE seen_word look_at_four(bool& growing) const {
        seen_word best;
        if (rank() >= left_) {
            return best;
        }
        const std::uint32_t total = places_ * parts();
        const std::uint32_t next = static_cast<std::uint32_t>(position_) + rank();
        const std::uint32_t at = next < total ? next : next - total;
        const std::uint32_t entry = s_.slabs.table[at / parts()].load<order::relaxed>();
        growing = entry == growing_entry;
        if (is_slab_entry(entry)) {
            best.segment = entry - 1;
            ORCHARD_UNROLL
            for (std::uint32_t i = 0; i < at_once; ++i) {
                const std::uint32_t word = at % parts() * at_once + i;
                const std::uint64_t bits = word < s_.words() ? s_.free_in(entry - 1, word) : 0;
                if (simt::popcount(bits) > simt::popcount(best.free_bits)) {
                    best.word = word;
                    best.free_bits = bits;
                }
            }
        }
        return best;
    }

    /// Gets slabs for the groups whose tickets ask for them. A group that gets none knows `why_`.
    ORCHARD_INLINE void open(bool wanted) {
        by_turns(wanted, [&] {
            const auto place = static_cast<std::uint32_t>(position_ >> log_pages());
            opened_place o{0, failure_reason::out_of_memory_device_budget};
            if (place < h_.segments) {
                o = open_place(h_, s_.group, s_.page_class, place);
            }
            if (o.entry == 0) {
                why_ = o.why;
                if (is_leader(s_.group)) {
                    head().frontier.lower<order::relaxed>(std::uint64_t{place} << log_pages());
                }
            }
        });
    }

    /// On to what the stage looks at next; whether it is over. Each lane for itself.
    ORCHARD_INLINE bool advance(bool missing, bool served) {
        switch (stage_) {
            case search_stage::probing: --left_; break;
            case search_stage::redeeming: advance_ticket(missing, served); break;
            case search_stage::sweeping: {
                if (served) {
                    break;  // there may be more
                }
                const std::uint32_t total = places_ * parts();
                const std::uint32_t next = static_cast<std::uint32_t>(position_) + width();
                position_ = next < total ? next : next - total;
                left_ -= width() < left_ ? width() : left_;
                break;
            }
            case search_stage::ended: return false;
        }
        return left_ == 0;
    }
    ORCHARD_INLINE void advance_ticket(bool missing, bool served) {
        if (why_ != failure_reason::none) {
            left_ = 0;
        } else if (!missing) {
            const std::uint64_t next = (position_ >> log_pages()) + 1;
            if (!served && next < places_ && is_leader(s_.group)) {
                head().frontier.raise<order::relaxed>(next << log_pages());  // not fresh: on to the next slab
            }
            const std::uint32_t n = reach();
            position_ += n;
            left_ -= n;
        }
    }

    /// What follows a stage that is over; the newest number of places, where null may follow.
    ORCHARD_INLINE void turn(bool on) {
        const bool failing = why_ != failure_reason::none;
        const std::uint32_t places = on && failing && is_leader(s_.group)
                                         ? head().count.template fetch_add<order::acquire>(0)
                                         : head().count.template load<order::relaxed>();
        const std::uint64_t frontier = head().frontier.template load<order::relaxed>();
        const bool known = head().refusal.template load<order::relaxed>() % 256 != 0;
        // Where demand has run beyond what there is, others are getting new slabs already.
        const bool beyond = frontier > std::uint64_t{places} << log_pages();
        const std::uint32_t facts = (known || !beyond ? 1u : 0u) | (known ? 2u : 0u) | (is_late() ? 4u : 0u);
        const std::uint32_t agreed = s_.from_own_leader(facts);
        const std::uint32_t agreed_places = s_.from_own_leader(places);
        bool surveys = false;
        if (on) {
            places_ = agreed_places;
            stage_ = next_stage(agreed, surveys);
        }
        if (simt::ballot(s_.here, surveys) != 0) {
            by_turns(surveys, [&] { look_at_the_table(); });
        }
        const bool buys = on && stage_ == search_stage::redeeming;
        if (simt::ballot(s_.here, buys) != 0) {
            buy_ticket(buys);
        }
        if (on && stage_ == search_stage::probing) {
            left_ = 2;
        }
        if (on && stage_ == search_stage::sweeping) {
            begin_sweep();
        }
    }

    /// @param facts  1: probing may help; 2: the class was refused a slab; 4: the deadline is over
    ORCHARD_INLINE search_stage next_stage(std::uint32_t facts, bool& surveys) {
        if ((facts & 4) != 0 && why_ == failure_reason::none) {
            why_ = failure_reason::service_not_answering;
            return search_stage::sweeping;
        }
        if (why_ == failure_reason::closing) {
            return search_stage::ended;
        }
        if (why_ != failure_reason::none) {
            if (stage_ == search_stage::sweeping && !contested_) {
                surveys = !surveyed_;
                return surveyed_ ? search_stage::ended : search_stage::sweeping;
            }
            return stage_ == search_stage::sweeping && (facts & 4) != 0 ? search_stage::ended : search_stage::sweeping;
        }
        if (stage_ == search_stage::redeeming && (facts & 1) != 0 && places_ != 0) {
            return search_stage::probing;
        }
        if ((facts & 2) != 0 && !swept_ && places_ != 0) {
            swept_ = true;
            return search_stage::sweeping;
        }
        return search_stage::redeeming;
    }
    /// Reading the clock is dear, and most searches end soon. Each lane for itself.
    ORCHARD_INLINE bool is_late() {
        constexpr int unit = 16;  // 65 us, so that 32 bits reach for days
        if (why_ == failure_reason::none && steps_++ % 8 != 7) {
            return false;
        }
        const auto now = static_cast<std::uint32_t>(simt::clock_ns() >> unit) | 1;
        started_ = started_ != 0 ? started_ : now;
        return now - started_ > static_cast<std::uint32_t>(4 * h_.mailboxes[0].timeout_ns >> unit) + 1;
    }
    /// One group at a time.
    ORCHARD_INLINE void look_at_the_table() {
        surveyed_ = true;
        switch (survey(h_, s_.group, s_.page_class, places_, !refused_)) {
            case surveyed::opened: surveyed_ = false; break;
            case surveyed::refused: refused_ = true; break;
            case surveyed::nothing: break;
        }
    }
    /// A ticket for as many pages as the group lacks.
    ORCHARD_INLINE void buy_ticket(bool on) {
        const auto n = static_cast<std::uint32_t>(simt::popcount(s_.without()));
        std::uint64_t position = 0;
        if (on && is_leader(s_.group)) {
            h_.add(counter::tickets, 1);
            position = head().frontier.template fetch_add<order::relaxed>(n);
        }
        position = simt::shuffle(s_.here, position, simt::leader_of(s_.group));
        if (on) {
            position_ = position;
            left_ = n;
        }
    }
    /// All words, from where the warp's share of them begins: warps begin apart from each other. Each lane for itself.
    ORCHARD_INLINE void begin_sweep() {
        constexpr std::uint32_t golden_ratio = 0x9e3779b9u;
        if (is_leader(s_.group)) {
            h_.add(counter::sweeps, 1);
        }
        if (why_ != failure_reason::none) {
            simt::pause(500);
        }
        // Less than 2^32: the bitmaps of so many words would fill any device.
        left_ = places_ * parts();
        const std::uint32_t spread = static_cast<std::uint32_t>(simt::position().global_warp()) * golden_ratio;
        position_ = std::uint64_t{spread} * left_ >> 32;
        contested_ = false;
    }

    /// A leader, at the end.
    ORCHARD_INLINE void count() const {
        h_.add(counter::searches, 1);
        h_.add(counter::probes, steps_);
        if (tight_) {
            grow_ahead(h_, s_.page_class, head().count.template load<order::relaxed>());
        }
    }

    const heap_view& h_;
    page_seeker s_;
    search_stage stage_ = search_stage::redeeming;
    failure_reason why_ = failure_reason::none;  ///< why there is no further slab
    std::uint32_t places_ = 0;                   ///< of the class's table, to be looked at
    std::uint64_t position_ = 0;                 ///< redeeming: of the ticket; sweeping: the next part
    std::uint32_t left_ = 0;                     ///< looks, positions or parts that are left in the stage
    std::uint32_t steps_ = 0;
    std::uint32_t started_ = 0;  ///< when the clock was first read
    bool contested_ = false;     ///< a sweep saw a free page, or a slab on its way
    bool swept_ = false;         ///< before it asked for a slab, since it is known that there is none
    bool surveyed_ = false;      ///< after a sweep that saw nothing
    bool refused_ = false;       ///< a survey must not ask for a slab again
    bool tight_ = false;         ///< this lane saw a word that is nearly full
};

/// A page for every lane of `here`, as far as there are any; all of them are converged. `group`: those of the lane's
/// own heap and class.
/// Cost: four trips to memory for each step; mostly one or two.
inline ORCHARD_NOINLINE found_page find_page(const heap_view& h, lane_mask here, lane_mask group,
                                             std::uint32_t page_class) {
    return page_search(h, here, group, page_class).run();
}

}  // namespace orchard::device
