// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The mailbox's shared layout and state machine: written once, used by the device's client
/// (`device/host_rpc/client.cuh`) and by the host's server (`host/mailbox_server.hpp`).
///
///     host-visible memory                                device memory
///     post ring        [N] words, device -> host         slots [N] words, one a post in flight
///     C answer rings [2N/C] words, host -> device        ticket counter, C poller words
///     heartbeat, blocked   words, host -> device
///
/// The answer to a slot goes into the ring that its number chooses (`shape::response_ring`); each ring has a poller of
/// its own, so that C of them work side by side.
///
/// Life of a slot (tag counts its uses):
///
///     idle(t) --claim--> pending(t) --poller--> answered(t) --owner--> idle(t+1)
///                            |
///                            +--owner gives up, or never waited--> unattended(t) --poller--> idle(t+1),
///                                                                   the grant goes to the segment cache
///
/// A claimed slot is the credit. Posts in flight never exceed N, therefore the word that ticket t writes was read long
/// ago: t - N must have been answered. Each word carries its own tag, so that none depends on another's arrival.
///
/// An answer ring is twice as long as the answers it can owe, R = N/C. A poller that stops between delivering and
/// moving the cursor leaves up to R - 1 delivered answers above it, whose slots are used again, beside up to R that
/// were not delivered; nothing more is delivered while the cursor stands, so that the host never writes over an
/// answer that is still to be read, and the next poller finds everything from the cursor on.
///
/// Method: request and response through host memory as in AlignMalloc, section VI.A; pollers are Orchard's own,
/// because reads of host memory delay the committing of memory (docs/limits.md).

#include <cstddef>
#include <cstdint>

#include "device/simt/atomic.cuh"
#include "uvm/geometry/geometry.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard::mailbox {

/// What a post asks for.
enum class request_kind : std::uint32_t {
    grant = 1,      ///< `count` consecutive segments, and a tail: a portion that begins where they end
    give_back = 2,  ///< segments, or a portion, handed back
    ping = 3,       ///< an answer, nothing else
};

/// How a post ended.
enum class response_status : std::uint32_t {
    granted = 1,
    acknowledged = 2,   ///< of `give_back` and `ping`
    out_of_memory = 3,  ///< fewer segments are free than were asked for
    fragmented = 4,     ///< enough are free, but not in one run
    too_large = 5,      ///< more than the heap owns
    commit_failed = 6,  ///< the backing could not provide memory
    closing = 7,
    refused = 8,             ///< the post made no sense to the service (a double return); counted there
    out_of_host_budget = 9,  ///< none is free, and no more may be committed, on the host either
    out_of_range = 10,       ///< none is free, and all addresses have memory, though the budgets are not spent
    commit_blocked = 11,     ///< none is free, and a commit has been under way for longer than a request may wait
};
/// Highest values of the enumerations above and of what the words below carry.
inline constexpr auto max_request_kind = static_cast<std::uint64_t>(request_kind::ping);
inline constexpr auto max_response_status = static_cast<std::uint64_t>(response_status::commit_blocked);
inline constexpr std::uint32_t max_slots = 16384;
inline constexpr int max_tag_bits = 8;

/// A field of a 64-bit word.
template <int Low, int Bits>
struct field {
    static constexpr std::uint64_t mask = (std::uint64_t{1} << Bits) - 1;
    static_assert(Low >= 0 && Bits > 0 && Low + Bits <= 64);
    /// Whether it can hold all values up to this one.
    static ORCHARD_FN constexpr bool holds(std::uint64_t max_value) { return max_value <= mask; }
    static ORCHARD_FN constexpr std::uint64_t put(std::uint64_t value) { return (value & mask) << Low; }
    static ORCHARD_FN constexpr std::uint32_t get(std::uint64_t word) {
        return static_cast<std::uint32_t>((word >> Low) & mask);
    }
};

