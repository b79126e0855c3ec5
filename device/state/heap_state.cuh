// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The metadata of a heap in device memory, and `heap_view`, through which kernels reach it:
///
///     heap_state          one: segment cache, counters, counts of failures, slab tables' heads
///     host_free_ring      one: blocks that the host has freed and no device thread has processed yet
///     failure_board       one, in host memory: records of requests that failed
///     event_ring          one, of a heap that reports events: tickets; its slots lie in host memory
///     heap_view           one: a copy for functions that are not inlined (kernels get theirs as a parameter)
///     slab tables         [class][slab index]: which segments are slabs of a class
///     descriptors         [segment], scattered: what it is; written by its owner, the device or the host
///     bitmaps             [segment] x 16 KiB: one bit a page, 1 = taken; all zero while the segment is no slab
///     chunk records       [segment]: the record of a chunk, at its first segment
///     portion records     [segment][leaf]: the record of a chunk that consists of one portion
///     leaf owners         [segment][leaf]: the chunk that a leaf of a portion belongs to
///
/// All metadata together takes 0.93 % of the memory that it describes. Bitmaps and records are separate: a late claimer
/// of a slab (it claims, checks the descriptor, and undoes its claim) then never writes anything but a bitmap.

#include <cstdint>

#include "device/host_rpc/client.cuh"
#include "device/simt/atomic.cuh"
#include "device/state/chunk_record.cuh"
#include "device/state/event_ring.cuh"
#include "device/state/failure_record.cuh"
#include "device/state/host_free_ring.cuh"
#include "uvm/geometry/failure_reason.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/geometry/hardening.hpp"
#include "uvm/geometry/lane_order.hpp"
#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/managed_advice.hpp"
#include "uvm/geometry/size_classes.hpp"

namespace orchard::device {

using simt::device_word;
using simt::host_word;
using simt::lane_mask;
using simt::order;
using simt::mutation::fault;

// Of a hardened heap: device/hardened.
struct quarantine;
struct block_fault_board;

/// Words of a segment's bitmap: room for 131,072 pages of 16 B.
inline constexpr std::uint64_t bitmap_words = segment_bytes / 16 / 64;

/// What a segment is, as far as the device knows. The kind is `none` also for segments that the host owns. A segment of
/// portions keeps its kind when all its portions are free, until its next owner changes it.
///
///     none --slab_publish--> slab --slab_end--> none
///     none --write_owners--> chunk --end_chunk--> none
///     any  --mark_portions--> portions --the next owner of the whole segment--> slab or chunk
enum class segment_kind : std::uint32_t { none = 0, slab = 1, chunk = 2, portions = 3 };

/// A descriptor:
///
///     63      32 31       12 11    4 3    0
///     | extent  | generation | class | kind |
///
/// extent: for a slab the reciprocal of its page size (`find_page_at`), so that `free` reads one word; for a chunk its
/// first segment. generation: counts the changes of the descriptor, modulo 2^20. Device code compares kind and class
/// only; a slab that was retired and made anew for the same class is as good as the old one.
///
/// A slab of 64 B pages (class 3, 4 units of 16 B to a page) has the kind 1, the class 3 and the extent 2^32 / 4 - 1 =
/// 0x3fffffff.
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
    /// Returns the word that follows `old` when the segment changes its kind: the generation is one higher.
    static ORCHARD_FN constexpr std::uint64_t next(std::uint64_t old, segment_kind k, std::uint32_t page_class,
                                                   std::uint32_t extent) {
        return kind_field::put(static_cast<std::uint64_t>(k)) | class_field::put(page_class) |
               generation_field::put(generation_field::get(old) + 1) | extent_field::put(extent);
    }
    /// Returns whether the word describes a slab of the class. One comparison of the low 12 bits: kind and class.
    static ORCHARD_FN constexpr bool is_slab_of(std::uint64_t word, std::uint32_t page_class) {
        return (word & 0xfff) ==
               (kind_field::put(static_cast<std::uint64_t>(segment_kind::slab)) | class_field::put(page_class));
    }
};

