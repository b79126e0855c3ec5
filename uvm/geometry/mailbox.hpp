// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The mailbox's shared layout and state machine: written once, used by the device's client
/// (`device/host_rpc/client.cuh`) and by the host's server (`host/mailbox_server.hpp`).
///
///     host-visible memory                                  device memory
///     request ring       [N] words, device -> host         slots [N] words, one for each request in flight
///     C response rings [2N/C] words, host -> device        ticket counter, C poller words
///     heartbeat, blocked     words, host -> device
///
/// The number of a slot selects the response ring of its response (`shape::response_ring`). Each ring has its own
/// poller, so that C pollers work at the same time.
///
/// Life of a slot (tag counts its uses):
///
///     idle(t) --claim--> pending(t) --poller--> answered(t) --owner--> idle(t+1)
///                            |
///                            +--owner gives up, or never waited--> unattended(t) --poller--> idle(t+1),
///                                                                   the grant goes to the segment cache
///
/// A claimed slot is the right to send one request, so at most N requests are in flight. The request of ticket t
/// overwrites the word of ticket t - N. The service has already read that word, because request t - N must have been
/// answered. Each word carries its own tag, so no word depends on the arrival of another.
///
/// A response ring is twice as long as the number of responses that can be outstanding in it, R = N/C. A poller that
/// stops after delivering and before moving the cursor leaves up to R delivered responses after the cursor. Their
/// slots are used again, and up to R more responses may be undelivered. No response is delivered while the cursor
/// stands still. The host therefore never overwrites an unread response, and the next poller finds all of them from the
/// cursor on.
///
/// Method: request and response through host memory as in AlignMalloc, section VI.A. Pollers are Orchard's own, because
/// reads of host memory delay commits (docs/limits.md).

#include <cstddef>
#include <cstdint>

#include "device/simt/atomic.cuh"
#include "uvm/geometry/failure_reason.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/geometry/managed_advice.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard::mailbox {

/// The kind of a request.
enum class request_kind : std::uint32_t {
    extend = 0,     ///< exactly the segments named, which lie behind a chunk that is to grow
    grant = 1,      ///< `count` consecutive segments, and a tail: a portion that begins at their end
    give_back = 2,  ///< returns segments or a portion
    ping = 3,       ///< requests a response without memory
};

/// The result of a request.
enum class response_status : std::uint32_t {
    granted = 1,
    acknowledged = 2,   ///< response to `give_back` and `ping`
    out_of_memory = 3,  ///< fewer segments are free than requested
    fragmented = 4,     ///< enough are free, but not in one run
    too_large = 5,      ///< more than the heap owns
    commit_failed = 6,  ///< the backing could not provide memory
    closing = 7,
    rejected = 8,            ///< the service could not carry out the request (a double return); the service counts such
                             ///< requests
    out_of_host_budget = 9,  ///< no segment is free, and no more may be committed, not even on the host
    out_of_range = 10,       ///< no segment is free, and all addresses have memory, although the budgets are not spent
    commit_blocked = 11,     ///< no segment is free, and a commit has taken longer than a request may wait
};
/// Returns the reason of failure for the status of a response; none if it is granted. A status without a reason of its
/// own, as `out_of_memory`, means that the device budget is spent.
ORCHARD_INLINE constexpr failure_reason reason_of(response_status status) {
    switch (status) {
        case response_status::granted: return failure_reason::none;
        case response_status::fragmented: return failure_reason::fragmented;
        case response_status::too_large: return failure_reason::too_large;
        case response_status::closing: return failure_reason::closing;
        case response_status::commit_failed: return failure_reason::commit_failed;
        case response_status::commit_blocked: return failure_reason::commit_blocked;
        case response_status::out_of_host_budget: return failure_reason::out_of_memory_host_budget;
        case response_status::out_of_range: return failure_reason::out_of_memory_virtual_range;
        default: return failure_reason::out_of_memory_device_budget;
    }
}

/// The highest values of the enumerations above and of the fields below.
inline constexpr auto max_request_kind = static_cast<std::uint64_t>(request_kind::ping);
inline constexpr auto max_response_status = static_cast<std::uint64_t>(response_status::commit_blocked);
inline constexpr std::uint32_t max_slots = 16384;
inline constexpr int max_tag_bits = 8;

