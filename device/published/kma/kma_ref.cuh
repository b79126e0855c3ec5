// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `kma_ref`: KMA, an allocator of superblocks without locks.
///
/// A superblock is free, or has blocks of one size class. The class takes blocks from its active superblock until none
/// is left:
///
///                 take                       last block
///     free queue ------> active, one a class ----------> full, known to its blocks alone
///         ^                 |         ^                    |
///         |  last block     |         | take               | first block freed
///         +-----------------+       partial queue <--------+
///           freed                   of the class
///
///     malloc    reserves blocks: less in the word of the class's active superblock; each lane then claims a bit
///     free      clears the bit; then adds one to the word, which may change the superblock's state
///
/// The word of a superblock has all of its state, so that one compare-and-swap decides. A thread that makes a change is
/// alone responsible for what follows from it: it moves the superblock to its queue.
///
///     bit 63                      31 30 29    24 23          12 11           0
///         |      generation        |state| class |  all blocks  | free blocks |
///
/// The generation is raised each time the superblock becomes active. A class's word names its active superblock and the
/// generation, so that a thread that has read it long ago changes nothing.
///
/// Source: R. Spliet, *A comprehensive study of Dynamic Memory Management in OpenCL kernels* (2013), section 5.1.
/// Faults in print, and their repairs: docs/kma.md.

#include <cstdint>

#include "device/group/bits.cuh"
#include "device/published/device_allocator.cuh"
#include "device/published/kma/superblock_queue.cuh"
#include "device/published/kma/superblock_shape.cuh"
#include "device/published/serve_together.cuh"
#include "device/simt/mutation.cuh"

namespace orchard {

/// KMA's words beside the superblocks, in device memory. `kma_ref::make_part` writes them.
struct kma_state {
    static constexpr std::uint32_t most_classes = 13;  ///< of superblocks of 64 KiB

    device::superblock_queue free;
    device::superblock_queue partial[most_classes];
    alignas(64) simt::device_word<std::uint64_t> active[most_classes];  ///< 0: none
    alignas(64) simt::device_word<std::uint32_t> empty;  ///< superblocks in partial queues that have no block in use
    /// Lower half: threads that have a superblock with free blocks in hand, or look for one. Upper half: how many
    /// began.
    alignas(64) simt::device_word<std::uint64_t> movers;
};

/// What the superblocks of a `kma` are used for.
struct kma_usage {
    using word = simt::device_word<std::uint32_t>;

    word free;     ///< superblocks that are free
    word active;   ///< superblocks from which a class takes
    word full;     ///< superblocks without a free block
    word partial;  ///< superblocks in the queue of their class
    word blocks;   ///< blocks in use
};

/// The view of a `kma` in kernels. Trivially copyable; pass it by value. It is valid while the owner lives.
class kma_ref {
public:
    kma_ref() = default;
    /// @param base         `superblocks` superblocks of `2^log_bytes` bytes each, 1 KiB to 64 KiB; aligned to 16 B
    /// @param next,values  nodes: `nodes(superblocks, log_bytes)`
    kma_ref(char* base, std::uint32_t superblocks, std::uint32_t log_bytes, kma_state* state,
            device::superblock_queues::word* next, device::superblock_queues::index_word* values)
        : base_{base}, state_{state}, queues_{next, values}, superblocks_{superblocks}, log_bytes_{log_bytes} {}