/// Events that the device counts. Groups that ask for pages, with their lanes and bytes, are counted in `page_counts`.
/// Frees of pages are not counted: they are the pages allocated minus the pages in use. A free of a page thus costs no
/// counter.
enum class counter : int {
    allocations,      // of blocks in chunks, one for each lane
    frees,            // of blocks in chunks, one for each lane
    allocated_bytes,  // of blocks in chunks
    failed_allocations,
    groups,             // groups that asked for chunks
    multi_lane_groups,  // those of them with several lanes
    chunk_allocations,
    live_chunks,  // decreases as well
    reallocs,
    reallocs_moved,
    slabs_published,
    slabs_retired,
    host_requests,
    refills,
    returns,
    abandoned,
    late_responses,
    searches,      // groups of small requests that found no page at their hint for some lane
    probes,        // stages of these searches
    reservations,  // reservations of fresh pages
    scans,         // scans of all words of a class
    invalid_frees,
    block_faults,
    count_
};
inline constexpr int counter_count = static_cast<int>(counter::count_);
/// Copies of the counters. Each copy is on cache lines of its own, so that warps rarely compete; the host adds them up.
inline constexpr int counter_shards = 32;

/// Requests for pages of one class. The number of groups is counted for each number of lanes: counting a group then
/// takes one atomic, and the sums of lanes and bytes cannot overflow a counter.
struct page_counts {
    device_word<std::uint64_t> groups[simt::warp_size];  ///< [lanes - 1]
    device_word<std::uint64_t> nulls;                    ///< lanes whose request failed
};
/// Copies of the flag `heap_state::closing`, which every group reads: with one copy, all warps would read one cache
/// line.
inline constexpr int flag_shards = 256;

/// The entry of a slab table at an index that a group has reserved, while it gets a slab for it.
inline constexpr std::uint32_t growing_entry = 0xffffffffu;

/// Returns whether an entry of a slab table is a slab; the entry is then segment + 1. (One comparison: 0 wraps around.)
///
///     0                  no slab at this index
///     1 ... 0xfffffffe   a slab: segment 0 ... 0xfffffffd
///     0xffffffff         `growing_entry`: a group has reserved the index and gets a segment for it
ORCHARD_INLINE constexpr bool is_slab_entry(std::uint32_t entry) { return entry - 1 < growing_entry - 1; }

static_assert(descriptor::kind_field::holds(static_cast<std::uint64_t>(segment_kind::portions)) &&
              descriptor::class_field::holds(class_count));

/// The last failure to open a slab of a class, in one word:
///
///     31            8 7      0
///     |     count     | reason |
///
/// The count changes with each failure, so that a group that waits for a slab sees that there was one since it began
/// to wait. The reason becomes `none` when a slab is opened again; the count stays.
struct slab_failure {
    std::uint32_t count;
    failure_reason why;

    static_assert(failure_reasons <= 256);
    static constexpr std::uint32_t reason_bits = 0xff;
    /// Returns the word after one more failure.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t next(failure_reason reason) const {
        return (count + 1) * 256 + static_cast<std::uint32_t>(reason);
    }
    static ORCHARD_INLINE slab_failure unpack(std::uint32_t word) {
        return {word / 256, static_cast<failure_reason>(word & reason_bits)};
    }
};

/// The head of one class's slab table. The slabs of a class, in the order of their slab indices, form one long sequence
/// of positions, one for each page.
///
/// Example: a slab of 80 B pages has 26,214 pages. Position 70,000 is page 17,572 of the slab with index 2.
struct alignas(128) slab_table_head {
    // Read by every request, seldom written.
    device_word<std::uint32_t> count;    ///< all indices ever used are below it; a scan covers [0, count)
    device_word<std::uint32_t> spread;   ///< all slabs lie below it; a hint that falls with the last slab
    device_word<std::uint32_t> failure;  ///< a `slab_failure`
    // Written by every search, hence on a cache line of its own: a request that finds a page at its hint does not wait
    // for it.
    alignas(128) device_word<std::uint64_t> high_water;  ///< the next position to be reserved; a hint
    device_word<std::uint64_t> sample;                   ///< a packed `fill_sample`
};

