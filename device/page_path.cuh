// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Small requests: pages of slabs, found by a collaborative random walk over bitmaps.
///
/// The leader looks at the word where this part of the grid found pages last and claims what the whole group needs
/// with one atomic. Lanes that are still without probe a word of their own. When probes keep missing, the class gets
/// another slab. A sweep over all words decides before null is returned.
/// Source: Pham et al., ICS 2022, section 4 (collaborative random walk); claiming many bits at once is Orchard's own.

#include "device/grants.cuh"

namespace orchard::device {

/// What one lane of a group asks for and has got so far.
struct page_claim {
    void* page = nullptr;
    std::uint32_t page_class = 0;
    std::uint32_t random = 0;

    ORCHARD_INLINE std::uint32_t next_random() { return random = mix(random + 0x9e3779b9u); }
    ORCHARD_INLINE void take(const heap_view& h, std::uint32_t segment, std::uint32_t word, int bit) {
        page =
            h.address(segment) + std::uint64_t{word * 64 + static_cast<std::uint32_t>(bit)} * class_bytes(page_class);
    }
};

/// Where the class's pages were found last by this part of the grid.
ORCHARD_INLINE device_word<std::uint64_t>& remembered_word(const heap_view& h, std::uint32_t page_class) {
    return h.state->remembered[page_class][mix(static_cast<std::uint32_t>(simt::position().global_warp())) % 64];
}

/// A random slab of the class, as segment + 1; 0 where the table is empty or the place drawn is. Any lane, alone.
ORCHARD_INLINE std::uint32_t random_slab(const heap_view& h, page_claim& c) {
    const std::uint32_t count = h.state->slabs[c.page_class].count.load<order::relaxed>();
    return count == 0 ? 0 : h.table(c.page_class)[c.next_random() % count].load<order::acquire>();
}

/// The leader claims for all lanes of `mask` in one word of `segment`; winners by rank. The lanes still without.
inline ORCHARD_FN lane_mask share_word(const heap_view& h, lane_mask mask, page_claim& c, std::uint32_t segment,
                                       std::uint32_t word) {
    std::uint64_t won = 0;
    if (is_leader(mask)) {
        won = slab_claim(h, c.page_class, segment, word, static_cast<std::uint32_t>(simt::popcount(mask)));
    }
    won = from_leader(mask, won);
    const int rank = simt::rank_in(mask);
    const bool winner = rank < simt::popcount(won);
    if (winner) {
        c.take(h, segment, word, bit_of_rank(won, rank));
    }
    simt::sync(mask);  // what the leader acquired with the claim is so for all
    return simt::ballot(mask, !winner || simt::mutation::is(fault::share_ballot));
}

/// First probe: the remembered word, else a random one. The lanes still without; `why` is `closing` where the heap is
/// being closed.
inline ORCHARD_FN lane_mask probe_as_group(const heap_view& h, lane_mask mask, page_claim& c, failure_reason* why) {
    constexpr std::uint64_t closed = ~std::uint64_t{0};
    std::uint64_t place = 0;
    if (is_leader(mask)) {
        // Both loads are under way at once.
        const bool closing = is_closing(h);
        place = remembered_word(h, c.page_class).load<order::relaxed>();
        if (closing) {
            place = closed;
        } else if (place == 0) {
            const std::uint64_t slab = random_slab(h, c);
            place = slab << 32 | (slab != 0 ? c.next_random() % class_words(c.page_class) : 0);
        }
    }
    place = from_leader(mask, place);
    if (place == 0 || place == closed) {
        *why = place == closed ? failure_reason::closing : *why;
        return mask;
    }
    return share_word(h, mask, c, static_cast<std::uint32_t>(place >> 32) - 1, static_cast<std::uint32_t>(place));
}

/// Every lane of `mask` probes a word of its own for as many pages as are missing; winners share. The lanes still
/// without; the last word that had more is remembered.
inline ORCHARD_FN lane_mask probe_each(const heap_view& h, lane_mask mask, page_claim& c) {
    const std::uint32_t slab = random_slab(h, c);
    const std::uint32_t word = slab != 0 ? c.next_random() % class_words(c.page_class) : 0;
    // No more than the group can use: what is claimed to be given back is missing to others meanwhile.
    const auto lanes = static_cast<std::uint32_t>(simt::popcount(mask));
    const std::uint64_t won = slab != 0 ? slab_claim(h, c.page_class, slab - 1, word, lanes < 4 ? lanes : 4) : 0;
    if (won != 0) {
        c.take(h, slab - 1, word, simt::lowest_bit(won));
    }
    const std::uint64_t spare = won & (won - 1);
    lane_mask without = simt::ballot(mask, won == 0);
    for (lane_mask givers = simt::ballot(mask, spare != 0); givers != 0; givers &= givers - 1) {
        const int giver = simt::lowest_bit(givers);
        const std::uint64_t given = simt::shuffle(mask, spare, giver);
        const std::uint32_t from = simt::shuffle(mask, slab, giver) - 1;
        const std::uint32_t at = simt::shuffle(mask, word, giver);
        const int rank = simt::rank_in(without);
        const bool lacking = (without >> simt::lane_id() & 1) != 0;
        const bool served = lacking && rank < simt::popcount(given);
        if (served) {
            c.take(h, from, at, bit_of_rank(given, rank));
        }
        const lane_mask got = simt::ballot(mask, served);
        without &= ~got;
        if (simt::lane_id() == giver && simt::popcount(got) < simt::popcount(given)) {
            const std::uint64_t used = lowest_ones(given, static_cast<std::uint32_t>(simt::popcount(got)));
            h.bitmap(from)[at].fetch_and<order::release>(~(given & ~used));
        }
        if (simt::lane_id() == giver) {
            remembered_word(h, c.page_class).store<order::relaxed>(std::uint64_t{slab} << 32 | word);
        }
    }
    simt::sync(mask);  // what a giver acquired with its claim is so for whom it gave to
    return without;
}

/// Looks at every word of every slab of the class. The lanes still without; unless `contested`, no page was free for
/// them at the moment its word was looked at.
inline ORCHARD_NOINLINE lane_mask sweep(const heap_view& h, lane_mask mask, page_claim& c, bool* contested) {
    const std::uint32_t words = class_words(c.page_class);
    const std::uint32_t count = from_leader(mask, h.state->slabs[c.page_class].count.load<order::relaxed>());
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    lane_mask without = mask;
    for (std::uint32_t s = 0; s < count && without != 0; ++s) {
        const std::uint32_t slab = from_leader(mask, h.table(c.page_class)[s].load<order::acquire>());
        for (std::uint32_t i = 0; slab != 0 && i < words && without != 0; i += width) {
            const std::uint32_t word = i + rank;
            const bool some = word < words && (~h.bitmap(slab - 1)[word].load<order::relaxed>() &
                                               class_word_mask(c.page_class, word)) != 0;
            for (lane_mask seen = simt::ballot(mask, some); seen != 0 && without != 0; seen &= seen - 1) {
                const std::uint32_t at = simt::shuffle(mask, word, simt::lowest_bit(seen));
                if (c.page == nullptr) {
                    share_word(h, without, c, slab - 1, at);
                }
                const lane_mask left = simt::ballot(mask, c.page == nullptr);
                *contested = *contested || left == without;  // a free page was seen and somebody else took it
                without = left;
            }
        }
    }
    return without;
}

/// Gets the class another slab and claims in it what `mask` needs. The lanes still without; `why` where no segment
/// was to be had. Only so many groups at once fetch a segment for one class; others come back empty-handed.
/// `grown`: the leader's count of attempts to grow before it probed; where it has changed since and a slab serves
/// several groups, there are pages now, and the class does not grow once more.
inline ORCHARD_NOINLINE lane_mask grow_class(const heap_view& h, lane_mask mask, page_claim& c, std::uint32_t grown,
                                             failure_reason* why) {
    constexpr std::uint32_t pages_for_many = 4 * simt::warp_size;
    auto& head = h.state->slabs[c.page_class];
    std::uint32_t permitted = 0;
    if (is_leader(mask)) {
        const std::uint32_t slabs = head.count.load<order::relaxed>();
        const std::uint32_t most = slabs / 4 + 1 < 64 ? slabs / 4 + 1 : 64;
        permitted = head.growing.fetch_add<order::acquire>(1) < most ? 1 : 0;  // pairs with who has just grown
        if (permitted != 0 && class_pages(c.page_class) >= pages_for_many &&
            head.grown.load<order::relaxed>() != grown) {
            permitted = 0;
        }
        if (permitted == 0) {
            head.growing.fetch_sub<order::relaxed>(1);
        }
    }
    if (from_leader(mask, permitted) == 0) {
        // Somebody grows this class: wait for it, but not for long; whoever stopped there must not stop us.
        for (int i = 0; i < 20; ++i) {
            simt::pause(500);
            if (from_leader(mask, head.grown.load<order::relaxed>() != grown ? 1u : 0u) != 0) {
                break;
            }
        }
        return mask;
    }
    segment_run run;
    *why = acquire_segments(h, mask, 1, &run);
    lane_mask without = mask;
    if (*why == failure_reason::none) {
        const std::uint32_t segment = to_underlying(run.first);
        if (!slab_publish(h, mask, c.page_class, segment)) {
            release_segments(h, mask, run);
        } else {
            const std::uint32_t word = from_leader(mask, c.next_random()) % class_words(c.page_class);
            without = share_word(h, mask, c, segment, word);
            if (is_leader(mask)) {
                remembered_word(h, c.page_class).store<order::relaxed>(std::uint64_t{segment + 1} << 32 | word);
            }
        }
    }
    if (is_leader(mask)) {
        head.grown.fetch_add<order::relaxed>(1);
        head.growing.fetch_sub<order::release>(1);
    }
    return without;
}

/// What `allocate_page` does once the remembered word did not serve all: `without` are the lanes without a page.
inline ORCHARD_NOINLINE void* allocate_page_slowly(const heap_view& h, lane_mask without, page_claim c,
                                                   failure_reason* why) {
    const std::uint64_t started = simt::clock_ns();
    c.random ^= static_cast<std::uint32_t>(started);
    while (without != 0) {
        if (c.page != nullptr) {
            break;  // the lanes that have one go on
        }
        const std::uint32_t grown = h.state->slabs[c.page_class].grown.load<order::relaxed>();
        // Four probes of all lanes miss only where nearly all words are full.
        for (int probe = 0; probe < 4 && c.page == nullptr; ++probe) {
            without = probe_each(h, without, c);
        }
        if (c.page != nullptr) {
            break;
        }
        without = grow_class(h, without, c, grown, why);
        if (c.page != nullptr || *why == failure_reason::closing) {
            break;
        }
        const bool late = from_leader(without, simt::clock_ns() - started) > 4 * h.mailboxes[0].timeout_ns;
        if (*why != failure_reason::none || late) {
            bool contested = false;
            without = sweep(h, without, c, &contested);
            if (c.page == nullptr && (!contested || late)) {
                *why = *why != failure_reason::none ? *why : failure_reason::service_not_answering;
                break;
            }
        }
    }
    if (c.page != nullptr) {
        *why = failure_reason::none;
    }
    return c.page;
}

/// A page of the class for every lane of `mask`, or null with the reason.
///
/// Any mask. Cost on a hit: the remembered word, the bitmap word, one atomic for the group, the descriptor.
inline ORCHARD_FN void* allocate_page(const heap_view& h, lane_mask mask, std::uint32_t page_class,
                                      failure_reason* why) {
    page_claim c;
    c.page_class = page_class;
    c.random = mix(static_cast<std::uint32_t>(simt::position().global_thread()) ^ page_class << 24);
    const lane_mask without = probe_as_group(h, mask, c, why);
    if (c.page != nullptr || *why != failure_reason::none) {
        return c.page;
    }
    return allocate_page_slowly(h, without, c, why);
}

/// Where a pointer points in its segment's slab.
struct page_place {
    device_word<std::uint64_t>* word = nullptr;  ///< of the bitmap
    std::uint64_t bit = 0;
    bool exact = false;  ///< it is the first byte of a page
};

/// The place of `p` in the slab that descriptor word `d` describes. No memory access.
inline ORCHARD_FN page_place place_of(const heap_view& h, const void* p, std::uint64_t d) {
    const std::uint32_t page_class = descriptor::page_class(d);
    const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(p) - h.base);
    const auto segment = static_cast<std::uint32_t>(offset >> segment_shift);
    const auto inside = static_cast<std::uint32_t>(offset & (segment_bytes - 1));
    const std::uint32_t page = inside / class_bytes(page_class);
    const bool exact = page * class_bytes(page_class) == inside && page < class_pages(page_class);
    return {&h.bitmap(segment)[page / 64], std::uint64_t{1} << (page % 64), exact};
}

