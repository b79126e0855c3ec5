// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A lane's part in a search for pages, and what it looks at: page_search.cuh says how the parts go together.

#include "device/failures.cuh"
#include "device/small/hint.cuh"
#include "device/small/share.cuh"
#include "device/small/slab_growth.cuh"

namespace orchard::device {

/// What a group does in its next step.
enum class search_stage : std::uint32_t { probing, reserving, sweeping, ended };

/// What the head of a class's slab table says, a bit each.
namespace facts {
inline constexpr std::uint32_t may_probe = 1;     ///< random looks may find pages
inline constexpr std::uint32_t is_exhausted = 2;  ///< it is known that there is no segment
inline constexpr std::uint32_t is_late = 4;       ///< the deadline is over
inline constexpr std::uint32_t has_room = 8;      ///< a reservation would open a slab, although many pages are free
}  // namespace facts

/// No index of a slab table.
inline constexpr std::uint32_t no_index = 0xffffffffu;

/// Words that a lane of a sweep looks at side by side.
inline constexpr std::uint32_t swept_at_once = 4;

/// Bitmap words of a slab from which on a search looks at other words of the slab at its hint first.
inline constexpr std::uint32_t least_words_nearby = 4;

/// One lane's part in a search. Unless it says otherwise, a value is the same in all lanes of a group, and a function
/// is a collective of all lanes that search.
struct page_search {
    page_seeker s;
    slab_opening opening;
    std::uint64_t bytes;  ///< that this lane asks for
    search_stage stage = search_stage::reserving;
    failure_reason why = failure_reason::none;  ///< why there is no further slab
    std::uint32_t entries = 0;                  ///< of the class's table, to be looked at in a sweep
    std::uint32_t spread = 0;                   ///< of the same, where slabs are: to be probed
    std::uint32_t left = 0;                     ///< looks, positions or parts that are left in the stage
    std::uint64_t position = 0;                 ///< redeeming: of the reservation; sweeping: the next part
    std::uint32_t steps = 0;
    std::uint32_t started = 0;      ///< when the clock was first read
    bool missing = false;           ///< the reservation's next index has no slab yet
    bool served = false;            ///< the last step gave somebody a page
    bool contested = false;         ///< a sweep saw a free page, or a slab on its way
    bool swept = false;             ///< a sweep saw no free page, and no slab has come since
    std::uint32_t hole = no_index;  ///< an empty index that this lane saw in a sweep
    bool tight = false;             ///< this lane saw nothing but words that are nearly full
    std::uint32_t again = 0;        ///< times that it probed once more, as the class has room
    bool opened = false;            ///< the group has made a slab
    bool nearby = false;            ///< the first look is at the slab of the hint, `near`
    std::uint32_t near;
    lane_mask turns = 0;  ///< leaders of the groups that act one after the other

    ORCHARD_FN page_search(const heap_view& heap, lane_mask here, lane_mask group, std::uint32_t page_class,
                           std::uint64_t wanted, std::uint32_t hint_segment)
        : s{heap, here, group, page_class}, opening{heap, group, page_class}, bytes{wanted}, near{hint_segment} {
        // A slab of few words is as full as the word at its hint.
        if (near < heap.segments && near != hint_claim::nothing / units_per_segment &&
            s.words() >= least_words_nearby) {
            nearby = true;
            stage = search_stage::probing;
            left = 1;
        }
    }

    [[nodiscard]] ORCHARD_INLINE slab_table_head& head() const { return opening.h.state->slabs[s.page_class]; }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t log_pages() const { return shape_of(s.page_class).log_pages(); }
    /// Of a slab, for a sweep.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t parts() const { return (s.words() + swept_at_once - 1) / swept_at_once; }
    /// The page, or void position, in its slab that the reservation is at.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t reserved_page() const {
        return static_cast<std::uint32_t>(position) & ((1u << log_pages()) - 1);
    }

    ORCHARD_FN bool look();
    ORCHARD_FN void probe_two_words();
    ORCHARD_FN void add_to_sample(std::uint64_t in_first, std::uint64_t in_second);
    ORCHARD_FN void look_at_reserved();
    ORCHARD_FN void scan_four_words(bool& growing);
    ORCHARD_FN std::uint32_t reach() const;
    ORCHARD_FN void advance(bool saw);
    ORCHARD_FN void advance_reserved();
    ORCHARD_FN void advance_sweep();
    ORCHARD_FN bool plan();
    ORCHARD_FN search_stage next_stage(std::uint32_t known);
    ORCHARD_FN bool is_late();
    ORCHARD_FN bool is_roomy();
    ORCHARD_FN std::uint32_t read_head();
    ORCHARD_FN bool begin();
    ORCHARD_FN void reserve_pages(bool on);
    ORCHARD_FN void begin_sweep();
    ORCHARD_FN bool begin_opening();
    ORCHARD_FN void end_opening();
    ORCHARD_FN void choose_hole(bool on);
    ORCHARD_FN void take_turns(bool wanted);
    ORCHARD_INLINE bool is_its_turn() const;
    ORCHARD_FN void end_turn();
    ORCHARD_FN void* finish();
};