/// One word on a cache line of its own.
struct alignas(128) padded_atomic {
    device_word<std::uint64_t> word;
};

/// The note that the heap is exhausted: a request for this number of leaves failed after the reclaim with this number.
/// Requests for at least as many leaves that need no later reclaim fail at once.
///
///     63           24 23          4 3      0
///     |   reclaim    |  ~leaves   | reason |
///
/// Notes are written by an atomic maximum. The greater of two words is from the later reclaim; within one reclaim, the
/// greater word has fewer leaves and thus covers more requests. The leaves are stored as `max_leaves` - leaves for this
/// reason: after reclaim 8, the note for 32 leaves (0xfffdf) replaces one for 64 leaves (0xfffbf), and any note of
/// reclaim 6.
struct exhaustion {
    using reason_field = mailbox::field<0, 4>;
    using leaves_field = mailbox::field<4, 20>;
    using reclaim_field = mailbox::field<24, 40>;
    static constexpr std::uint64_t max_leaves = leaves_field::mask;
    static_assert(reason_field::holds(failure_reasons - 1));

    std::uint64_t reclaim;
    std::uint64_t leaves;  ///< at most `max_leaves`
    failure_reason why;    ///< `none`: there is no note

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
/// If the group that reclaims does not finish in time, a waiting group begins the reclaim again and increments `owner`.
/// The first group can then no longer end it: its compare-and-swap expects the old owner. Example, with the number 6
/// (three reclaims are over): {0, 6} --begin--> {0, 7} --begin again--> {1, 7} --end--> {0, 8}.
///
/// Each owner gets twice the time of the one before. With the same time for all, two groups would begin each other's
/// reclaim again for ever if a reclaim takes longer than that, as it does while it waits for a lost refill.
struct reclaim_count {
    static constexpr int owner_shift = 40;
    static constexpr std::uint64_t next_owner = std::uint64_t{1} << owner_shift;
    static ORCHARD_INLINE constexpr std::uint64_t number(std::uint64_t word) { return word & (next_owner - 1); }
    /// Returns the time that the owner has, where the first one has `first`; at most 1,024 times as much.
    static ORCHARD_INLINE constexpr std::uint64_t patience(std::uint64_t word, std::uint64_t first) {
        const std::uint64_t owner = word >> owner_shift;
        return first << (owner < 10 ? owner : 10);
    }
};

/// The end of all segments that were ever granted. The device raises one word for its grants; the host writes the other
/// for its own. Two words, since the host writes by copies: a copy into a word that the device changes by atomics could
/// undo such a change.
struct alignas(128) granted_end {
    device_word<std::uint64_t> device;
    device_word<std::uint64_t> host;
};

/// The state of the portion bitmaps of one line of segments (`segments_a_line`): whether they are cleared. One lane
/// moves a line from `raw` to `in_work`, clears it, and releases `cleared`; lanes that need the line wait for that
/// (`clear_line_of`).
enum class line_state : std::uint32_t { raw = 0, in_work = 1, cleared = 2 };

/// The shape of the chunk store (segments/chunk_store.cuh).
struct chunk_store {
    static constexpr std::uint32_t log_max_leaves = 16;  ///< chunks of 4 GiB and more are not kept
    static constexpr std::uint32_t classes = 16 * (log_max_leaves - 3);
    static constexpr std::uint32_t slots_in_row = 32;
    /// It holds at most half of what the heap may commit, and less of short chunks of one class, which run out of
    /// slots.
    static constexpr std::uint32_t share = 2;