/// A field of a 64-bit word: bits [Low, Low + Bits). Every word of the mailbox is made of such fields and not of C++
/// bit-fields, whose order compilers choose: host and device must agree on every bit.
template <int Low, int Bits>
struct field {
    static constexpr std::uint64_t mask = (std::uint64_t{1} << Bits) - 1;
    static_assert(Low >= 0 && Bits > 0 && Low + Bits <= 64);
    /// Returns true if the field can hold all values up to `max_value`.
    static ORCHARD_FN constexpr bool holds(std::uint64_t max_value) { return max_value <= mask; }
    /// Returns a word in which only this field is set; higher bits of `value` are cut off. The words of several fields
    /// are combined by OR.
    static ORCHARD_FN constexpr std::uint64_t put(std::uint64_t value) { return (value & mask) << Low; }
    /// Returns the field's value, of which the lowest 32 bits. Wider fields are read by a mask instead
    /// (`poller_word::cursor`).
    static ORCHARD_FN constexpr std::uint32_t get(std::uint64_t word) {
        return static_cast<std::uint32_t>((word >> Low) & mask);
    }
};

/// A request: one word of the request ring. It names the slot in which its response is to arrive, and the slot's tag,
/// which the response repeats.
///
///     63          32 31      24 23    10 9    8 7       0
///     |   payload   | slot tag |  slot  | kind | lap tag |
///                     grant:     count 24, or_fewer 1, leaves 5, advice 2
///                     give_back: first 24, count 8: number of segments, or `portion_at` + the first leaf of a portion
///                     extend:    first 24, count 8: number of segments
///
///     give_back of segments 70 to 72        first 70, count 3
///     give_back of a portion at leaf 4      first = its block, count = 224 + 4 = 228
struct request {
    using lap_field = field<0, 8>;
    using kind_field = field<8, 2>;
    using slot_field = field<10, 14>;
    using tag_field = field<24, 8>;
    using first_field = field<32, 24>;
    using count_field = field<56, 8>;        // give_back, extend
    using wide_count_field = field<32, 24>;  // grant
    using or_fewer_field = field<56, 1>;     // grant
    using leaves_field = field<57, 5>;       // grant
    using advice_field = field<62, 2>;       // grant
    /// A give_back with a count from here on (224) returns a portion, whose length the service knows. The count of
    /// segments ends below it (`max_give_back`), so that one field holds either.
    static constexpr std::uint32_t portion_at = 256 - leaves_per_segment;

    request_kind kind = request_kind::ping;
    std::uint32_t slot = 0;
    std::uint32_t tag = 0;
    segment_run run{segment_index{0}, 0};  ///< grant: `count` segments are requested; give_back, extend: these
    bool or_fewer = false;                 ///< grant: a shorter run suffices
    advice_code advice = 0;                ///< grant: advice for the segments (uvm/geometry/managed_advice.hpp)
    leaf_count leaves{0};                  ///< grant: leaves of the tail

