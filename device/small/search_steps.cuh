// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The state of a search for pages, one object for each searching lane, and the looks of a lane in one step. search.cuh
/// puts the steps together.
///
/// The slabs of a class form one sequence of positions, one for each page (`slab_table_head`):
///
///     pages of 80 B: 26,214 in a slab
///
///     position    0 ........ 26,213 | 26,214 ....... 52,427 | 52,428 ...
///                 pages of index 0  | pages of index 1      | pages of index 2
///                                          ^ high-water mark: positions from here on are free to be reserved

#include "device/small/hint.cuh"
#include "device/small/share.cuh"
#include "device/small/slab_growth.cuh"
#include "device/state/failures.cuh"

namespace orchard::device {

/// The stages of a search. Docs and comments call `scanning` a scan. `page_search::next_stage` draws the transitions.
enum class search_stage : std::uint32_t { probing, reserving, scanning, ended };

/// What a leader has read in the head of a class's slab table, one bit for each fact.
namespace facts {
inline constexpr std::uint32_t may_probe = 1;     ///< random probes may find pages
inline constexpr std::uint32_t is_exhausted = 2;  ///< it is known that no segment can be got
inline constexpr std::uint32_t is_late = 4;       ///< the deadline has passed
inline constexpr std::uint32_t has_room = 8;      ///< a reservation would add a last slab although many pages are free
inline constexpr std::uint32_t is_final = 16;     ///< no further reclaim would help (`is_worth_another`)
}  // namespace facts

/// Stands for "no index of a slab table".
inline constexpr std::uint32_t no_index = 0xffffffffu;

/// Bitmap words that a lane of a scan reads at once, with its loads in flight together. They are one *part* of a slab.
inline constexpr std::uint32_t scanned_at_once = 4;
/// Parts that a lane of a scan reads in one step, at most. A step takes several times as long as a load, mostly for its
/// votes among the lanes. A scan that finds nothing therefore makes longer and longer steps.
inline constexpr std::uint32_t max_parts_in_step = 16;

/// If a slab has at least this many bitmap words, a search first probes other words of the slab at the lanes' hint.
inline constexpr std::uint32_t least_words_nearby = 4;

/// The state of one lane in a search. Unless its comment says otherwise, a value is the same in all lanes of a group,
/// and all searching lanes call a function together. The steps of a stage lower `left`; at 0, `plan` chooses the next
/// stage.
struct page_search {
    page_seeker s;          ///< this lane, its group, and the pages it saw in this step
    slab_opening opening;   ///< for the creation of a slab at a reserved index
    std::uint64_t request;  ///< bytes that this lane asks for, and its request (`asked_word`)
    search_stage stage = search_stage::reserving;
    failure_reason why = failure_reason::none;  ///< why no further slab can be got
    std::uint32_t entries = 0;                  ///< indices of the class's table that a scan covers
    std::uint32_t spread = 0;                   ///< indices that a probe chooses from: all slabs lie below
    std::uint32_t left = 0;                     ///< probes or parts left in the stage; reserving: 1 until it ends
    std::uint32_t part = 0;                     ///< scan: the group's next part
    std::uint32_t index = 0;                    ///< reserving: the index of the slab of this lane's position
    std::uint32_t page = 0;                     ///< reserving: its page in that slab
    std::uint64_t wanted = 0;         ///< reserving: reserved pages of one word that this lane claims for its group
    std::uint32_t parts_in_step = 1;  ///< scan: parts that each lane reads in the next step
    std::uint32_t steps = 0;          ///< stages begun so far
    bool missing = false;             ///< no slab exists yet at this lane's index
    bool served = false;              ///< the last step gave a lane a page; within a step: the lane lacked one
    bool contested = false;           ///< a scan saw a free page, or an index at which a slab is being created
    bool scanned = false;             ///< a scan saw no free page, and no slab has been added since
    std::uint32_t hole = no_index;    ///< an empty index that this lane saw in a scan
    bool empty = false;               ///< a scan: there is no slab at the index of the group's first part
    bool tight = false;               ///< a probe of this lane saw only words that are nearly full
    std::uint32_t again = 0;          ///< number of additional probes made because the class has room
    std::uint32_t got_before;         ///< `segments_got` before the newest reclaim that the group has needed
    std::uint32_t walk;               ///< probing: the last slab that this lane looked at, as a fraction of `spread`
    bool opened = false;              ///< the group has created a slab
    bool nearby = false;              ///< the first probe is at slab `near`, that of the hint
    std::uint8_t reclaims = 0;        ///< number of reclaims that the group has needed
    std::uint32_t near;               ///< the segment at the hint; no segment of the heap if there was no slab

