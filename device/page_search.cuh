// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The search for pages where the home had none: a collaborative random walk, tickets for fresh pages, and a sweep.
///
/// 1. Every lane looks at two random words; who sees enough for all claims it, else those that see something share.
/// 2. A ticket names the next pages of the class's sequence of slabs. So demand says exactly which slabs are missing,
///    and whoever comes to such a place first gets a segment for it, others wait for him.
/// 3. Where no segment is to be had, all words are looked at. Null only where that saw no free page.
/// Source: Pham et al., ICS 2022, section 4 (collaborative random walk); tickets and shares are Orchard's own.

#include "device/page_growth.cuh"

namespace orchard::device {

/// A page that was found, or why there is none.
struct found_page {
    static constexpr std::uint32_t none = 0xffffffffu;

    std::uint32_t segment = 0;  ///< without a page: the `failure_reason`
    std::uint32_t page = none;
};

/// One search of a converged group of one class and heap. All functions are collectives of the group: also lanes that
/// have a page by now take part.
class page_search {
public:
    ORCHARD_INLINE page_search(const heap_view& h, lane_mask group, std::uint32_t page_class)
        : h_{h},
          group_{group},
          without_{group},
          class_{page_class},
          pages_{class_pages(page_class)},
          words_{class_words(page_class)},
          random_{mix(static_cast<std::uint32_t>(simt::position().global_thread()) ^ page_class << 24 ^
                      simt::noise() * 0x9e3779b9u)} {}

    /// A page for every lane, as far as there are any. Waits for slabs that are on their way, until the deadline.
    inline ORCHARD_FN found_page run() {
        auto& head = h_.state->slabs[class_];
        while (without_ != 0 && why_ != failure_reason::closing) {
            const std::uint32_t own_count = places(head);
            const std::uint64_t own_frontier = head.frontier.load<order::relaxed>();
            const std::uint32_t count = from_leader(group_, own_count);
            // Reading the clock is dear, and most searches end soon.
            const bool late = (why_ != failure_reason::none || ++steps_ % 8 == 0) && is_late();
            if (why_ == failure_reason::none && late) {
                why_ = failure_reason::service_not_answering;
            }
            if (why_ == failure_reason::none) {
                const std::uint64_t frontier = from_leader(group_, own_frontier);
                // Beyond what there is: others are getting new slabs already.
                if (count != 0 && frontier <= std::uint64_t{count} * pages_) {
                    probe(count);
                    probe(count);
                }
                take_ticket(count);
                continue;
            }
            contested_ = false;
            sweep(count);
            if (without_ != 0 && (late || !(contested_ || survey(count)))) {
                break;
            }
        }
        if (mine_.page == found_page::none) {
            mine_.segment = static_cast<std::uint32_t>(why_);
        }
        return mine_;
    }

private:
    /// How many places of the table there are to look at. Before null is returned, the newest value of all.
    ORCHARD_INLINE std::uint32_t places(slab_table_head& head) const {
        if (why_ == failure_reason::none || !is_leader(group_)) {
            return head.count.load<order::relaxed>();
        }
        return head.count.fetch_add<order::acquire>(0);
    }
    [[nodiscard]] ORCHARD_INLINE bool lacks() const { return (without_ >> simt::lane_id() & 1) != 0; }
    /// Whether this search has lasted too long, from the first time that this was asked. The same in all lanes.
    ORCHARD_INLINE bool is_late() {
        const std::uint64_t now = simt::clock_ns();
        started_ = started_ != 0 ? started_ : now;
        return from_leader(group_, now - started_ > 4 * h_.mailboxes[0].timeout_ns ? 1u : 0u) != 0;
    }
    ORCHARD_INLINE std::uint32_t next_random() { return random_ = mix(random_ + 0x9e3779b9u); }
    /// A random number below `n`.
    ORCHARD_INLINE std::uint32_t below(std::uint32_t n) {
        return static_cast<std::uint32_t>(std::uint64_t{next_random()} * n >> 32);
    }

    /// A word, and what was free in it.
    struct seen_word {
        std::uint32_t segment = 0;
        std::uint32_t word = 0;
        std::uint64_t free_bits = 0;
    };
    // Any lane, alone. Relaxed loads, so that those of several words travel side by side: what they say are hints, the
    // claim acquires.
    ORCHARD_INLINE std::uint32_t entry_at(std::uint32_t place) const {
        return h_.table(class_)[place].load<order::relaxed>();
    }
    /// What is free in a word of the slab that a table's entry names.
    ORCHARD_INLINE seen_word look(std::uint32_t entry, std::uint32_t word) {
        if (!is_slab_entry(entry)) {
            growing_seen_ = growing_seen_ || entry == growing_entry;
            return {};
        }
        const std::uint64_t taken = h_.bitmap(entry - 1)[word].load<order::relaxed>();
        return {entry - 1, word, ~taken & class_word_mask(class_, word)};
    }