    /// Returns, for a grant, the fewest leaves that can satisfy it. A group compares them with a noted failure: a
    /// request that is known to fail is not made. 0 for a request that a shorter run satisfies, and for `extend`, which
    /// needs no commit.
    [[nodiscard]] ORCHARD_FN constexpr std::uint64_t least_leaves() const {
        return or_fewer || kind == request_kind::extend
                   ? 0
                   : std::uint64_t{run.count} * leaves_per_segment + to_underlying(leaves);
    }
    /// Returns true for a give_back of a portion, which begins at `portion_leaf()` of the segment `run.first`.
    [[nodiscard]] ORCHARD_FN constexpr bool is_of_portion() const { return run.count >= portion_at; }
    [[nodiscard]] ORCHARD_FN constexpr leaf_index portion_leaf() const { return leaf_index{run.count - portion_at}; }
    /// Returns the request that returns a portion.
    static ORCHARD_FN constexpr request return_of(segment_index block, leaf_index first) {
        return {request_kind::give_back, 0, 0, {block, portion_at + to_underlying(first)}};
    }
    /// Returns whether requests of a kind say which segments they are about.
    static ORCHARD_FN constexpr bool names_segments(request_kind kind) {
        return kind == request_kind::give_back || kind == request_kind::extend;
    }
    /// Returns the request's word for a lap of the ring. `unpack` is its inverse, apart from the lap tag, which the
    /// reader has compared before. `kind` decides how the payload is read.
    [[nodiscard]] ORCHARD_FN constexpr std::uint64_t pack(std::uint32_t lap) const {
        const std::uint64_t head = lap_field::put(lap) | kind_field::put(static_cast<std::uint64_t>(kind)) |
                                   slot_field::put(slot) | tag_field::put(tag);
        return names_segments(kind) ? head | first_field::put(to_underlying(run.first)) | count_field::put(run.count)
                                    : head | wide_count_field::put(run.count) | or_fewer_field::put(or_fewer ? 1 : 0) |
                                          leaves_field::put(to_underlying(leaves)) | advice_field::put(advice);
    }
    static ORCHARD_FN constexpr request unpack(std::uint64_t word) {
        const auto kind = static_cast<request_kind>(kind_field::get(word));
        const segment_run run = names_segments(kind)
                                    ? segment_run{segment_index{first_field::get(word)}, count_field::get(word)}
                                    : segment_run{segment_index{0}, wide_count_field::get(word)};
        const bool grant = kind == request_kind::grant;
        return {kind,
                slot_field::get(word),
                tag_field::get(word),
                run,
                grant && or_fewer_field::get(word) != 0,
                static_cast<advice_code>(grant ? advice_field::get(word) : 0),
                leaf_count{grant ? leaves_field::get(word) : 0}};
    }
};

static_assert(request::kind_field::holds(max_request_kind) && request::slot_field::holds(max_slots - 1) &&
              request::tag_field::holds((1u << max_tag_bits) - 1) &&
              request::lap_field::holds((1u << max_tag_bits) - 1) && request::first_field::holds(max_segments - 1) &&
              request::wide_count_field::holds(max_segments - 1) &&
              request::leaves_field::holds(leaves_per_segment - 1) && request::advice_field::holds(advice_codes - 1) &&
              request::count_field::holds(request::portion_at + leaves_per_segment - 1));

/// The most segments that one give_back request carries: 223. The device returns at most 64 at once, those of one word.
inline constexpr std::uint32_t max_give_back = request::portion_at - 1;
/// The most segments that one `or_fewer` grant requests: the response carries the number granted in 6 bits.
inline constexpr std::uint32_t max_refill = 63;

/// A response: one word of a response ring. A poller copies it, except for slot and lap tag, into the slot's word.
///
///     63   58 57     34 33      26 25    12 11     8 7       0
///     | count |  first | slot tag |  slot  | status | lap tag |
///
/// `count` is set for `or_fewer` grants only, because a group that requested an exact count knows it. For a tail
/// without segments, `count` is the leaf at which the portion begins. In a rejection, `first` is the number of free
/// segments.
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

    /// Returns a rejection that reports the number of free segments.
    static ORCHARD_FN constexpr response rejection(response_status why, std::uint32_t slot, std::uint32_t tag,
                                                   std::uint32_t free) {
        return {why, slot, tag, {segment_index{free}, 0}};
    }
    /// Returns, for a rejection, the number of segments that were free.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t free_segments() const { return to_underlying(run.first); }

    /// Returns the response's word for a lap of its ring; `unpack` is the inverse, apart from the lap tag.
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

/// The memory that a response grants: segments, and a tail. If there are segments, the tail begins at their end, at
/// leaf 0.
struct grant : segment_run {
    leaf_index leaf{0};    ///< the first leaf of the tail
    leaf_count leaves{0};  ///< leaves of the tail
    /// Returns the segment in which the tail lies.
    [[nodiscard]] ORCHARD_FN constexpr segment_index tail_block() const { return first + count; }
};

