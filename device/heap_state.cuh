// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What a heap keeps in device memory beside the user's memory, and the view of it that kernels are handed.
///
///     heap_state          one: segment cache, counters, counts of failures, slab tables' heads
///     host_free_ring      one: blocks that the host has freed, and no device thread as yet
///     failure_board       one, in memory of the host: requests that failed
///     heap_view           one: a copy, for functions that are not inlined (kernels have theirs as a parameter)
///     slab tables         [class][place]: which segments are slabs of a class
///     descriptors         [segment]: what a segment is; written by its owner: the device, or the host for its blocks
///     bitmaps             [segment] x 16 KiB: one bit a page, 1 = taken; all zero while the segment is no slab
///     chunk records       [segment]: of a chunk's first segment
///     portion records     [segment][leaf]: of a chunk that is a portion and nothing else
///     leaf owners         [segment][leaf]: the chunk that a leaf of a portion belongs to
///
/// All of it is 0.93 % of the memory it describes. Bitmaps and records are apart, so that a group that comes too late
/// to a slab (it claims, looks at the descriptor, and takes its claim back) never touches anything but a bitmap.

#include <cstdint>

#include "device/failure_record.cuh"
#include "device/host_rpc/client.cuh"
#include "device/host_rpc/host_free_ring.cuh"
#include "device/large/chunk_record.cuh"
#include "device/published/published_view.cuh"
#include "device/simt/atomic.cuh"
#include "uvm/geometry/failure_reason.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/geometry/lane_order.hpp"
#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/size_classes.hpp"

namespace orchard::device {

using simt::device_word;
using simt::host_word;
using simt::lane_mask;
using simt::order;
using simt::mutation::fault;

/// Words of a segment's bitmap: 131,072 pages of 16 B.
inline constexpr std::uint64_t bitmap_words = segment_bytes / 16 / 64;
/// Most mailboxes (shards) of one heap.
inline constexpr int max_shards = 4;

/// What a segment is, as far as the device knows. "None" is also what the host owns.
/// A segment of portions stays one until its owner makes something else of it: then no portion is in it.
enum class segment_kind : std::uint32_t { none = 0, slab = 1, chunk = 2, portions = 3 };

/// A descriptor:
///
///     63      32 31       12 11    4 3    0
///     | extent  | generation | class | kind |
///
/// extent: of a slab the reciprocal of its pages' size (`find_page_at`), so that `free` reads one word; of a chunk the
/// chunk's first segment.
struct descriptor {
    using kind_field = mailbox::field<0, 4>;
    using class_field = mailbox::field<4, 8>;
    using generation_field = mailbox::field<12, 20>;
    using extent_field = mailbox::field<32, 32>;