/// A request:
///
///     63          32 31      24 23    10 9    8 7       0
///     |   payload   | slot tag |  slot  | kind | lap tag |
///                     grant:     count 24, or_fewer 1, leaves 5
///                     give_back: first 24, count 8: so many segments, or `portion_at` + the first leaf of a portion
struct request {
    using lap_field = field<0, 8>;
    using kind_field = field<8, 2>;
    using slot_field = field<10, 14>;
    using tag_field = field<24, 8>;
    using first_field = field<32, 24>;
    using count_field = field<56, 8>;        // give_back
    using wide_count_field = field<32, 24>;  // grant
    using or_fewer_field = field<56, 1>;     // grant
    using leaves_field = field<57, 5>;       // grant
    /// A give_back's count from here on stands for a portion, whose length the service knows.
    static constexpr std::uint32_t portion_at = 256 - leaves_per_segment;

    request_kind kind = request_kind::ping;
    std::uint32_t slot = 0;
    std::uint32_t tag = 0;
    segment_run run{segment_index{0}, 0};  ///< grant: `count` is what is asked for; give_back: what is returned
    bool or_fewer = false;                 ///< grant: a shorter run will do
    leaf_count leaves{0};                  ///< grant: of the tail

    /// Of a grant: leaves without which it is refused.
    [[nodiscard]] ORCHARD_FN constexpr std::uint64_t least_leaves() const {
        return or_fewer ? 0 : std::uint64_t{run.count} * leaves_per_segment + to_underlying(leaves);
    }
    /// What hands segments back.
    static ORCHARD_FN constexpr request return_of(segment_run segments) {
        return {request_kind::give_back, 0, 0, segments};
    }
    /// Of a give_back: whether it is of a portion, which begins at `portion_leaf()` of the segment `run.first`.
    [[nodiscard]] ORCHARD_FN constexpr bool is_of_portion() const { return run.count >= portion_at; }
    [[nodiscard]] ORCHARD_FN constexpr leaf_index portion_leaf() const { return leaf_index{run.count - portion_at}; }
    /// What hands a portion back.
    static ORCHARD_FN constexpr request return_of(segment_index block, leaf_index first) {
        return {request_kind::give_back, 0, 0, {block, portion_at + to_underlying(first)}};
    }
    [[nodiscard]] ORCHARD_FN constexpr std::uint64_t pack(std::uint32_t lap) const {
        const std::uint64_t head = lap_field::put(lap) | kind_field::put(static_cast<std::uint64_t>(kind)) |
                                   slot_field::put(slot) | tag_field::put(tag);
        return kind == request_kind::give_back
                   ? head | first_field::put(to_underlying(run.first)) | count_field::put(run.count)
                   : head | wide_count_field::put(run.count) | or_fewer_field::put(or_fewer ? 1 : 0) |
                         leaves_field::put(to_underlying(leaves));
    }
    static ORCHARD_FN constexpr request unpack(std::uint64_t word) {
        const auto kind = static_cast<request_kind>(kind_field::get(word));
        const segment_run run = kind == request_kind::give_back
                                    ? segment_run{segment_index{first_field::get(word)}, count_field::get(word)}
                                    : segment_run{segment_index{0}, wide_count_field::get(word)};
        const bool grant = kind == request_kind::grant;
        return {kind,
                slot_field::get(word),
                tag_field::get(word),
                run,
                grant && or_fewer_field::get(word) != 0,
                leaf_count{grant ? leaves_field::get(word) : 0}};
    }
};

static_assert(request::kind_field::holds(max_request_kind) && request::slot_field::holds(max_slots - 1) &&
              request::tag_field::holds((1u << max_tag_bits) - 1) &&
              request::lap_field::holds((1u << max_tag_bits) - 1) && request::first_field::holds(max_segments - 1) &&
              request::wide_count_field::holds(max_segments - 1) &&
              request::leaves_field::holds(leaves_per_segment - 1) &&
              request::count_field::holds(request::portion_at + leaves_per_segment - 1));

/// Most segments that one give_back post carries.
inline constexpr std::uint32_t max_give_back = request::portion_at - 1;
/// Most segments that one `or_fewer` grant asks for.
inline constexpr std::uint32_t max_refill = 63;

/// A response:
///
///     63   58 57     34 33      26 25    12 11     8 7       0
///     | count |  first | slot tag |  slot  | status | lap tag |
///
/// `count` is filled in for `or_fewer` grants: a group that asked for an exact count knows it. For a tail without
/// segments it is the leaf at which the portion begins. A refusal has in `first` how many segments are free.
struct response {
    using lap_field = field<0, 8>;
    using status_field = field<8, 4>;
    using slot_field = field<12, 14>;
    using tag_field = field<26, 8>;
    using first_field = field<34, 24>;
    using count_field = field<58, 6>;