/// Returns the memory that `a` grants to a request for `segments` segments and `leaves` leaves. Three cases:
///
///     no tail                   `segments` segments from `first` on, or as many as `count` says (`or_fewer`)
///     segments and a tail       the tail begins at leaf 0 behind the segments
///     a tail alone              the tail begins at leaf `count` of segment `first`
ORCHARD_FN constexpr grant granted_by(const response& a, std::uint32_t segments, std::uint32_t leaves) {
    if (leaves == 0) {
        return {{a.run.first, a.run.count != 0 ? a.run.count : segments}, leaf_index{0}, leaf_count{0}};
    }
    return {{a.run.first, segments}, leaf_index{segments == 0 ? a.run.count : 0}, leaf_count{leaves}};
}

/// A slot's word in device memory:
///
///     63      45 44   39 38     15 14    11      10           9         8     7   0
///     | takeover | count | first   | status | unattended | answered | pending | tag |     once answered
///     | takeover | leaves| segments|    0   |     1      |     0    |    1    | tag |     while unattended
///
/// `first` and `count` are the run that was granted, `segments` and `leaves` what was asked for. `takeover` is 0 in
/// nearly all slots: a poller that takes a ring over from one that stopped writes the number of the take-over into the
/// slots whose responses the stopped one may have read (`poller::begin_recovery`). Setting `pending` claims a slot. One
/// fetch_or therefore claims it, returns its tag and prepares it for the response. A group whose fetch_or finds
/// `pending` set has changed nothing and tries another slot.
///
///     state        bits set              left by
///     idle         none                  a fetch_or to pending; a compare-and-swap to unattended if no group will wait
///     pending      pending               a compare-and-swap: of the poller to answered, of its own group to unattended
///     answered     pending, answered     a store of the group that waits, to idle with the next tag
///     unattended   pending, unattended   a compare-and-swap of the poller, to idle with the next tag
///
/// A group that is the poller itself and finds its own response goes from pending to idle directly. A claim whose
/// request is rejected goes back to idle by a store, with the same tag.
///
/// `pending` stays set until the slot is idle again: no other group can claim the slot before. Every compare-and-swap
/// expects a whole word, so that an action that comes too late finds another word and does nothing. Tags come back
/// after 256 uses of a slot; a poller that is late by as many uses finds another `takeover`.
struct slot_word {
    using tag_field = field<0, 8>;
    using status_field = field<11, 4>;
    using first_field = field<15, 24>;
    using count_field = field<39, 6>;
    using asked_segments_field = field<15, 24>;
    using asked_leaves_field = field<39, 6>;
    using takeover_field = field<45, 19>;
    static constexpr std::uint64_t pending = 1u << 8;
    static constexpr std::uint64_t answered = 1u << 9;
    static constexpr std::uint64_t unattended = 1u << 10;

    /// Return the word of a slot that is idle, and of one whose group waits.
    static ORCHARD_FN constexpr std::uint64_t idle(std::uint32_t tag, std::uint32_t takeover = 0) {
        return tag_field::put(tag) | takeover_field::put(takeover);
    }
    static ORCHARD_FN constexpr std::uint64_t waiting(std::uint32_t tag, std::uint32_t takeover = 0) {
        return idle(tag, takeover) | pending;
    }
    /// Returns the word of a slot for whose request, of `count` segments and a tail, no group waits: the state
    /// unattended. The poller that delivers the response reads the requested size here, because responses to exact
    /// requests do not carry it.
    static ORCHARD_FN constexpr std::uint64_t left_unattended(std::uint32_t tag, std::uint32_t count,
                                                              std::uint32_t leaves = 0, std::uint32_t takeover = 0) {
        return waiting(tag, takeover) | unattended | asked_segments_field::put(count) | asked_leaves_field::put(leaves);
    }
    /// Returns true if a response is still to come to the slot under this tag: it is pending or unattended.
    static ORCHARD_FN constexpr bool is_awaited(std::uint64_t word, std::uint32_t tag) {
        return (word & (tag_field::mask | pending | answered)) == waiting(tag);
    }
    /// Returns `word` with the number of a take-over.
    static ORCHARD_FN constexpr std::uint64_t taken_over(std::uint64_t word, std::uint32_t takeover) {
        return (word & ~takeover_field::put(takeover_field::mask)) | takeover_field::put(takeover);
    }
    /// Returns the word in which a poller delivers response `a` to a group that waits.
    static ORCHARD_FN constexpr std::uint64_t delivered(const response& a, std::uint32_t takeover = 0) {
        return waiting(a.tag, takeover) | answered | status_field::put(static_cast<std::uint64_t>(a.status)) |
               first_field::put(to_underlying(a.run.first)) | count_field::put(a.run.count);
    }
    /// Returns the response in a delivered word; the slot's number is not part of the word.
    static ORCHARD_FN constexpr response unpack(std::uint64_t word) {
        return {static_cast<response_status>(status_field::get(word)),
                0,
                tag_field::get(word),
                {segment_index{first_field::get(word)}, count_field::get(word)}};
    }
};