    static ORCHARD_FN constexpr segment_kind kind(std::uint64_t word) {
        return static_cast<segment_kind>(kind_field::get(word));
    }
    static ORCHARD_FN constexpr std::uint32_t page_class(std::uint64_t word) { return class_field::get(word); }
    static ORCHARD_FN constexpr std::uint32_t extent(std::uint64_t word) { return extent_field::get(word); }
    /// The word that follows `old` when the segment becomes something else: its generation is one higher.
    static ORCHARD_FN constexpr std::uint64_t next(std::uint64_t old, segment_kind k, std::uint32_t page_class,
                                                   std::uint32_t extent) {
        return kind_field::put(static_cast<std::uint64_t>(k)) | class_field::put(page_class) |
               generation_field::put(generation_field::get(old) + 1) | extent_field::put(extent);
    }
    static ORCHARD_FN constexpr bool is_slab_of(std::uint64_t word, std::uint32_t page_class) {
        return (word & 0xfff) ==
               (kind_field::put(static_cast<std::uint64_t>(segment_kind::slab)) | class_field::put(page_class));
    }
};

/// What the device counts. Lanes, bytes and groups that asked for pages are counted in `page_counts` instead, and
/// frees of pages not at all: they are what was allocated less what is in use.
enum class counter : int {
    allocations,      // of chunks, one a lane
    frees,            // of chunks, one a lane
    allocated_bytes,  // in chunks
    failed_allocations,
    groups,             // that asked for chunks
    multi_lane_groups,  // among them
    chunk_allocations,
    live_chunks,  // goes down again
    reallocs,
    reallocs_moved,
    slabs_published,
    slabs_retired,
    posts,
    refills,
    returns,
    abandoned,
    late_answers,
    searches,      // groups of small requests that had to look further than at its hint
    probes,        // rounds of looking at random words, of such groups
    reservations,  // of fresh pages
    sweeps,        // over all words of a class
    invalid_frees,
    count_
};
inline constexpr int counter_count = static_cast<int>(counter::count_);
/// Counters are kept this many times, on lines of their own, and summed by the host.
inline constexpr int counter_shards = 32;

/// What groups asked a class of pages for: how many groups of so many lanes, so that counting a group costs one
/// reduction, and no counter ever runs over.
struct page_counts {
    device_word<std::uint64_t> groups[simt::warp_size];  ///< [lanes - 1]
    device_word<std::uint64_t> nulls;                    ///< lanes that got none
};
/// Copies of flags that every group reads.
inline constexpr int flag_shards = 256;

/// Stands in a slab table for a slab that a group is about to put there.
inline constexpr std::uint32_t growing_entry = 0xffffffffu;

/// Whether an entry of a slab table is a slab, as segment + 1.
ORCHARD_INLINE constexpr bool is_slab_entry(std::uint32_t entry) { return entry - 1 < growing_entry - 1; }

static_assert(descriptor::kind_field::holds(static_cast<std::uint64_t>(segment_kind::portions)) &&
              descriptor::class_field::holds(class_count));

/// Head of one class's slab table. The slabs of a class, by their places in the table, are read as one long sequence
/// of positions: 2^k to a place, a power of two that holds a slab's pages, so that no division is needed. The
/// positions behind a slab's last page are void.
struct alignas(128) slab_table_head {
    // Read by every request, and seldom written.
    device_word<std::uint32_t> count;    ///< places in use or once used; [0, count) are to be looked at
    device_word<std::uint32_t> spread;   ///< behind the last place with a slab; a hint: goes down with the last one
    device_word<std::uint32_t> refusal;  ///< of the last slab that was not to be had: a count, and 8 bits of reason
    device_word<std::uint32_t> grown;    ///< slabs that a published walk has added
    // Written by every search: on a line of their own, which no request that finds a page at once waits for.
    alignas(128) device_word<std::uint64_t> high_water;  ///< the next position that a ticket gives; a hint
    device_word<std::uint64_t> sample;                   ///< a `fill_sample`
};

/// How full a class is, as random looks at its bitmaps show it: a word in the head of its slab table.
///
///     63         32 31        0
///     |   words    |   free    |   words that were looked at, and the free pages in them
///
/// Old looks count less and less: a search that finds many words halves both. Without this word a search that meets
/// only full words cannot tell whether the class needs another slab or the search was unlucky, and a class whose blocks
/// are freed and allocated again grows a little each time.
struct fill_sample {
    static constexpr std::uint32_t least_words = 128;  ///< fewer say nothing
    static constexpr std::uint32_t max_words = 512;

    std::uint32_t words;
    std::uint32_t free;

    static ORCHARD_INLINE std::uint64_t pack(std::uint32_t words, std::uint32_t free) {
        return std::uint64_t{words} << 32 | free;
    }
    static ORCHARD_INLINE fill_sample unpack(std::uint64_t word) {
        return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word)};
    }
    /// Returns whether the looks say that more than a ninth of the class's pages are free.
    /// @param pages  of a slab
    [[nodiscard]] ORCHARD_INLINE bool is_roomy(std::uint32_t pages) const {
        const std::uint32_t each = pages < 64 ? pages : 64;
        return words >= least_words && free * 9 > words * each;
    }
    /// Returns whether they say that fewer are.
    [[nodiscard]] ORCHARD_INLINE bool is_tight(std::uint32_t pages) const {
        return words >= least_words && !is_roomy(pages);
    }
};

/// One word on a line of its own.
struct alignas(128) padded_atomic {
    device_word<std::uint64_t> word;
};

/// A word that says that the heap was exhausted: a request for so many leaves was refused behind the reclaim with this
/// number. Null for requests of as many leaves or more that need no later reclaim.
///
///     63           24 23          4 3      0
///     |   reclaim    |  ~leaves   | reason |
///
/// The greater of two words is of the later reclaim; of two words of one reclaim, the greater one covers more requests.
struct exhaustion {
    using reason_field = mailbox::field<0, 4>;
    using leaves_field = mailbox::field<4, 20>;
    using reclaim_field = mailbox::field<24, 40>;
    static constexpr std::uint64_t max_leaves = leaves_field::mask;
    static_assert(reason_field::holds(failure_reasons - 1));

    std::uint64_t reclaim;
    std::uint64_t leaves;  ///< at most `max_leaves`
    failure_reason why;    ///< none: there is no such note

    [[nodiscard]] ORCHARD_INLINE std::uint64_t pack() const {
        return reclaim_field::put(reclaim) | leaves_field::put(max_leaves - leaves) |
               reason_field::put(static_cast<std::uint64_t>(why));
    }
    static ORCHARD_INLINE exhaustion unpack(std::uint64_t word) {
        return {word >> 24, max_leaves - leaves_field::get(word), static_cast<failure_reason>(reason_field::get(word))};
    }
};