    /// Returns the number of rows of a class, a power of two: a slot for each 16 MiB that the heap may commit, at least
    /// 32 and at most 2,048. 0, so that there is no store, for a heap of less than 64 MiB, which has better use for the
    /// memory.
    static constexpr std::uint32_t rows_for(std::uint32_t segments) {
        if (segments < 32) {
            return 0;
        }
        std::uint32_t rows = 1;
        while (rows < 64 && rows * 256 < segments) {
            rows *= 2;
        }
        return rows;
    }
    /// Returns the most leaves that the store of a heap of `segments` holds, and so the length of its longest chunk.
    static ORCHARD_FN constexpr std::uint32_t most_leaves(std::uint32_t segments) {
        return segments * (leaves_per_segment / share);
    }
    /// Returns the number of classes for which a heap of `segments` has slots: those of the doublings up to the longest
    /// chunk that the store may hold. For 32 segments, that is 512 leaves, and 112 classes.
    static constexpr std::uint32_t classes_for(std::uint32_t segments) {
        const auto doublings = static_cast<std::uint32_t>(simt::highest_bit(most_leaves(segments)) + 1);
        return doublings > log_max_leaves ? classes : 16 * (doublings - 3);
    }
};

/// The part of a heap's metadata that exists once. Each hot word lies on a cache line of its own, so that groups that
/// change one word do not delay groups that read another.
struct heap_state {
    slab_table_head slabs[class_count];
    padded_atomic cache_level;                         ///< segments in the segment cache
    granted_end end;                                   ///< a search of the segment cache ends there
    padded_atomic portion_level[leaves_per_segment];   ///< [leaves]: portions of that length in the segment cache
    padded_atomic portion_leaves;                      ///< of all portions there, weighted by `counted_leaves`
    padded_atomic stored_count[chunk_store::classes];  ///< [class]: a `chunk_count` of the chunk store
    padded_atomic stored_leaves;                       ///< leaves of all chunks in the chunk store
    /// 1 while a refill is under way: it was posted, and its segments have not arrived. Else 0.
    padded_atomic refill_in_flight;
    /// Leaf + 1 of the first late tail that is not in the segment cache yet (`keep_late_tail`); 0: none.
    padded_atomic late_tails;
    padded_atomic reclaims;      ///< a `reclaim_count`
    padded_atomic segments_got;  ///< number of requests for segments that were served, on the device or by the host
    padded_atomic exhausted;     ///< an `exhaustion`, until a group gets a segment again; 0: no note
    padded_atomic closing[flag_shards];  ///< nonzero once the host has closed the heap; each warp reads its own copy
    failure_counts failure;
    struct alignas(128) counters {
        device_word<std::uint64_t> value[counter_count];
    } counts[counter_shards];
    page_counts pages[counter_shards][class_count];
};

/// 2^32 divided by the golden ratio. Its multiples modulo 2^32 are spread evenly, whatever their number.
inline constexpr std::uint32_t golden_ratio = 0x9e3779b9u;

/// Returns a number below `n`: the part of it that `fraction` is of 2^32. A product, so that no division is needed. For
/// n = 100, the fraction 0x80000000 gives 50.
ORCHARD_INLINE std::uint32_t fraction_of(std::uint32_t n, std::uint32_t fraction) {
    return static_cast<std::uint32_t>(std::uint64_t{fraction} * n >> 32);
}

/// Returns where the descriptor of a segment lies in an array of `mask` + 1 words, a power of two: each place belongs
/// to one segment, since the factor is odd. Neighbouring segments lie far apart. Most warps read the descriptors of the
/// same few segments; in one cache line, these would take as long as one slice of the L2 cache needs for all warps.
/// Measured on an H200 with 1,000,000 blocks of 16 to 512 B: `free` 21 us, with neighbours side by side 37 us.
ORCHARD_INLINE std::uint32_t descriptor_place(std::uint32_t segment, std::uint32_t mask) {
    return segment * golden_ratio & mask;
}

/// The view of a heap that device code works with. Its pointers and numbers do not change while the heap lives.
struct heap_view {
    char* base = nullptr;         ///< the first byte of the super chunk, aligned to a segment
    std::uint32_t segments = 0;   ///< the number of segments of the super chunk
    std::uint32_t max_slabs = 0;  ///< length of a class's slab table: as many slabs as memory may ever be committed for
    std::uint32_t cache_target = 64;  ///< segments to keep cached; 0: every request goes to the host
    std::uint32_t cache_max = 128;    ///< segments above which some are returned to the host
    std::uint32_t refill_batch = 16;  ///< the least number of segments that a refill asks for
    /// Nonzero if `malloc`, `free` and the calls built on them do more than in an ordinary heap: the level of
    /// `hardened`, and `reporting` if they report blocks (`report_block`). One test of this word leads away from the
    /// fast paths.
    std::uint32_t instrumented = 0;
    /// Bitmaps and lines of portions may contain garbage when they are committed; the first thread that needs a part of
    /// them clears it.
    bool clears_metadata = false;
    std::uint16_t stamp = 0;  ///< marks the portion records that this heap has written
    portion_policy portions_by = portion_policy::packed;
    tail_policy tails_by = tail_policy::adjacent;       ///< where tails of chunks of interleaved arrays lie
    std::uint8_t log_chunk_lanes = 5;                   ///< log2 of the number of lanes that may share a chunk
    layout arrays = layout::automatic();                ///< layout of arrays whose call leaves it to the heap
    lane_order order_of_lanes = lane_order::ascending;  ///< the order of lanes in rows of interleaved arrays
    bool takes_advice = false;                          ///< the memory is managed: arrays may have advice of their own
    managed_advice advice = managed_advice::first_touch_gpu;  ///< of managed memory: the heap's option
    std::uint64_t reclaim_patience_ns = 100'000'000;  ///< after which a reclaim under way is begun by another group
    heap_state* state = nullptr;
    const heap_view* self = nullptr;                    ///< a copy of this view in memory that kernels read
    device_word<std::uint32_t>* slab_table = nullptr;   ///< [class_count][max_slabs]: segment + 1, 0 or growing
    device_word<std::uint64_t>* descriptors = nullptr;  ///< [descriptor_mask + 1]: see `descriptor`
    std::uint32_t descriptor_mask = 0;                  ///< the least power of two that is not below `segments`, less 1
    device_word<std::uint64_t>* cache = nullptr;        ///< [(segments + 63) / 64]: 1 = the segment is cached
    device_word<std::uint64_t>* cache_summary = nullptr;  ///< a bit for each word of `cache` that may be nonzero
    device_word<std::uint32_t>* cleared_words = nullptr;  ///< [segments]: first words of its bitmap ever cleared
    device_word<std::uint32_t>* cleared_lines = nullptr;  ///< [portion_lines()]: a `line_state`
    device_word<std::uint64_t>* bitmaps = nullptr;        ///< [segments][bitmap_words]
    /// [portion_lines()][31][words_a_line]: 1 = a portion in the segment cache begins here
    device_word<std::uint64_t>* portions = nullptr;
    /// [31][(portion_words() + 63) / 64]: as `cache_summary`.
    device_word<std::uint64_t>* portion_summary = nullptr;
    /// [`chunk_store::classes_for`][stored_rows][chunk_store::slots_in_row]: a `stored_chunk`, or 0
    device_word<std::uint64_t>* stored = nullptr;
    std::uint32_t stored_rows = 0;                      ///< a power of two; 0: the heap has no chunk store
    chunk_record* records = nullptr;                    ///< [segments]
    portion_record* portion_records = nullptr;          ///< [segments][leaves_per_segment]
    device_word<std::uint32_t>* leaf_owners = nullptr;  ///< [segments][leaves_per_segment]: a `chunk_id`
    host_free_ring* host_frees = nullptr;               ///< blocks that the host has freed
    failure_board* failures = nullptr;                  ///< in host memory; null: failures are only counted
    quarantine* quarantined = nullptr;                  ///< of a hardened heap
    block_fault_board* block_faults = nullptr;          ///< of a hardened heap; in host memory
    std::uint32_t quarantine_slots = 0;
    block_fill fill = block_fill::unchanged;  ///< of a hardened heap
    std::uint32_t placement_seed = 0;         ///< of a hardened heap: which words of a new slab are used first; else 0
    device_word<std::uint32_t>* samples =
        nullptr;                   ///< [segments]: accesses (`heap_ref::note_access`); null: none count
    mailbox_client mailbox;        ///< to the host's service
    event_ring* events = nullptr;  ///< of a heap that reports events; else null