    ORCHARD_FN page_search(const heap_view& heap, lane_mask here, lane_mask group, std::uint32_t page_class,
                           std::uint64_t wish, std::uint32_t hint_segment)
        : s{heap, here, group, page_class},
          opening{heap, here, group, page_class},
          request{wish},
          walk{s.random},
          near{hint_segment} {
        // A slab of few words is probably as full as the word at the hint, so that a probe there would be wasted.
        if (near < heap.segments && s.words() >= least_words_nearby) {
            nearby = true;
            stage = search_stage::probing;
            left = 1;
        }
    }

    /// Returns the head of the class's slab table.
    [[nodiscard]] ORCHARD_INLINE slab_table_head& head() const { return opening.h.state->slabs[s.page_class]; }
    /// Returns the first position of an index.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t position_of(std::uint32_t slab_index) const {
        return std::uint64_t{slab_index} * s.pages;
    }
    /// Returns the number of parts of a slab in a scan.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t parts() const {
        return (s.words() + scanned_at_once - 1) / scanned_at_once;
    }
    /// Goes on to a reserved position: sets `index` and `page`. A hardened heap exchanges the n whole words of the
    /// slab, and then rotates them, by a key that its seed and the index of the slab give. With p the greatest power of
    /// two that is at most n, position 64 w + b is page 64 ((v + key) mod n) + b, where v is w ^ (key mod p) for w < p,
    /// and w for the others.
    ORCHARD_INLINE void go_to(std::uint64_t reserved) {
        index = static_cast<std::uint32_t>(reserved / s.pages);
        page = static_cast<std::uint32_t>(reserved - position_of(index));
        const std::uint32_t whole = s.pages / 64 * 64;
        if (opening.h.placement_seed != 0 && page < whole) {
            const std::uint32_t key = mix(opening.h.placement_seed + index);
            const auto exchanged = std::uint32_t{1} << simt::highest_bit(whole);
            page ^= page < exchanged ? key & (exchanged - 1) & ~63u : 0;
            page += fraction_of(whole / 64, key) * 64;
            page -= page >= whole ? whole : 0;
        }
    }

    ORCHARD_FN bool look();
    ORCHARD_FN void probe_two_words();
    ORCHARD_FN void add_to_sample(std::uint64_t in_first, std::uint64_t in_second);
    ORCHARD_FN void look_at_reserved();
    ORCHARD_FN std::uint32_t scan_entry(std::uint32_t at, bool& growing);
    ORCHARD_FN void scan_parts(bool& growing);
    ORCHARD_FN std::uint32_t reach(std::uint32_t rank, std::uint32_t count) const;
    ORCHARD_FN void advance(bool saw);
    ORCHARD_FN void advance_reserved(bool on);
    ORCHARD_FN void advance_scan(bool saw);
    ORCHARD_FN bool plan();
    ORCHARD_FN search_stage next_stage(std::uint32_t known);
    ORCHARD_FN bool is_late();
    ORCHARD_FN std::uint32_t read_head();
    ORCHARD_FN bool begin();
    ORCHARD_FN void begin_stages();
    ORCHARD_FN void reserve_pages(bool on);
    ORCHARD_FN void take_positions(std::uint64_t first, lane_mask lacking);
    ORCHARD_FN void begin_scan(bool on);
    ORCHARD_FN void begin_opening();
    ORCHARD_FN void end_opening();
    ORCHARD_FN void choose_hole(bool on);
    ORCHARD_FN void* finish();
};