    /// Returns memory of at least `bytes`, aligned to 16 B, which no other block overlaps; null for 0 bytes, for more
    /// than the largest block (4064 B of a superblock of 4 KiB), and if memory lacks: no superblock is free, and none
    /// of the class has a free block. Any thread, in any divergence; lanes that ask together for one class share the
    /// atomics but those of the bitmap. In print each lane asks for itself.
    ///
    /// A request waits while other threads have superblocks in hand and it finds no other memory; else each round of a
    /// loop that fails is another thread's success. Cost: two loads and two atomics; for a new superblock four more
    /// atomics, and a store for each word of its bitmap. A request that finds no memory looks through the partial
    /// queues only while there is a superblock in them without a block in use.
    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        if (bytes == 0) {
            return nullptr;
        }
        const std::uint32_t c = shape_type::class_of(bytes, log_bytes_);
        if (c == shape_type::no_class) {
            return nullptr;
        }
        // `state_` is a multiple of 64, so that the sum differs for each pair of allocator and class.
        const simt::lane_mask group = simt::match(simt::converge(), reinterpret_cast<std::uintptr_t>(state_) + c);
        void* block = nullptr;
        const auto take = [&](std::uint32_t lanes) {
            const reservation r = reserve(c, lanes);
            return device::taken_together{std::uint64_t{r.superblock} << 32 | r.start, r.blocks};
        };
        device::serve_together(group, group, take, [&](std::uint64_t at, std::uint32_t rank) {
            block = claim_block(static_cast<std::uint32_t>(at >> 32), c, static_cast<std::uint32_t>(at) + rank);
        });
        return block;
    }

    /// Frees what `malloc` returned; does nothing for null, nor for an address at which no block of this allocator is
    /// in use. Any thread of any kernel. It never waits. Cost: a load and two atomics; for the first block of a full
    /// superblock, and for the last one in use, also a queue's.
    ORCHARD_FN void free(void* p) const {
        const std::uint64_t offset = reinterpret_cast<std::uint64_t>(p) - reinterpret_cast<std::uint64_t>(base_);
        if (p == nullptr || offset >> log_bytes_ >= superblocks_) {
            return;
        }
        const auto s = static_cast<std::uint32_t>(offset >> log_bytes_);
        word& of = header_of(s)->state;
        std::uint64_t was = of.load<order::relaxed>();
        if (state_of(was) == unused || !clear_bit(s, class_of(was), offset)) {
            return;
        }
        std::uint64_t now = 0;
        bool moves = false;
        do {
            const bool is_empty = free_of(was) + 1 == all_of(was);
            const std::uint32_t before = state_of(was);
            const std::uint32_t after = before == partial ? partial
                                        : is_empty        ? unused
                                        : before == full  ? partial
                                                          : active;
            now = with_state(was + 1, after);
            if (before == active && after == unused && !moves) {
                begin_move();
                moves = true;
            }
            // Release: the caller's use of the block, and the cleared bit. Acquire: those of all others, before the
            // superblock gets another class.
        } while (!of.compare_exchange<order::acq_rel>(was, now));
        move(s, was, now);
        if (moves) {
            end_move();
        }
    }

    /// Writes part `i` of an allocator all of whose memory is free, `i` from 0 to `nodes` - 1. Kernels that use the
    /// allocator come later.
    ORCHARD_FN void make_part(std::uint32_t i) const {
        const std::uint32_t n = superblocks_;
        // Node 0 is the dummy of the free queue, and nodes 1 to n have the superblocks.
        queues_.make_node(i, i < n ? i + 1 : queues_type::none, i - 1);
        if (i < n) {
            header_of(i)->state.store<order::relaxed>(with_state(0, unused));
        }
        if (i == 0) {
            queues_type::make_queue(state_->free, 0, n);
            for (std::uint32_t c = 0; c < shape_type::classes(log_bytes_); ++c) {
                queues_type::make_queue(state_->partial[c], n + 1 + c, n + 1 + c);
                state_->active[c].store<order::relaxed>(0);
            }
            state_->empty.store<order::relaxed>(0);
            state_->movers.store<order::relaxed>(0);
        }
    }
    /// Returns the number of nodes of the queues of an allocator: one for each superblock and each queue.
    static ORCHARD_INLINE std::uint32_t nodes(std::uint32_t superblocks, std::uint32_t log_bytes) {
        return superblocks + 1 + shape_type::classes(log_bytes);
    }