    static constexpr std::uint32_t level_mask = 3;
    static constexpr std::uint32_t reporting = 4;
    /// Returns the level of the option `hardened`.
    [[nodiscard]] ORCHARD_INLINE hardening level() const { return static_cast<hardening>(instrumented & level_mask); }
    [[nodiscard]] ORCHARD_INLINE bool is_hardened() const { return (instrumented & level_mask) != 0; }
    /// False leaves out all code of kernels that reports events; profiling/report/hot_path.py shows by it that `malloc`
    /// and `free` are the same with and without.
#ifdef ORCHARD_WITHOUT_EVENTS
    static constexpr bool has_event_code = false;
#else
    static constexpr bool has_event_code = true;
#endif
    /// Returns whether every block that is allocated or freed is reported to the host.
    [[nodiscard]] ORCHARD_INLINE bool reports_blocks() const {
        return has_event_code && (instrumented & reporting) != 0;
    }
    /// Returns whether slabs and failures are reported to the host.
    [[nodiscard]] ORCHARD_INLINE bool reports_notes() const { return has_event_code && events != nullptr; }
    /// Returns the offset of an address of the heap from `base`.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t offset_of(const void* p) const {
        return static_cast<std::uint64_t>(static_cast<const char*>(p) - base);
    }
    /// Returns the code of the advice `what` for an array; 0 if the heap has it anyway, or takes none.
    [[nodiscard]] ORCHARD_INLINE advice_code code_of(managed_advice what) const {
        return takes_advice ? orchard::code_of(what, advice) : advice_code{0};
    }
    /// Returns the first word of a segment's bitmap. Only the words that the class of its slab needs are used.
    [[nodiscard]] ORCHARD_INLINE device_word<std::uint64_t>* bitmap(std::uint32_t segment) const {
        return bitmaps + segment * bitmap_words;
    }
    /// Returns the slab table of a class, `max_slabs` entries long.
    [[nodiscard]] ORCHARD_INLINE device_word<std::uint32_t>* table(std::uint32_t page_class) const {
        return slab_table + std::uint64_t{page_class} * max_slabs;
    }
    /// Returns the descriptor of a segment.
    [[nodiscard]] ORCHARD_INLINE device_word<std::uint64_t>& descriptor(std::uint32_t segment) const {
        return descriptors[descriptor_place(segment, descriptor_mask)];
    }
    /// Returns the segment of an address of the heap.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t segment_of(const void* p) const {
        return static_cast<std::uint32_t>((static_cast<const char*>(p) - base) >> segment_shift);
    }
    /// Returns the first byte of a segment.
    [[nodiscard]] ORCHARD_INLINE char* address(std::uint32_t segment) const {
        return base + (std::uint64_t{segment} << segment_shift);
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t cache_words() const { return (segments + 63) / 64; }
    /// Returns the number of 64-bit words with one bit for each leaf: 32 leaves to a segment, two segments to a word.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t portion_words() const { return (segments + 1) / 2; }
    /// A line: words of one length of portions that stand for the same segments. The lines of all lengths for these
    /// segments are adjacent, so that one lane clears them together (`clear_line_of`):
    ///
    ///     segments 0 to 31                                             segments 32 to 63
    ///     | length 1: 16 words | length 2: 16 words | ... | length 31 | length 1: 16 words | ...
    static constexpr std::uint32_t words_a_line = 16;
    [[nodiscard]] ORCHARD_INLINE std::uint32_t portion_lines() const {
        return (portion_words() + words_a_line - 1) / words_a_line;
    }
    /// Returns whether `p` lies in the super chunk, whatever is there. No memory access.
    [[nodiscard]] ORCHARD_INLINE bool owns(const void* p) const {
        return owns_offset(static_cast<std::uint64_t>(static_cast<const char*>(p) - base));
    }
    /// Returns whether the byte at `offset` from `base` belongs to the heap. For an address below `base`, the offset
    /// wraps around and is too large.
    [[nodiscard]] ORCHARD_INLINE bool owns_offset(std::uint64_t offset) const {
        return offset < std::uint64_t{segments} << segment_shift;
    }
    /// Returns the copy of the counters that this warp uses. Neighbouring warps use different copies.
    ORCHARD_INLINE static std::uint32_t own_shard() {
        return static_cast<std::uint32_t>(simt::position().global_warp()) % counter_shards;
    }
    /// Adds to a counter. No round trip: the result of the atomic is not used.
    ORCHARD_INLINE void add(counter c, std::uint64_t n) const {
        state->counts[own_shard()].value[static_cast<int>(c)].fetch_add<order::relaxed>(n);
    }
};