static_assert((slot_word::idle(slot_word::tag_field::mask, slot_word::takeover_field::mask) ^ slot_word::pending ^
               slot_word::answered ^ slot_word::unattended ^ slot_word::status_field::put(~0ull) ^
               slot_word::first_field::put(~0ull) ^ slot_word::count_field::put(~0ull)) == ~0ull,
              "fields of a slot's word overlap");
static_assert(slot_word::tag_field::holds((1u << max_tag_bits) - 1) &&
              slot_word::status_field::holds(max_response_status) && slot_word::first_field::holds(max_segments - 1) &&
              slot_word::count_field::holds(max_refill) && slot_word::asked_segments_field::holds(max_segments - 1) &&
              slot_word::asked_leaves_field::holds(leaves_per_segment - 1));

/// The poller's word in device memory:
///
///     63     62      40 39              0
///     | held |  epoch  |     cursor      |
///
/// `cursor` counts the delivered responses. `epoch` counts the turns, so that a poller that lost its lease because it
/// took too long cannot overwrite its successor's word. Taking a free lease only sets `held`. Releasing a lease, or
/// taking it over from a poller that stopped, begins a new epoch.
///
///     free, epoch e --fetch_or--> held, epoch e --compare-and-swap: cursor moved--> held, epoch e
///                                    |    |
///                                    |    +--compare-and-swap: released--> free, epoch e + 1
///                                    +--compare-and-swap by another group: taken over--> held, epoch e + 1
struct poller_word {
    using cursor_field = field<0, 40>;
    using epoch_field = field<40, 23>;
    static constexpr std::uint64_t held = std::uint64_t{1} << 63;

    /// Returns the number of delivered responses, modulo 2^40.
    static ORCHARD_FN constexpr std::uint64_t cursor(std::uint64_t word) { return word & cursor_field::mask; }
    /// Returns the word of a group that takes the lease over: held, the next epoch, the same cursor.
    static ORCHARD_FN constexpr std::uint64_t succeeded(std::uint64_t word) {
        return held | epoch_field::put(epoch_field::get(word) + 1) | cursor(word);
    }
    /// Returns the number of `posted` requests that are not `done` yet. Cursors are modulo 2^40. The two are read one
    /// after the other, so that `done` may be ahead of a value of `posted` that was read before; the difference is then
    /// 0, and not nearly 2^40.
    static ORCHARD_FN constexpr std::uint64_t flying(std::uint64_t posted, std::uint64_t done) {
        const std::uint64_t n = (posted - done) & cursor_field::mask;
        return n > cursor_field::mask / 2 ? 0 : n;
    }
    /// Returns true if two words differ in their cursors at most.
    static ORCHARD_FN constexpr bool same_turn(std::uint64_t a, std::uint64_t b) {
        return ((a ^ b) & ~cursor_field::mask) == 0;
    }
    /// Return `word` with another cursor, and `word` as its poller leaves it: free, in the next epoch.
    static ORCHARD_FN constexpr std::uint64_t moved_to(std::uint64_t word, std::uint64_t new_cursor) {
        return (word & ~cursor_field::mask) | (new_cursor & cursor_field::mask);
    }
    static ORCHARD_FN constexpr std::uint64_t released(std::uint64_t word) { return succeeded(word) & ~held; }
};

/// The most pollers of one mailbox. With this number, their reads of host memory delay commits only little: 43 us for
/// four of them (docs/limits.md).
inline constexpr std::uint32_t max_pollers = 4;