    response_status status = response_status::closing;
    std::uint32_t slot = 0;
    std::uint32_t tag = 0;
    segment_run run{segment_index{0}, 0};

    /// A rejection, while so many segments are free.
    static ORCHARD_FN constexpr response rejection(response_status why, std::uint32_t slot, std::uint32_t tag,
                                                   std::uint32_t free) {
        return {why, slot, tag, {segment_index{free}, 0}};
    }
    /// Of a rejection: how many segments were free.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t free_segments() const { return to_underlying(run.first); }

    [[nodiscard]] ORCHARD_FN constexpr std::uint64_t pack(std::uint32_t lap) const {
        return lap_field::put(lap) | status_field::put(static_cast<std::uint64_t>(status)) | slot_field::put(slot) |
               tag_field::put(tag) | first_field::put(to_underlying(run.first)) | count_field::put(run.count);
    }
    static ORCHARD_FN constexpr response unpack(std::uint64_t word) {
        return {static_cast<response_status>(status_field::get(word)),
                slot_field::get(word),
                tag_field::get(word),
                {segment_index{first_field::get(word)}, count_field::get(word)}};
    }
};

static_assert(response::status_field::holds(max_response_status) && response::slot_field::holds(max_slots - 1) &&
              response::tag_field::holds((1u << max_tag_bits) - 1) &&
              response::lap_field::holds((1u << max_tag_bits) - 1) && response::first_field::holds(max_segments - 1) &&
              response::count_field::holds(max_refill) && response::count_field::holds(leaves_per_segment - 1));

/// What a grant is: segments, and a tail. With segments the tail begins where they end, at leaf 0.
struct grant : segment_run {
    leaf_index leaf{0};    ///< where the tail begins
    leaf_count leaves{0};  ///< of the tail
    /// The segment in which the tail lies.
    [[nodiscard]] ORCHARD_FN constexpr segment_index tail_block() const { return first + count; }
};

/// Returns what `a` granted to a request for so many segments and leaves.
ORCHARD_FN constexpr grant granted_by(const response& a, std::uint32_t segments, std::uint32_t leaves) {
    if (leaves == 0) {
        return {{a.run.first, a.run.count != 0 ? a.run.count : segments}, leaf_index{0}, leaf_count{0}};
    }
    return {{a.run.first, segments}, leaf_index{segments == 0 ? a.run.count : 0}, leaf_count{leaves}};
}

/// A slot's word in device memory:
///
///     63      50 49   44 43     20 19    16 15  11      10           9         8     7   0
///     |    0    | count | first * | status |  0  | unattended | answered | pending | tag |
///
/// (*: while unattended, the count that was asked for; `count` then is the leaves of the tail.)
/// `pending` alone makes a slot claimed, so that one fetch_or claims it, tells its tag and makes it ready to be
/// answered, all at once.
struct slot_word {
    using tag_field = field<0, 8>;
    using status_field = field<16, 4>;
    using first_field = field<20, 24>;
    using count_field = field<44, 6>;
    static constexpr std::uint64_t pending = 1u << 8;
    static constexpr std::uint64_t answered = 1u << 9;
    static constexpr std::uint64_t unattended = 1u << 10;

    static ORCHARD_FN constexpr std::uint64_t idle(std::uint32_t tag) { return tag_field::put(tag); }
    static ORCHARD_FN constexpr std::uint64_t waiting(std::uint32_t tag) { return tag_field::put(tag) | pending; }
    /// No group waits (any more) for `count` segments and a tail. The poller that delivers finds here what was asked
    /// for, since answers to exact requests do not carry it.
    static ORCHARD_FN constexpr std::uint64_t forsaken(std::uint32_t tag, std::uint32_t count,
                                                       std::uint32_t leaves = 0) {
        return waiting(tag) | unattended | first_field::put(count) | count_field::put(leaves);
    }
    static ORCHARD_FN constexpr bool is_forsaken(std::uint64_t word, std::uint32_t tag) {
        return (word & (tag_field::mask | pending | answered | unattended)) == (waiting(tag) | unattended);
    }
    static ORCHARD_FN constexpr std::uint64_t delivered(const response& a) {
        return waiting(a.tag) | answered | status_field::put(static_cast<std::uint64_t>(a.status)) |
               first_field::put(to_underlying(a.run.first)) | count_field::put(a.run.count);
    }
    /// The answer that a delivered word carries; its slot is not in it.
    static ORCHARD_FN constexpr response unpack(std::uint64_t word) {
        return {static_cast<response_status>(status_field::get(word)),
                0,
                tag_field::get(word),
                {segment_index{first_field::get(word)}, count_field::get(word)}};
    }
};