    /// The lane `source` has claimed `won`: the lanes without a page take them by rank, and it gives back the rest.
    inline ORCHARD_FN void hand_out(int source, std::uint64_t won, seen_word at) {
        const std::uint64_t bits = simt::shuffle(group_, won, source);
        const std::uint32_t segment = simt::shuffle(group_, at.segment, source);
        const std::uint32_t word = simt::shuffle(group_, at.word, source);
        const int rank = simt::rank_in(without_);
        const bool served = lacks() && rank < simt::popcount(bits);
        if (served) {
            mine_ = {segment, word * 64 + static_cast<std::uint32_t>(random_walk::nth_one(bits, rank))};
        }
        const lane_mask got = simt::ballot(group_, served);
        if (!simt::mutation::is(fault::share_ballot)) {
            without_ &= ~got;
        }
        const std::uint64_t rest = bits & ~lowest_ones(bits, static_cast<std::uint32_t>(simt::popcount(got)));
        if (simt::lane_id() == source && rest != 0) {
            h_.bitmap(segment)[word].fetch_and<order::release>(~rest);
        }
    }

    /// Every lane has looked at a word. One that saw enough for all claims for all; otherwise those that saw
    /// something claim a share each.
    inline ORCHARD_FN void claim_seen(const seen_word& at) {
        const auto need = static_cast<std::uint32_t>(simt::popcount(without_));
        const bool enough = static_cast<std::uint32_t>(simt::popcount(at.free_bits)) >= need;
        lane_mask claimers = simt::ballot(group_, need != 0 && enough);
        claimers &= ~claimers + 1;
        std::uint32_t share = need;
        if (claimers == 0) {
            claimers = simt::ballot(group_, at.free_bits != 0);
            const auto seers = static_cast<std::uint32_t>(simt::popcount(claimers));
            share = seers == 0 || seers >= need ? 1 : (need + seers - 1) / seers;
        }
        contested_ = contested_ || claimers != 0;
        std::uint64_t won = 0;
        if ((claimers >> simt::lane_id() & 1) != 0 && static_cast<std::uint32_t>(simt::rank_in(claimers)) < need) {
            // Those that see the same word begin at different bits.
            const std::uint32_t start = share == need ? 0 : next_random() % 64;
            won = slab_claim(h_, class_, at.segment, at.word, ones_from(at.free_bits, share, start));
        }
        for (lane_mask givers = simt::ballot(group_, won != 0); givers != 0; givers &= givers - 1) {
            hand_out(simt::lowest_bit(givers), won, at);
        }
        simt::sync(group_);  // what a giver acquired with its claim is so for whom it gave to
    }

    /// Every lane looks at two random words.
    inline ORCHARD_FN void probe(std::uint32_t count) {
        if (without_ == 0) {
            return;
        }
        const std::uint32_t entries[2] = {entry_at(below(count)), entry_at(below(count))};
        const seen_word first = look(entries[0], below(words_));
        const seen_word second = look(entries[1], below(words_));
        claim_seen(simt::popcount(second.free_bits) > simt::popcount(first.free_bits) ? second : first);
    }

    /// Every word of every slab of the class, from a random one on. `contested_`: there was a free page, or a slab on
    /// its way.
    inline ORCHARD_FN void sweep(std::uint32_t count) {
        constexpr std::uint32_t at_once = 4;
        growing_seen_ = false;
        // Less than 2^32: the bitmaps of so many words would fill any device.
        const std::uint32_t parts = (words_ + at_once - 1) / at_once;
        const std::uint32_t total = count * parts;
        const auto width = static_cast<std::uint32_t>(simt::popcount(group_));
        const auto rank = static_cast<std::uint32_t>(simt::rank_in(group_));
        const std::uint32_t start = from_leader(group_, below(total));
        for (std::uint32_t done = 0; done < total && without_ != 0; done += width) {
            std::uint32_t at = start + done + rank;
            at = at < total ? at : at - total;
            seen_word best;
            if (done + rank < total) {
                const std::uint32_t entry = entry_at(at / parts);
                ORCHARD_UNROLL
                for (std::uint32_t i = 0; i < at_once; ++i) {
                    const std::uint32_t word = at % parts * at_once + i;
                    const seen_word one = word < words_ ? look(entry, word) : seen_word{};
                    best = simt::popcount(one.free_bits) > simt::popcount(best.free_bits) ? one : best;
                }
            }
            claim_seen(best);
        }
        if (simt::ballot(group_, growing_seen_) != 0) {
            contested_ = true;
            simt::pause(500);
        }
    }