/// The number of slots and the width of the tags. The request ring has as many words as there are slots; the response
/// rings together have twice as many. Words are numbered from 0 on and never reset; position and lap tag follow from
/// the number.
///
///     4 slots    number          0  1  2  3  4  5  6  7  8 ...
///                position        0  1  2  3  0  1  2  3  0
///                lap tag         1  1  1  1  2  2  2  2  3         a reader that expects number 5 and finds tag 1 at
///                                                                  position 1 sees the old word: nothing new yet
struct shape {
    std::uint32_t slots = max_slots;        ///< a power of two, 4 to `max_slots`
    std::uint32_t tag_bits = max_tag_bits;  ///< of slots: 2 to `max_tag_bits`; fewer only to test that they suffice
    std::uint32_t pollers = 1;              ///< response rings: 1, 2 or 4; at most a quarter of the slots, or 1
    std::uint32_t lap_bits = max_tag_bits;  ///< of laps: as `tag_bits`

    /// Return the mask of a slot's tag, and of a lap tag. Tags wrap around.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t tag_mask() const { return (1u << tag_bits) - 1; }
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t lap_mask() const { return (1u << lap_bits) - 1; }
    /// Returns the index of word number `number` in the request ring.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t position(std::uint64_t number) const {
        return static_cast<std::uint32_t>(number) & (slots - 1);
    }
    /// Returns the tag of word number `number` of the request ring. It differs from the tag of the word that is
    /// overwritten; the tag of the first lap is not 0, since the memory is 0 at first.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t lap_tag(std::uint64_t number) const {
        return lap(number, slots) & lap_mask();
    }
    /// Returns the words of one response ring.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t response_slots() const { return 2 * slots / pollers; }
    /// Returns the most responses that can be outstanding in one ring; a poller reads no further than that.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t responses_owed() const { return slots / pollers; }
    /// Returns the response ring of a slot; each ring has equally many slots. The result depends on all bits of the
    /// slot's number, because the numbers of warps that lead their thread blocks are multiples of the warps in a block.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t response_ring(std::uint32_t slot) const {
        std::uint32_t folded = slot ^ slot >> 8;
        folded ^= folded >> 4;
        folded ^= folded >> 2;
        return folded & (pollers - 1);
    }
    /// Returns the index of word number `number` in a response ring, counted from the first word of the first ring.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t response_position(std::uint32_t ring, std::uint64_t number) const {
        return ring * response_slots() + (static_cast<std::uint32_t>(number) & (response_slots() - 1));
    }
    /// Returns how often a ring of `words` words (a power of two up to 2^15) was begun before word number `number`,
    /// that word's lap included, modulo 2^17. Computed in 32 bits, so that the device needs few registers; a tag has 8
    /// bits at most.
    [[nodiscard]] static ORCHARD_FN constexpr std::uint32_t lap(std::uint64_t number, std::uint32_t words) {
        return static_cast<std::uint32_t>(number) / words + 1;
    }
    /// Returns the tag of word number `number` of a response ring; see `lap_tag`.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t response_lap_tag(std::uint64_t number) const {
        return lap(number, response_slots()) & lap_mask();
    }
};

/// Returns the number of pollers for a mailbox of `slots` slots: one for small mailboxes, so that each ring still fills
/// a warp. A poller reads up to 128 words at once.
constexpr std::uint32_t pollers_for(std::uint32_t slots) { return slots >= 1024 ? max_pollers : 1; }

/// The part in host-visible memory, initially zero. Its arrays share no cache line.
///
///     | requests [slots] | responses [2 * slots] | heartbeat, blocked |    each part begins at a multiple of 128 B
///
/// The device only loads and stores these words. It makes no read-modify-write, since over PCIe that is not atomic in
/// relation to the host's accesses (docs/limits.md: host native atomics).
struct host_part {
    simt::host_word<std::uint64_t>* requests = nullptr;   ///< [slots]
    simt::host_word<std::uint64_t>* responses = nullptr;  ///< [2 * slots]
    simt::host_word<std::uint64_t>* heartbeat = nullptr;  ///< counts the service's rounds, at least one each
                                                          ///< millisecond
    /// While a commit takes longer than the deadline: the smallest number of leaves of a request that was rejected for
    /// it; otherwise 0.
    simt::host_word<std::uint64_t>* blocked = nullptr;