/// The word that counts reclaims.
///
///     63     40 39                                              0
///     | owner  | 2 n: n reclaims are over; 2 n + 1: one more is under way |
///
/// The owner changes where a group does not wait any longer for one that stands still in a reclaim, and begins anew.
struct reclaim_count {
    static constexpr std::uint64_t next_owner = std::uint64_t{1} << 40;
    static ORCHARD_INLINE constexpr std::uint64_t number(std::uint64_t word) { return word & (next_owner - 1); }
};

/// Behind the highest segment that was ever granted: to the device, which raises the one word, and to the host, which
/// writes the other.
struct alignas(128) granted_end {
    device_word<std::uint64_t> device;
    device_word<std::uint64_t> host;
};

/// Whether the bitmaps of portions of one line of segments (`segments_a_line`) are cleared.
enum class line_state : std::uint32_t { raw = 0, in_work = 1, cleared = 2 };

struct heap_state {
    slab_table_head slabs[class_count];
    padded_atomic cache_level;                        ///< segments in the segment cache
    granted_end end;                                  ///< of what may lie in the segment cache: a search ends there
    padded_atomic portion_level[leaves_per_segment];  ///< [leaves]: portions of that length in the segment cache
    padded_atomic portion_leaves;                     ///< of all of them, as `counted_leaves` counts
    padded_atomic
        refill_in_flight;  ///< shard + 1 while a refill was posted there, and its segments are not at hand yet
    padded_atomic
        late_tails;  ///< leaf + 1 of the first tail of these that is not in the segment cache yet; 0: there is none
    padded_atomic reclaims;              ///< a `reclaim_count`
    padded_atomic exhausted;             ///< an `exhaustion`, until a group gets a segment again; 0: there is none
    padded_atomic closing[flag_shards];  ///< nonzero once the host has closed the heap; each warp has its own to read
    failure_counts failure;
    struct alignas(128) counters {
        device_word<std::uint64_t> value[counter_count];
    } counts[counter_shards];
    page_counts pages[counter_shards][class_count];
};

/// The view of a heap that device code works on: pointers and numbers that do not change while the heap lives.
struct heap_view {
    char* base = nullptr;         ///< of the super chunk, aligned to a segment
    std::uint32_t segments = 0;   ///< of the super chunk
    std::uint32_t max_slabs = 0;  ///< of a class's slab table: as many slabs as memory may ever be committed for
    std::uint32_t shards = 1;     ///< mailboxes in use
    std::uint32_t segments_per_shard = 0;
    std::uint32_t cache_target = 64;  ///< segments kept at hand; 0: every request goes to the host
    std::uint32_t cache_max = 128;    ///< segments above which some are handed back
    std::uint32_t refill_batch = 16;  ///< segments asked for at once
    bool hardened = false;            ///< a wrong free ends the kernel
    /// Bitmaps and lines of portions are not zero when they are committed: the first thread that needs a part of them
    /// clears it.
    bool clears_metadata = false;
    std::uint16_t stamp = 0;  ///< in records of portions that this heap has written
    portion_policy portions_by = portion_policy::packed;
    std::uint8_t log_chunk_lanes = 5;                   ///< log2 of how many lanes may share a chunk
    layout arrays = layout::automatic();                ///< of arrays of lanes where the call leaves it to the heap
    lane_order order_of_lanes = lane_order::ascending;  ///< in rows of interleaved arrays
    std::uint64_t reclaim_patience_ns = 100'000'000;    ///< after which a reclaim that goes on is waited for no more
    heap_state* state = nullptr;
    const heap_view* self = nullptr;                      ///< a copy of this view in the memory that kernels read
    device_word<std::uint32_t>* slab_table = nullptr;     ///< [class_count][max_slabs]: segment + 1, 0, or growing
    device_word<std::uint64_t>* descriptors = nullptr;    ///< [segments]
    device_word<std::uint64_t>* cache = nullptr;          ///< [(segments + 63) / 64]: 1 = a segment at hand
    device_word<std::uint64_t>* cache_summary = nullptr;  ///< a bit for each segment cache word that may be nonzero
    device_word<std::uint32_t>* cleared_words = nullptr;  ///< [segments]: first words of its bitmap ever cleared
    device_word<std::uint32_t>* cleared_lines = nullptr;  ///< [portion_lines()]: a `line_state`
    device_word<std::uint64_t>* bitmaps = nullptr;        ///< [segments][bitmap_words]
    /// [portion_lines()][31][words_a_line]: 1 = a portion at hand begins here
    device_word<std::uint64_t>* portions = nullptr;
    device_word<std::uint64_t>* portion_summary =
        nullptr;                                        ///< [31][(portion_words() + 63) / 64], as the segment cache's
    chunk_record* records = nullptr;                    ///< [segments]
    portion_record* portion_records = nullptr;          ///< [segments][leaves_per_segment]
    device_word<std::uint32_t>* leaf_owners = nullptr;  ///< [segments][leaves_per_segment]: a `chunk_id`
    host_free_ring* host_frees = nullptr;               ///< blocks that the host has freed
    failure_board* failures = nullptr;                  ///< in memory of the host; null: only counts are kept
    published_view published;                           ///< of a heap whose policy is not the default
    mailbox_client mailboxes[max_shards];