    /// The next pages of the class's sequence, as many as are missing; `why_` where a slab is missing there and was
    /// not to be had.
    inline ORCHARD_FN void take_ticket(std::uint32_t count) {
        auto& head = h_.state->slabs[class_];
        auto left = static_cast<std::uint32_t>(simt::popcount(without_));
        std::uint64_t ticket = 0;
        if (left != 0 && is_leader(group_)) {
            h_.add(counter::tickets, 1);
            ticket = head.frontier.fetch_add<order::relaxed>(left);
        }
        ticket = from_leader(group_, ticket);
        while (left != 0) {
            const std::uint64_t place = ticket / pages_;
            const auto page = static_cast<std::uint32_t>(ticket % pages_);
            const std::uint32_t in_word = 64 - page % 64;
            const std::uint32_t in_slab = pages_ - page;
            const std::uint32_t room = in_word < in_slab ? in_word : in_slab;
            const std::uint32_t n = left < room ? left : room;
            const std::uint32_t entry = place < h_.segments ? open(static_cast<std::uint32_t>(place)) : 0;
            if (entry == 0) {
                if (is_leader(group_)) {
                    head.frontier.lower<order::relaxed>(place * pages_);
                }
                why_ = why_ != failure_reason::none ? why_ : failure_reason::out_of_memory_device_budget;
                return;
            }
            std::uint64_t won = 0;
            if (is_leader(group_)) {
                const std::uint64_t ones = n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
                won = slab_claim(h_, class_, entry - 1, page / 64, ones << page % 64);
                const std::uint64_t reach = std::uint64_t{count} * pages_;
                const std::uint64_t next = (place + 1) * pages_;
                if (won == 0 && next <= reach) {
                    head.frontier.raise<order::relaxed>(next);  // not fresh: on to the next slab
                }
            }
            hand_out(simt::leader_of(group_), won, {entry - 1, page / 64, 0});
            simt::sync(group_);
            ticket += n;
            left -= n;
        }
    }

    /// The slab at a place, as segment + 1: found, made, or waited for. 0 with `why_` where none was to be had.
    inline ORCHARD_FN std::uint32_t open(std::uint32_t place) {
        auto& refusal = h_.state->slabs[class_].refusal;
        for (;;) {
            const std::uint32_t refused = from_leader(group_, refusal.load<order::acquire>());
            std::uint32_t found = from_leader(group_, is_leader(group_) ? reserve_place(h_, class_, place) : 0);
            if (found == 0) {
                return make_slab(place);
            }
            // Somebody gets the slab for all. He has a deadline; should he stop for good, we have one too.
            for (bool late = false; found == growing_entry && !late;) {
                simt::pause(200);
                found = from_leader(group_, h_.table(class_)[place].load<order::acquire>());
                late = is_late();
            }
            if (found == growing_entry) {
                why_ = failure_reason::service_not_answering;
                return 0;
            }
            if (found != 0) {
                return found;
            }
            // Either he got none, and then neither would we; or the slab came and went already.
            const std::uint32_t now = from_leader(group_, refusal.load<order::relaxed>());
            if (now != refused) {
                why_ = static_cast<failure_reason>(now % 256);
                refused_ = true;
                return 0;
            }
        }
    }

    /// Gets a segment for a place that the leader has reserved. As `open`.
    inline ORCHARD_FN std::uint32_t make_slab(std::uint32_t place) {
        segment_run run;
        why_ = acquire_segments(h_, group_, 1, &run);
        const std::uint32_t segment = to_underlying(run.first);
        if (is_leader(group_)) {
            if (why_ == failure_reason::none) {
                slab_publish(h_, class_, place, segment);
            } else {
                auto& refusal = h_.state->slabs[class_].refusal;
                const std::uint32_t before = refusal.load<order::relaxed>() / 256;
                refusal.store<order::relaxed>((before + 1) * 256 + static_cast<std::uint32_t>(why_));
                h_.table(class_)[place].store<order::release>(0);
            }
        }
        simt::sync(group_);
        refused_ = why_ != failure_reason::none;
        return refused_ ? 0 : segment + 1;
    }

    /// After a sweep that saw nothing, and before null is returned: looks at the newest value of every entry, so that
    /// the next sweep passes over no slab; and where tickets have run beyond the table while a place in it is empty,
    /// opens that. False where this was done before.
    inline ORCHARD_FN bool survey(std::uint32_t count) {
        if (surveyed_) {
            return false;
        }
        surveyed_ = true;
        const auto width = static_cast<std::uint32_t>(simt::popcount(group_));
        const auto rank = static_cast<std::uint32_t>(simt::rank_in(group_));
        const std::uint32_t end = count < h_.segments ? count + 1 : count;
        for (std::uint32_t i = 0; i < end; i += width) {
            const std::uint32_t place = i + rank;
            bool empty = false;
            if (place < end) {
                auto& entry = h_.table(class_)[place];
                empty = entry.load<order::acquire>() == 0 && entry.fetch_or<order::acquire>(0) == 0;
            }
            const lane_mask holes = simt::ballot(group_, empty);
            if (holes != 0 && !refused_) {
                if (open(simt::shuffle(group_, place, simt::lowest_bit(holes))) != 0) {
                    surveyed_ = false;
                    return true;
                }
            }
        }
        return true;
    }

    const heap_view& h_;
    const lane_mask group_;
    lane_mask without_;
    const std::uint32_t class_;
    const std::uint32_t pages_;
    const std::uint32_t words_;
    std::uint32_t random_;
    std::uint64_t started_ = 0;
    std::uint32_t steps_ = 0;
    failure_reason why_ = failure_reason::none;
    bool contested_ = false;
    bool growing_seen_ = false;
    bool refused_ = false;
    bool surveyed_ = false;
    found_page mine_;
};

}  // namespace orchard::device