static_assert(slot_word::tag_field::holds((1u << max_tag_bits) - 1) &&
              slot_word::status_field::holds(max_response_status) && slot_word::first_field::holds(max_segments - 1) &&
              slot_word::count_field::holds(max_refill));

/// The poller's word in device memory:
///
///     63     62      40 39              0
///     | held |  epoch  |     cursor      |
///
/// `cursor` counts the answers that were delivered; `epoch` the turns, so that a poller that lost its lease by
/// taking too long cannot write over its successor's word. Taking a free lease sets `held`, no more; letting go or
/// succeeding a poller that stopped begins a new epoch.
struct poller_word {
    using cursor_field = field<0, 40>;
    using epoch_field = field<40, 23>;
    static constexpr std::uint64_t held = std::uint64_t{1} << 63;

    static ORCHARD_FN constexpr std::uint64_t cursor(std::uint64_t word) { return word & cursor_field::mask; }
    static ORCHARD_FN constexpr std::uint64_t succeeded(std::uint64_t word) {
        return held | epoch_field::put(epoch_field::get(word) + 1) | cursor(word);
    }
    /// How many of `posted` are not `done` yet; cursors are modulo 2^40, and what was read late may be ahead.
    static ORCHARD_FN constexpr std::uint64_t flying(std::uint64_t posted, std::uint64_t done) {
        const std::uint64_t n = (posted - done) & cursor_field::mask;
        return n > cursor_field::mask / 2 ? 0 : n;
    }
    static ORCHARD_FN constexpr std::uint64_t moved_to(std::uint64_t word, std::uint64_t new_cursor) {
        return (word & ~cursor_field::mask) | (new_cursor & cursor_field::mask);
    }
    static ORCHARD_FN constexpr std::uint64_t released(std::uint64_t word) { return succeeded(word) & ~held; }
};

/// Most pollers of one mailbox: so many readers of host memory cost the committing of memory little.
inline constexpr std::uint32_t max_pollers = 4;

/// How many slots there are and how wide the tags are. The post ring has as many words as there are slots, the answer
/// rings together twice as many.
struct shape {
    std::uint32_t slots = max_slots;        ///< a power of two, 4 to `max_slots`
    std::uint32_t tag_bits = max_tag_bits;  ///< 2 to `max_tag_bits`; narrow tags only to test that they suffice
    std::uint32_t pollers = 1;              ///< answer rings: 1, 2 or 4; at most a quarter of the slots, or 1

    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t tag_mask() const { return (1u << tag_bits) - 1; }
    /// Where word number `number` of the post ring stands.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t position(std::uint64_t number) const {
        return static_cast<std::uint32_t>(number) & (slots - 1);
    }
    /// The tag of word number `number` of the post ring: never that of the word it overwrites; the first lap's is not
    /// 0.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t lap_tag(std::uint64_t number) const {
        return lap(number, slots) & tag_mask();
    }
    /// Words of one answer ring.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t response_slots() const { return 2 * slots / pollers; }
    /// Most answers that one ring can owe at a time; a poller reads no further than that.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t responses_owed() const { return slots / pollers; }
    /// The answer ring of a slot: as many slots for each. All bits of the slot's number count, since those of warps
    /// that lead their thread blocks are multiples of a block's warps.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t response_ring(std::uint32_t slot) const {
        std::uint32_t folded = slot ^ slot >> 8;
        folded ^= folded >> 4;
        folded ^= folded >> 2;
        return folded & (pollers - 1);
    }
    /// As `position`, of an answer ring; counted from the first word of the first ring.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t response_position(std::uint32_t ring, std::uint64_t number) const {
        return ring * response_slots() + (static_cast<std::uint32_t>(number) & (response_slots() - 1));
    }
    /// How often a ring of `words` words, a power of two up to 2^15, was begun when word number `number` came, modulo
    /// 2^17: in 32 bits, because the device computes it with few registers.
    [[nodiscard]] static ORCHARD_FN constexpr std::uint32_t lap(std::uint64_t number, std::uint32_t words) {
        return static_cast<std::uint32_t>(number) / words + 1;
    }
    /// As `lap_tag`, of an answer ring.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t response_lap_tag(std::uint64_t number) const {
        return lap(number, response_slots()) & tag_mask();
    }
};