/// Adds two words that were looked at to the sample of the class. A lane, alone. Cost: an atomic that is not waited
/// for.
inline ORCHARD_FN void page_search::add_to_sample(std::uint64_t in_first, std::uint64_t in_second) {
    const auto free = static_cast<std::uint32_t>(simt::popcount(in_first) + simt::popcount(in_second));
    head().sample.fetch_add<order::relaxed>(fill_sample::pack(2, free));
}

/// Two random words of a random slab. A lane, alone.
inline ORCHARD_FN void page_search::probe_two_words() {
    constexpr int nearly_full = 16;
    const std::uint32_t entry = nearby ? near + 1 : s.slabs.table[s.below(spread)].load<order::relaxed>();
    if (!is_slab_entry(entry)) {
        return;
    }
    const std::uint32_t first = s.below(s.words());
    const std::uint32_t second = s.below(s.words());
    const std::uint64_t in_first = s.free_in(entry - 1, first);
    const std::uint64_t in_second = s.free_in(entry - 1, second);
    // Both, as a hint may always be full; and whole words: those of few pages are nearly full most of the time.
    const std::uint32_t whole = s.pages / 64;
    tight = tight || (first < whole && second < whole && simt::popcount(in_first) < nearly_full &&
                      simt::popcount(in_second) < nearly_full);
    // A word that ends a slab has fewer pages than the sample takes it to have.
    if (!nearby && is_leader(s.group) && ((first < whole && second < whole) || whole == 0)) {
        add_to_sample(in_first, in_second);
    }
    const bool swap = simt::popcount(in_second) > simt::popcount(in_first);
    s.seen = {entry - 1, swap ? second : first, swap ? in_second : in_first};
}

/// How many of the reservation's next positions one look takes: up to the end of a word, or of what is void.
inline ORCHARD_FN std::uint32_t page_search::reach() const {
    const std::uint32_t page = reserved_page();
    const std::uint32_t in_word = 64 - page % 64;
    const std::uint32_t in_slab = (page < s.pages ? s.pages : 1u << log_pages()) - page;
    const std::uint32_t n = page >= s.pages || in_slab < in_word ? in_slab : in_word;
    return n < left ? n : left;
}

/// The reservation's next pages; `missing` where no slab is there yet. A leader, alone.
inline ORCHARD_FN void page_search::look_at_reserved() {
    const auto index = static_cast<std::uint32_t>(position >> log_pages());
    const std::uint32_t page = reserved_page();
    if (page >= s.pages) {
        return;
    }
    const std::uint32_t entry = index < opening.h.max_slabs ? s.slabs.table[index].load<order::acquire>() : 0;
    if (!is_slab_entry(entry)) {
        missing = true;
        return;
    }
    const std::uint32_t n = reach();
    const std::uint64_t ones = n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
    s.seen = {entry - 1, page / 64, ones << page % 64};
}

/// Four words of a slab, the lanes of the group side by side: the one with most free pages. A lane, alone.
inline ORCHARD_FN void page_search::scan_four_words(bool& growing) {
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(s.group));
    if (rank >= left) {
        return;
    }
    const std::uint32_t total = entries * parts();
    const std::uint32_t next = static_cast<std::uint32_t>(position) + rank;
    const std::uint32_t at = next < total ? next : next - total;
    auto& there = s.slabs.table[at / parts()];
    std::uint32_t entry = there.load<order::relaxed>();
    if (entry == 0) {
        entry = there.fetch_or<order::acquire>(0);  // the newest value, so that no slab is passed over
    }
    growing = entry == growing_entry;
    if (!is_slab_entry(entry)) {
        hole = growing ? hole : at / parts();
        return;
    }
    s.seen.segment = entry - 1;
    ORCHARD_UNROLL
    for (std::uint32_t i = 0; i < swept_at_once; ++i) {
        const std::uint32_t word = at % parts() * swept_at_once + i;
        const std::uint64_t bits = word < s.words() ? s.free_in(entry - 1, word) : 0;
        if (simt::popcount(bits) > simt::popcount(s.seen.bits)) {
            s.seen.word = word;
            s.seen.bits = bits;
        }
    }
}

/// Looks as the stage says. Whether a group needs a slab first.
inline ORCHARD_NOINLINE bool page_search::look() {
    s.seen = {};
    s.claimed = false;
    missing = false;
    served = s.lacks();
    bool growing = false;
    switch (stage) {
        case search_stage::probing: probe_two_words(); break;
        case search_stage::reserving:
            if (is_leader(s.group)) {
                look_at_reserved();
            }
            break;
        case search_stage::sweeping: scan_four_words(growing); break;
        case search_stage::ended: break;
    }
    const bool comes = (s.group & simt::ballot(s.here, growing)) != 0;
    contested = contested || comes;
    missing = s.from_own_leader(missing ? 1 : 0) != 0;
    return simt::ballot(s.here, missing) != 0;
}

}  // namespace orchard::device