/// Whether `p` is a page that is allocated. One load.
inline ORCHARD_FN bool page_in_use(const heap_view& h, const void* p, std::uint64_t d) {
    const page_place at = place_of(h, p, d);
    return at.exact && (at.word->load<order::relaxed>() & at.bit) != 0;
}

/// What a free found.
enum class free_result : std::uint32_t { freed, invalid };

/// Frees pages: lane by lane named by descriptor word `d`, lanes that share a bitmap word with one atomic.
/// All lanes of a converged group. Never waits. Cost: one atomic for each bitmap word.
inline ORCHARD_FN free_result free_page(const heap_view& h, lane_mask mask, const void* p, std::uint64_t d) {
    const auto [word, bit, exact] = place_of(h, p, d);
    const lane_mask valid = simt::ballot(mask, exact);
    if (!exact) {
        return free_result::invalid;
    }
    const lane_mask peers = simt::match(valid, reinterpret_cast<std::uintptr_t>(word));
    const std::uint64_t bits = std::uint64_t{simt::reduce_or(peers, static_cast<std::uint32_t>(bit >> 32))} << 32 |
                               simt::reduce_or(peers, static_cast<std::uint32_t>(bit));
    // What all lanes did to their pages is before the leader's release: the reductions met, and this orders memory.
    if (!simt::mutation::is(fault::free_sync)) {
        simt::sync(peers);
    }
    std::uint64_t old = 0;
    if (is_leader(peers)) {
        simt::mutation::weaken_next(fault::free_release);
        old = word->fetch_and<order::release>(~bits);
    }
    old = from_leader(peers, old);
    // Two lanes that free the same page at once: one of them is wrong. The lowest counts as right.
    const lane_mask same = simt::match(peers, bit);
    const bool was_taken = (old & bit) != 0 && simt::leader_of(same) == simt::lane_id();
    return was_taken ? free_result::freed : free_result::invalid;
}

}  // namespace orchard::device