/// Pollers for a mailbox of so many slots: one for small ones, where each ring should still fill a warp.
constexpr std::uint32_t pollers_for(std::uint32_t slots) { return slots >= 1024 ? max_pollers : 1; }

/// The part in host-visible memory. All zero at the start. The three parts share no cache line.
struct host_part {
    simt::host_word<std::uint64_t>* posts = nullptr;      ///< [slots]
    simt::host_word<std::uint64_t>* answers = nullptr;    ///< [2 * slots]
    simt::host_word<std::uint64_t>* heartbeat = nullptr;  ///< counts the service's rounds, at least one a millisecond
    /// While a commit lasts longer than the deadline: the fewest leaves that were refused for it; else 0.
    simt::host_word<std::uint64_t>* blocked = nullptr;

    static constexpr std::size_t line_words = 16;  ///< of the 128 bytes that neighbours are kept apart
    static constexpr std::size_t padded(std::size_t words) {
        return (words + line_words - 1) / line_words * line_words;
    }
    static constexpr std::size_t bytes(shape s) {
        return sizeof(std::uint64_t) * (padded(s.slots) + padded(2 * std::size_t{s.slots}) + line_words);
    }
    /// The part laid out in `memory`, which is aligned to 128 bytes and `bytes(s)` long.
    static host_part in(void* memory, shape s) {
        auto* words = static_cast<simt::host_word<std::uint64_t>*>(memory);
        auto* answers = words + padded(s.slots);
        auto* heartbeat = answers + padded(2 * std::size_t{s.slots});
        return {words, answers, heartbeat, heartbeat + 1};
    }
};

/// The part in device memory. All zero at the start.
struct device_part {
    struct alignas(128) counter {
        simt::device_word<std::uint64_t> word;
    };
    counter ticket;               ///< posts written so far
    counter poller[max_pollers];  ///< see `poller_word`; one for each answer ring
    counter posted[max_pollers];  ///< posts whose answers go to that ring; a hint for its poller
    /// Why requests may fail at once, and when that was last compared with the host's words, in ns.
    struct alignas(128) refusal {
        simt::device_word<std::uint64_t> flags;  ///< `closing`, and `silent_at` or `blocked_from`
        simt::device_word<std::uint64_t> compared_at;
    };
    refusal known;
    // slots follow: device_word<uint64_t>[slots]

    static constexpr std::uint64_t closing = 1;
    static constexpr std::uint64_t silent = 2;
    static constexpr std::uint64_t blocked = 4;
    /// A request has waited for its whole deadline, and the heartbeat stood still: bits 3 to 63 say where. As long as
    /// it stands there, further requests fail at once.
    static ORCHARD_FN constexpr std::uint64_t silent_at(std::uint64_t heartbeat) { return heartbeat << 3 | silent; }
    /// A request was refused as a commit is blocked. As long as `host_part::blocked` says so, requests for so many
    /// leaves or more fail at once.
    static ORCHARD_FN constexpr std::uint64_t blocked_from(std::uint64_t leaves) { return leaves << 3 | blocked; }
    /// What is noted beside `silent` or `blocked`.
    static ORCHARD_FN constexpr std::uint64_t noted(std::uint64_t flags) { return flags >> 3; }
    static constexpr std::size_t bytes(shape s) { return sizeof(device_part) + sizeof(std::uint64_t) * s.slots; }
    [[nodiscard]] ORCHARD_FN simt::device_word<std::uint64_t>* slots() {
        return reinterpret_cast<simt::device_word<std::uint64_t>*>(this + 1);
    }
};

}  // namespace orchard::mailbox