/// The number of segments that one line of portion words stands for.
inline constexpr std::uint32_t segments_a_line = 2 * heap_view::words_a_line;

/// Calls `place(pointer, count, each)` for each array that a view points to. The function `place` allocates the array
/// and sets its pointer. If `each` is 0, the array must be zero, and may be accessed at any time. Otherwise elements
/// [each * i, each * (i + 1)) are accessed only after one of the segments [segments_a_line * i, segments_a_line * (i +
/// 1)) is committed. Their initial contents may be arbitrary if `clears_metadata` is set, and must be zero otherwise.
/// Host only.
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
    v.descriptor_mask = v.segments < 2 ? 0 : (std::uint32_t{2} << simt::highest_bit(v.segments - 1)) - 1;
    always(v.descriptors, std::uint64_t{v.descriptor_mask} + 1);
    always(v.cache, v.cache_words());
    always(v.cache_summary, (v.cache_words() + 63) / 64);
    always(v.portion_summary, lengths * ((v.portion_words() + 63) / 64));
    if (v.stored_rows != 0) {
        const std::uint64_t classes = chunk_store::classes_for(v.max_slabs);
        always(v.stored, classes * v.stored_rows * chunk_store::slots_in_row);
    }
    always(v.cleared_words, v.segments);
    always(v.cleared_lines, v.portion_lines());
    constexpr std::uint64_t line = lengths * heap_view::words_a_line;
    place(v.portions, line * v.portion_lines(), line);
    of_segments(v.bitmaps, bitmap_words);
    of_segments(v.records, 1);
    of_segments(v.portion_records, leaves_per_segment);
    of_segments(v.leaf_owners, leaves_per_segment);
}

/// Returns a pseudo-random number for the counter `x`. It keeps no state, so that a probe costs no memory access for
/// it. Different `x` give different results, as each step can be undone. Source: the finalizer of MurmurHash3, a
/// public-domain bit mixer.
ORCHARD_INLINE std::uint32_t mix(std::uint32_t x) {
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ (x >> 16);
}

/// Returns whether the host is closing the heap. Each lane calls it for itself. Cost: one load. Relaxed: the flag
/// carries nothing, and a group that sees it late makes one request more, which the service rejects.
ORCHARD_INLINE bool is_closing(const heap_view& h) {
    const auto shard = static_cast<std::uint32_t>(simt::position().global_warp()) % flag_shards;
    return h.state->closing[shard].word.load<order::relaxed>() != 0;
}

}  // namespace orchard::device