    static constexpr std::size_t line_words = 16;  ///< words in 128 bytes, the distance that separates neighbours
    /// Returns `words` rounded up to whole lines.
    static constexpr std::size_t padded(std::size_t words) {
        return (words + line_words - 1) / line_words * line_words;
    }
    /// Returns the size of the part in bytes.
    static constexpr std::size_t bytes(shape s) {
        return sizeof(std::uint64_t) * (padded(s.slots) + padded(2 * std::size_t{s.slots}) + line_words);
    }
    /// Returns the part in `memory`, which is aligned to 128 bytes and `bytes(s)` long.
    static host_part in(void* memory, shape s) {
        auto* words = static_cast<simt::host_word<std::uint64_t>*>(memory);
        auto* responses = words + padded(s.slots);
        auto* heartbeat = responses + padded(2 * std::size_t{s.slots});
        return {words, responses, heartbeat, heartbeat + 1};
    }
};

/// The part in device memory, initially zero. Each word that many groups change lies on a cache line of its own. Host
/// threads write only the flag `closing`, and read the counters in order to see that a mailbox has settled.
struct device_part {
    /// A word that shares its line with no other one.
    struct alignas(128) counter {
        simt::device_word<std::uint64_t> word;
    };
    /// The lease of a ring's poller.
    struct alignas(128) lease {
        simt::device_word<std::uint64_t> word;       ///< see `poller_word`
        simt::device_word<std::uint64_t> takeovers;  ///< how often it was taken over from a poller that had stopped
        /// Returns the number of the take-over before which there were `n`: from 1 to 2^19 - 1, then from 1 again.
        static ORCHARD_FN constexpr std::uint32_t number_after(std::uint64_t n) {
            return static_cast<std::uint32_t>(n % slot_word::takeover_field::mask) + 1;
        }
    };
    counter ticket;               ///< requests written so far
    lease poller[max_pollers];    ///< one for each response ring
    counter posted[max_pollers];  ///< requests whose responses go to that ring; a hint for its poller
    /// The reason why requests may fail at once, and the time, in ns, of its last comparison with the host's words. A
    /// group that waits in vain notes the reason here, so that later groups need not wait, too (docs/protocol.md,
    /// "Known rejections").
    ///
    ///     flags   63              3    2        1         0
    ///             |     value      | blocked | silent | closing |      value: leaves (blocked) or a heartbeat (silent)
    struct alignas(128) noted_rejection {
        simt::device_word<std::uint64_t> flags;  ///< `closing`, and `silent_at` or `blocked_from`
        simt::device_word<std::uint64_t> compared_at;
    };
    noted_rejection rejection;
    // slots follow: device_word<uint64_t>[slots]

    static constexpr std::uint64_t closing = 1;
    static constexpr std::uint64_t silent = 2;
    static constexpr std::uint64_t blocked = 4;
    /// Returns the flags after a request has waited until its deadline while the heartbeat stood still; bits 3 to 63
    /// hold the heartbeat. As long as the heartbeat has this value, further requests fail at once.
    static ORCHARD_FN constexpr std::uint64_t silent_at(std::uint64_t heartbeat) { return heartbeat << 3 | silent; }
    /// Returns the flags after a request was rejected because a commit is blocked. As long as `host_part::blocked` is
    /// set, requests for `leaves` leaves or more fail at once.
    static ORCHARD_FN constexpr std::uint64_t blocked_from(std::uint64_t leaves) { return leaves << 3 | blocked; }
    /// Returns the value stored with `silent` or `blocked`.
    static ORCHARD_FN constexpr std::uint64_t noted(std::uint64_t flags) { return flags >> 3; }
    /// Returns the size of the part in bytes, with its slots.
    static constexpr std::size_t bytes(shape s) { return sizeof(device_part) + sizeof(std::uint64_t) * s.slots; }
    /// Returns the words of the slots, which follow this object in memory.
    [[nodiscard]] ORCHARD_FN simt::device_word<std::uint64_t>* slots() {
        return reinterpret_cast<simt::device_word<std::uint64_t>*>(this + 1);
    }
};

}  // namespace orchard::mailbox