    /// Adds superblock `s` to the usage. Exact while no other thread uses the allocator.
    ORCHARD_FN void count(std::uint32_t s, kma_usage* usage) const {
        const std::uint64_t now = header_of(s)->state.load<order::relaxed>();
        const std::uint32_t state = state_of(now);
        kma_usage::word& of = state == unused   ? usage->free
                              : state == active ? usage->active
                              : state == full   ? usage->full
                                                : usage->partial;
        of.fetch_add<order::relaxed>(1);
        if (state != unused) {
            usage->blocks.fetch_add<order::relaxed>(all_of(now) - free_of(now));
        }
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t superblocks() const { return superblocks_; }

private:
    using order = simt::order;
    using word = simt::device_word<std::uint64_t>;
    using bits_word = simt::device_word<std::uint32_t>;
    using queues_type = device::superblock_queues;
    using shape_type = device::superblock_shape;

    // The states of a superblock.
    static constexpr std::uint32_t unused = 0;   ///< in the free queue, or in the hands of one thread
    static constexpr std::uint32_t active = 1;   ///< its class takes blocks from it
    static constexpr std::uint32_t full = 2;     ///< no block is free; in no list
    static constexpr std::uint32_t partial = 3;  ///< in its class's queue, or in the hands of one thread

    /// The beginning of a superblock. Both words stay valid whatever the superblock is used for.
    struct alignas(16) header {
        word state;
        simt::device_word<std::uint32_t> node;  ///< the node that the superblock owns while it is in no queue
        simt::device_word<std::uint32_t> rest;
    };
    static_assert(sizeof(header) == shape_type::header_bytes);

    // The parts of a superblock's word; `was - 1` has a free block less, and `was + 1` one more.
    static ORCHARD_INLINE std::uint32_t free_of(std::uint64_t w) { return w & 0xfff; }
    static ORCHARD_INLINE std::uint32_t all_of(std::uint64_t w) { return w >> 12 & 0xfff; }
    static ORCHARD_INLINE std::uint32_t class_of(std::uint64_t w) { return w >> 24 & 0x3f; }
    static ORCHARD_INLINE std::uint32_t state_of(std::uint64_t w) { return w >> 30 & 3; }
    static ORCHARD_INLINE std::uint32_t generation_of(std::uint64_t w) { return static_cast<std::uint32_t>(w >> 32); }
    static ORCHARD_INLINE std::uint64_t with_state(std::uint64_t w, std::uint32_t state) {
        return (w & ~(std::uint64_t{3} << 30)) | std::uint64_t{state} << 30;
    }
    /// Returns what a class's word says while superblock `s` is active with the word `w`.
    static ORCHARD_INLINE std::uint64_t entry_of(std::uint32_t s, std::uint64_t w) {
        return std::uint64_t{generation_of(w)} << 32 | (s + 1);
    }

    [[nodiscard]] ORCHARD_INLINE char* superblock(std::uint32_t s) const {
        return base_ + (std::uint64_t{s} << log_bytes_);
    }
    [[nodiscard]] ORCHARD_INLINE header* header_of(std::uint32_t s) const {
        return reinterpret_cast<header*>(superblock(s));
    }
    [[nodiscard]] ORCHARD_INLINE bits_word* bitmap_of(std::uint32_t s, const shape_type& shape) const {
        return reinterpret_cast<bits_word*>(superblock(s + 1)) - shape.bitmap_words;
    }
    /// Returns superblock `s`, which is in no queue, with its node.
    [[nodiscard]] ORCHARD_INLINE device::queued_superblock with_node(std::uint32_t s) const {
        return {s, header_of(s)->node.load<order::relaxed>()};
    }

    /// Returns a block of a superblock in which this thread has reserved one. `start`: where it looks first.
    ///
    /// A thread that frees clears the bit before it adds to the word. Hence there are always as many zeros as blocks
    /// that are free or reserved; only other threads that claim theirs can make a whole round of this loop fail.
    ORCHARD_FN void* claim_block(std::uint32_t s, std::uint32_t c, std::uint32_t start) const {
        const shape_type shape = shape_type::of(c, log_bytes_);
        bits_word* const bitmap = bitmap_of(s, shape);
        for (std::uint32_t i = start / 32;; i = i + 1 < shape.bitmap_words ? i + 1 : 0) {
            const std::uint32_t rest = shape.blocks - i * 32;
            const auto valid = device::ones<std::uint32_t>(rest < 32 ? rest : 32);
            std::uint32_t bits = bitmap[i].load<order::relaxed>();
            while ((~bits & valid) != 0) {
                const std::uint32_t bit = device::one_from(~bits & valid, start % 32);
                // Acquire: what the last owner did. Pairs with `clear_bit`.
                bits = bitmap[i].fetch_or<order::acquire>(bit);
                if ((bits & bit) == 0) {
                    const std::uint32_t index = i * 32 + static_cast<std::uint32_t>(simt::lowest_bit(bit));
                    return superblock(s) + sizeof(header) + std::uint64_t{index} * shape.block_bytes;
                }
            }
        }
    }
    /// Clears the bit of the block at `offset` of all memory. Returns false if none begins there, or it is free.
    ORCHARD_FN bool clear_bit(std::uint32_t s, std::uint32_t c, std::uint64_t offset) const {
        const shape_type shape = shape_type::of(c, log_bytes_);
        const auto inside = static_cast<std::uint32_t>(offset - (std::uint64_t{s} << log_bytes_));
        const std::uint32_t index = (inside - shape_type::header_bytes) / shape.block_bytes;
        if (inside != shape_type::header_bytes + index * shape.block_bytes || index >= shape.blocks) {
            return false;
        }
        const std::uint32_t bit = 1u << (index % 32);
        // Release: the caller's use of the block.
        simt::mutation::weaken_next(simt::mutation::fault::superblock_bit);
        return (bitmap_of(s, shape)[index / 32].fetch_and<order::release>(~bit) & bit) != 0;
    }

    /// Moves a superblock whose word this thread has changed by a free to where its new state belongs.
    ORCHARD_FN void move(std::uint32_t s, std::uint64_t was, std::uint64_t now) const {
        const std::uint32_t before = state_of(was);
        const std::uint32_t after = state_of(now);
        if (after == unused) {
            std::uint64_t entry = entry_of(s, was);
            if (before == active) {
                state_->active[class_of(was)].compare_exchange<order::relaxed>(entry, 0);
            }
            queues_.put(state_->free, with_node(s));
        } else if (after == partial && before == full) {
            queues_.put(state_->partial[class_of(was)], with_node(s));
        } else if (after == partial && free_of(now) == all_of(now)) {
            // Relaxed: a hint for requests that find no memory.
            state_->empty.fetch_add<order::relaxed>(1);
        }
    }

    /// A thread that takes superblocks from where others find them is counted before it does so, until they are back.
    /// Acquire and release: a thread that finds nothing left there sees it counted; one that sees it gone finds them.
    ORCHARD_INLINE void begin_move() const { state_->movers.fetch_add<order::acq_rel>(std::uint64_t{1} << 32 | 1); }
    ORCHARD_INLINE void end_move() const { state_->movers.fetch_sub<order::release>(1); }
    /// Returns false as soon as a request of class `c` could find memory; true if there is none, in anyone's hands.
    ORCHARD_FN bool lacks_memory(std::uint32_t c) const {
        for (;;) {
            // Acquire, all but the last: each load comes behind the one before it.
            const std::uint64_t before = state_->movers.load<order::acquire>();
            if (state_->active[c].load<order::acquire>() != 0 || queues_.has_any(state_->partial[c]) ||
                queues_.has_any(state_->free) || state_->empty.load<order::acquire>() != 0) {
                return false;
            }
            const std::uint64_t after = state_->movers.load<order::relaxed>();
            if (before == after && static_cast<std::uint32_t>(after) == 0) {
                return true;
            }
            simt::pause(256);
        }
    }

    /// Blocks of a superblock that are the caller's. They look for their bits from block `start` on.
    struct reservation {
        std::uint32_t superblock = 0;
        std::uint32_t start = 0;
        std::uint32_t blocks = 0;  ///< 0: there is no memory
    };
    /// Returns 1 to `most` blocks of class `c`, or none without memory. One lane.
    ORCHARD_FN reservation reserve(std::uint32_t c, std::uint32_t most) const {
        for (std::uint32_t tries = 0;; ++tries) {
            // Acquire: the word of the superblock as it was made active, or later.
            std::uint64_t entry = state_->active[c].load<order::acquire>();
            if (entry == 0) {
                reservation r;
                if (reserve_in_another(c, most, &r)) {
                    return r;
                }
                simt::pause(64);  // for the thread that has what this one has seen
                continue;
            }
            const auto s = static_cast<std::uint32_t>(entry) - 1;
            word& of = header_of(s)->state;
            std::uint64_t was = of.load<order::relaxed>();
            if (generation_of(was) != entry >> 32 || state_of(was) != active) {
                // Another thread has made it full, and has not cleared the entry yet.
                state_->active[c].compare_exchange<order::relaxed>(entry, 0);
                continue;
            }
            const std::uint32_t had = free_of(was);
            const std::uint32_t n = had < most ? had : most;
            const std::uint64_t now = with_state(was - n, n == had ? full : active);
            // Acquire: the bitmap as those left it that added to the word. Release: for them, see `free`.
            if (of.compare_exchange<order::acq_rel>(was, now)) {
                if (n == had) {
                    state_->active[c].compare_exchange<order::relaxed>(entry, 0);
                }
                return {s, all_of(was) - had, n};
            }
            // Thousands of threads that try again at once would mostly fail again.
            simt::pause(32u << (tries < 8 ? tries : 8));
        }
    }

    /// Returns true with blocks of class `c`, which has no active superblock: of a partial one, else of a free one,
    /// which becomes the active one; or with none if there is no memory. Returns false if the caller is to look again:
    /// another thread has found one, or may be about to.
    ORCHARD_NOINLINE bool reserve_in_another(std::uint32_t c, std::uint32_t most, reservation* r) const {
        begin_move();
        device::queued_superblock got{};
        std::uint64_t now = 0;
        if (queues_.take(state_->partial[c], &got)) {
            now = activate_partial(got, most, &r->blocks);
            if (state_of(now) == active && !make_active(got.superblock, now)) {
                give_up(got.superblock, now);
            }
        } else if (state_->active[c].load<order::relaxed>() != 0) {
            end_move();
            return false;
        } else if (queues_.take(state_->free, &got) || take_empty(c, &got)) {
            now = activate_unused(got, c, most, &r->blocks);
            if (state_of(now) == active && !make_active(got.superblock, now)) {
                // It goes back: otherwise each of the threads that came here together would keep one. The put releases.
                header_of(got.superblock)->state.store<order::relaxed>(with_state(now, unused));
                queues_.put(state_->free, got);
                end_move();
                return false;
            }
        } else {
            end_move();
            return lacks_memory(c);
        }
        end_move();
        r->superblock = got.superblock;
        r->start = all_of(now) - free_of(now) - r->blocks;
        return true;
    }
    /// Makes the superblock its class's, unless the class has one.
    ORCHARD_INLINE bool make_active(std::uint32_t s, std::uint64_t now) const {
        std::uint64_t none = 0;
        // Release: the word, for a thread that reads it by this entry.
        return state_->active[class_of(now)].compare_exchange<order::release>(none, entry_of(s, now));
    }
    /// Makes a superblock of a partial queue active, with 1 to `most` blocks less, the caller's: `taken`. Returns its
    /// word.
    ORCHARD_FN std::uint64_t activate_partial(const device::queued_superblock& got, std::uint32_t most,
                                              std::uint32_t* taken) const {
        // Relaxed: the exchange releases it.
        header_of(got.superblock)->node.store<order::relaxed>(got.node);
        word& of = header_of(got.superblock)->state;
        std::uint64_t was = of.load<order::relaxed>();
        std::uint64_t now = 0;
        do {
            *taken = free_of(was) < most ? free_of(was) : most;
            now = with_state(was - *taken, free_of(was) == *taken ? full : active) + (std::uint64_t{1} << 32);
            // As in `malloc`. Other threads may free blocks, which changes the number alone.
        } while (!of.compare_exchange<order::acq_rel>(was, now));
        if (free_of(was) == all_of(was)) {
            state_->empty.fetch_sub<order::relaxed>(1);
        }
        return now;
    }
    /// Makes a superblock that only this thread knows active in class `c`, with 1 to `most` blocks less. Returns its
    /// word.
    ORCHARD_FN std::uint64_t activate_unused(const device::queued_superblock& got, std::uint32_t c, std::uint32_t most,
                                             std::uint32_t* taken) const {
        header* const of = header_of(got.superblock);
        const shape_type shape = shape_type::of(c, log_bytes_);
        for (std::uint32_t i = 0; i < shape.bitmap_words; ++i) {
            bitmap_of(got.superblock, shape)[i].store<order::relaxed>(0);
        }
        of->node.store<order::relaxed>(got.node);
        const std::uint32_t generation = generation_of(of->state.load<order::relaxed>()) + 1;
        *taken = shape.blocks < most ? shape.blocks : most;
        const std::uint64_t now = with_state(std::uint64_t{generation} << 32 | c << 24 | shape.blocks << 12, active) |
                                  (shape.blocks - *taken);
        const std::uint64_t stored = shape.blocks == *taken ? with_state(now, full) : now;
        // Release: the bitmap and the node.
        of->state.store<order::release>(stored);
        return stored;
    }
    /// Puts an active superblock that is not its class's into the partial queue. The caller has a block in it.
    ORCHARD_FN void give_up(std::uint32_t s, std::uint64_t was) const {
        word& of = header_of(s)->state;
        // Other threads may free blocks, which changes the number alone: the caller's block is in use.
        while (!of.compare_exchange<order::acq_rel>(was, with_state(was, partial))) {
        }
        queues_.put(state_->partial[class_of(was)], with_node(s));
    }

    /// Takes a superblock without a block in use from the partial queues of all classes but `c`, whose queue is empty.
    /// Returns false if none was seen. The others go back to their queues, each at most once more than there are
    /// superblocks.
    ORCHARD_NOINLINE bool take_empty(std::uint32_t c, device::queued_superblock* got) const {
        if (state_->empty.load<order::relaxed>() == 0) {
            return false;
        }
        for (std::uint32_t k = 0; k < shape_type::classes(log_bytes_); ++k) {
            std::uint32_t first = queues_type::none;
            for (std::uint32_t n = 0; k != c && n <= superblocks_ && queues_.take(state_->partial[k], got); ++n) {
                const std::uint32_t s = got->superblock;
                word& of = header_of(s)->state;
                std::uint64_t was = of.load<order::relaxed>();
                // No other thread can change it: no block is in use. Acquire: their last use.
                if (free_of(was) == all_of(was) && of.compare_exchange<order::acq_rel>(was, with_state(was, unused))) {
                    state_->empty.fetch_sub<order::relaxed>(1);
                    return true;
                }
                queues_.put(state_->partial[k], *got);
                if (s == first) {
                    break;
                }
                first = first == queues_type::none ? s : first;
            }
        }
        return false;
    }

    char* base_ = nullptr;
    kma_state* state_ = nullptr;
    queues_type queues_;
    std::uint32_t superblocks_ = 0;
    std::uint32_t log_bytes_ = 0;
};

static_assert(device::device_allocator<kma_ref>);

}  // namespace orchard