/// Adds two probed words to the sample of the class. One lane calls it alone. Cost: an atomic whose result is not used.
inline ORCHARD_FN void page_search::add_to_sample(std::uint64_t in_first, std::uint64_t in_second) {
    const auto free = static_cast<std::uint32_t>(simt::popcount(in_first) + simt::popcount(in_second));
    head().sample.fetch_add<order::relaxed>(fill_sample::pack(2, free));
}

/// Probes a random word of each of two slabs, or two words of the slab at the hint. The one with most free pages
/// replaces `s.seen`, if it has more free pages than `s.seen`. One lane calls it alone. Cost: two loads of the table
/// (none for the slab at the hint), then two of bitmaps; each pair is in flight together.
///
/// The first slab is random; each later one lies the golden ratio of `spread` further, cyclically. Twenty looks of a
/// lane alone therefore reach each of up to eleven slabs, while independent random numbers would miss one of two slabs
/// in one of a million searches, and open a slab although that one has free pages. In two words of one slab a lane
/// would see less: a slab of large pages has one word.
inline ORCHARD_FN void page_search::probe_two_words() {
    constexpr int nearly_full = 16;
    const std::uint32_t first_slab = fraction_of(spread, walk + golden_ratio);
    walk += 2 * golden_ratio;
    const std::uint32_t first_entry = nearby ? near + 1 : s.slabs.table[first_slab].load<order::relaxed>();
    const std::uint32_t second_entry =
        nearby ? near + 1 : s.slabs.table[fraction_of(spread, walk)].load<order::relaxed>();
    const std::uint32_t first = s.below(s.words());
    const std::uint32_t second = s.below(s.words());
    // An index may be empty, or one at which a slab is being created.
    const std::uint64_t in_first = is_slab_entry(first_entry) ? s.free_in(first_entry - 1, first) : 0;
    const std::uint64_t in_second = is_slab_entry(second_entry) ? s.free_in(second_entry - 1, second) : 0;
    if (simt::popcount(in_first) > simt::popcount(s.seen.bits)) {
        s.seen = {first_entry - 1, first, in_first};
    }
    if (simt::popcount(in_second) > simt::popcount(s.seen.bits)) {
        s.seen = {second_entry - 1, second, in_second};
    }
    if (!is_slab_entry(first_entry) || !is_slab_entry(second_entry)) {
        return;
    }
    // Both words must be nearly full, because hints may keep one word full permanently. Both must be whole words: a
    // word of few pages is nearly full most of the time.
    const std::uint32_t whole = s.pages / 64;
    tight = tight || (first < whole && second < whole && simt::popcount(in_first) < nearly_full &&
                      simt::popcount(in_second) < nearly_full);
    // The sample assumes words of random slabs that are equally long; the last word of a slab may have fewer pages.
    // One lane adds for its group, so that few atomics meet at the sample.
    if (!nearby && is_leader(s.group) && ((first < whole && second < whole) || whole == 0)) {
        add_to_sample(in_first, in_second);
    }
}

/// Returns how many pages this lane claims for its group. The group's lanes have `count` consecutive positions, this
/// lane that of `rank`. The first lane in a word claims the pages of all the group's positions in that word, up to the
/// slab's last page; the others claim none. No memory access. In the drawing above, with 32 positions reserved from
/// 26,200 on: 14 for rank 0 (the end of the slab of index 0), 18 for rank 14 (word 0 of that of index 1), 0 for all
/// others.
inline ORCHARD_FN std::uint32_t page_search::reach(std::uint32_t rank, std::uint32_t count) const {
    if (rank != 0 && page % 64 != 0) {
        return 0;
    }
    const std::uint32_t in_word = 64 - page % 64;
    const std::uint32_t in_slab = s.pages - page;
    const std::uint32_t n = in_slab < in_word ? in_slab : in_word;
    return n < count - rank ? n : count - rank;
}