    [[nodiscard]] ORCHARD_INLINE device_word<std::uint64_t>* bitmap(std::uint32_t segment) const {
        return bitmaps + segment * bitmap_words;
    }
    [[nodiscard]] ORCHARD_INLINE device_word<std::uint32_t>* table(std::uint32_t page_class) const {
        return slab_table + std::uint64_t{page_class} * max_slabs;
    }
    [[nodiscard]] ORCHARD_INLINE char* address(std::uint32_t segment) const {
        return base + (std::uint64_t{segment} << segment_shift);
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t cache_words() const { return (segments + 63) / 64; }
    /// 64-bit words with a bit for each leaf.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t portion_words() const { return (segments + 1) / 2; }
    /// The words of all lengths that stand for the same segments lie together, a line of each length.
    static constexpr std::uint32_t words_a_line = 16;
    [[nodiscard]] ORCHARD_INLINE std::uint32_t portion_lines() const {
        return (portion_words() + words_a_line - 1) / words_a_line;
    }
    [[nodiscard]] ORCHARD_INLINE bool owns(const void* p) const {
        return owns_offset(static_cast<std::uint64_t>(static_cast<const char*>(p) - base));
    }
    /// Whether bytes at `offset` from the heap's begin, which may be what an address before it gives, are the heap's.
    [[nodiscard]] ORCHARD_INLINE bool owns_offset(std::uint64_t offset) const {
        return offset < std::uint64_t{segments} << segment_shift;
    }
    /// Which of the copies of counters and flags this warp uses.
    ORCHARD_INLINE static std::uint32_t own_shard() {
        return static_cast<std::uint32_t>(simt::position().global_warp()) % counter_shards;
    }
    /// Adds to a counter; no round trip.
    ORCHARD_INLINE void add(counter c, std::uint64_t n) const {
        state->counts[own_shard()].value[static_cast<int>(c)].fetch_add<order::relaxed>(n);
    }
};

/// Segments for which a line of each length of portions stands.
inline constexpr std::uint32_t segments_a_line = 2 * heap_view::words_a_line;

/// Names all arrays that a view points to, with their lengths, to the function that places them: `place(pointer, count,
/// each)`. Those with an `each` of 0 must be zero, and may be touched at any time. Of the others the elements
/// [each * i, each * (i + 1)) are touched only once one of the segments [segments_a_line * i, segments_a_line * (i +
/// 1)) is committed; they may hold anything then, if `clears_metadata` is set, and must be zero otherwise. Host only.
template <class Place>
void for_each_array(heap_view& v, Place place) {
    constexpr std::uint64_t lengths = leaves_per_segment - 1;
    const auto always = [&](auto*& pointer, std::uint64_t count) { place(pointer, count, std::uint64_t{0}); };
    const auto of_segments = [&](auto*& pointer, std::uint64_t each) {
        place(pointer, v.segments * each, segments_a_line * each);
    };
    always(v.state, 1);
    always(v.host_frees, 1);
    always(v.slab_table, std::uint64_t{class_count} * v.max_slabs);
    always(v.descriptors, v.segments);
    always(v.cache, v.cache_words());
    always(v.cache_summary, (v.cache_words() + 63) / 64);
    always(v.portion_summary, lengths * ((v.portion_words() + 63) / 64));
    always(v.cleared_words, v.segments);
    always(v.cleared_lines, v.portion_lines());
    constexpr std::uint64_t line = lengths * heap_view::words_a_line;
    place(v.portions, line * v.portion_lines(), line);
    of_segments(v.bitmaps, bitmap_words);
    of_segments(v.records, 1);
    of_segments(v.portion_records, leaves_per_segment);
    of_segments(v.leaf_owners, leaves_per_segment);
}

/// 2^32 divided by the golden ratio: multiples of it, modulo 2^32, lie evenly apart, however many they are.
inline constexpr std::uint32_t golden_ratio = 0x9e3779b9u;

/// A counter-based pseudo-random number: no state, so that a probe costs no memory access.
/// Source: the finalizer of MurmurHash3, a public-domain bit mixer.
ORCHARD_INLINE std::uint32_t mix(std::uint32_t x) {
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ (x >> 16);
}

/// Whether the heap is being closed.
ORCHARD_INLINE bool is_closing(const heap_view& h) {
    const auto shard = static_cast<std::uint32_t>(simt::position().global_warp()) % flag_shards;
    return h.state->closing[shard].word.load<order::relaxed>() != 0;
}

}  // namespace orchard::device