/// Chooses this lane's reserved pages as `s.seen`, if it has any; sets `missing` if no slab exists there yet. Each lane
/// calls it for itself. Its acquire pairs with `slab_publish`. Cost: a load. No bitmap is read: reserved pages are free
/// unless hints or probes of other groups were there first, and the claim will tell. An index beyond the table's end
/// counts as missing; `begin_opening` then fails.
inline ORCHARD_FN void page_search::look_at_reserved() {
    if (wanted == 0) {
        return;
    }
    const std::uint32_t entry = index < opening.h.max_slabs ? s.slabs.table[index].load<order::acquire>() : 0;
    if (!is_slab_entry(entry)) {
        missing = true;
        return;
    }
    s.seen = {entry - 1, page / 64, wanted};
}

/// Returns the slab table's entry at an index; sets `growing` if a slab is being created there, and `hole` if the index
/// is empty. One lane calls it alone. A request may fail after a scan without a free page. The scan must therefore not
/// overlook a slab that was published before: an entry that reads as 0 may be an old value, and is read once more by a
/// read-modify-write.
inline ORCHARD_FN std::uint32_t page_search::scan_entry(std::uint32_t at, bool& growing) {
    auto& there = s.slabs.table[at];
    std::uint32_t entry = there.load<order::relaxed>();
    if (entry == 0) {
        // Reads the newest value. Acquire: pairs with `slab_publish`.
        entry = there.fetch_or<order::acquire>(0);
    }
    growing = growing || entry == growing_entry;
    hole = entry == 0 ? at : hole;
    return entry;
}

/// Reads `parts_in_step` parts, up to the first with a free page, and keeps the word with most; the lanes of a group
/// read consecutive parts. `growing` is set if a slab is being created there. One lane calls it alone. Cost: for each
/// part four loads in flight together; for each slab a load of the table.
///
/// Part p of a scan lies at index p / parts() of the table, and begins at word 4 * (p % parts()) of its slab.
inline ORCHARD_FN void page_search::scan_parts(bool& growing) {
    const std::uint32_t total = entries * parts();
    const std::uint32_t first = static_cast<std::uint32_t>(simt::rank_in(s.group)) * parts_in_step;
    std::uint32_t entry = 0;
    ORCHARD_NO_UNROLL
    for (std::uint32_t i = first; i < first + parts_in_step && i < left && s.seen.bits == 0; ++i) {
        const std::uint32_t next = part + i;
        const std::uint32_t at = next < total ? next : next - total;
        const std::uint32_t in_slab = at % parts();
        if (i == first || in_slab == 0) {
            entry = scan_entry(at / parts(), growing);
            empty = empty || (i == first && entry == 0);
        }
        if (!is_slab_entry(entry)) {
            continue;
        }
        ORCHARD_UNROLL
        for (std::uint32_t w = 0; w < scanned_at_once; ++w) {
            const std::uint32_t word = in_slab * scanned_at_once + w;
            const std::uint64_t bits = word < s.words() ? s.free_in(entry - 1, word) : 0;
            if (simt::popcount(bits) > simt::popcount(s.seen.bits)) {
                s.seen = {entry - 1, word, bits};
            }
        }
    }
}

/// Looks at pages as the stage requires: sets `s.seen` in each lane. Returns whether a lane needs a slab to be created
/// first; the result is the same in all searching lanes, and `missing` says it for each lane.
inline ORCHARD_NOINLINE bool page_search::look() {
    s.seen = {};
    s.claimed = false;
    s.reserved = stage == search_stage::reserving;
    missing = false;
    empty = false;
    served = s.lacks();
    bool growing = false;
    switch (stage) {
        case search_stage::probing:
            probe_two_words();
            if (s.words() == 1) {
                probe_two_words();  // words of few pages: two of them seldom have one free
            }
            break;
        case search_stage::reserving: look_at_reserved(); break;
        case search_stage::scanning: scan_parts(growing); break;
        case search_stage::ended: break;
    }
    // A slab that is being created counts as a free page that was seen: the scan is repeated instead of failing.
    const bool comes = (s.group & simt::ballot(s.here, growing)) != 0;
    contested = contested || comes;
    empty = s.from_own_leader(empty ? 1u : 0u) != 0;
    return simt::ballot(s.here, missing) != 0;
}

}  // namespace orchard::device
