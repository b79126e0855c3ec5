// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of `orchard bench soak`. Each thread owns a table of slots and repeatedly visits a random one. A block
/// in the slot is checked and freed; an empty slot gets a new block of random size. Some blocks are put on a board that
/// all threads share, from which other threads take them, so that many blocks are freed by other threads than allocated
/// them.
///
/// A block identifies its owner: its first word is its id (owner and sequence), its last word a hash of the id. A
/// slot's word has the address and 16 bits of the hash:
///
///     63     48 47                        0
///     |  key   |         address          |        0: empty
///
/// A block that overlaps another, was handed out twice, freed too early or overwritten is therefore detected when it is
/// freed. The id is cleared then, so that a second free is also detected.

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "device/simt/random.hpp"

namespace orchard::bench::soak {

using simt::order;
using word64 = simt::device_word<std::uint64_t>;

/// The distribution of sizes. Most are 16 B to 8 KiB, and each doubling is equally frequent.
struct size_mix {
    std::uint32_t larger_one_in = 1024;   ///< 8 KiB to 512 KiB; a power of two up to 2^16, or 0: never
    std::uint32_t chunk_one_in = 65'536;  ///< 512 KiB to 4 MiB; likewise
};

/// Returns the hash that determines all properties of a block.
ORCHARD_INLINE std::uint64_t hash_of(std::uint64_t id) { return simt::mix64(~id); }

/// Returns the bytes of the block with this hash: a multiple of 8 from 16 on.
ORCHARD_INLINE std::uint64_t bytes_of(std::uint64_t hash, const size_mix& sizes) {
    const auto lot = static_cast<std::uint32_t>(hash & 0xffff);
    std::uint32_t doubling = 4;  // from 2^4 on
    std::uint32_t doublings = 9;
    if (sizes.chunk_one_in != 0 && (lot & (sizes.chunk_one_in - 1)) == 0) {
        doubling = 19;
        doublings = 3;
    } else if (sizes.larger_one_in != 0 && (lot & (sizes.larger_one_in - 1)) == 1) {
        doubling = 13;
        doublings = 6;
    }
    doubling += (static_cast<std::uint32_t>(hash >> 32 & 0xffff) * doublings) >> 16;
    const std::uint32_t least = 1u << doubling;
    return (least + (static_cast<std::uint32_t>(hash >> 12) & (least - 1)) + 7) / 8 * 8;
}

constexpr int address_bits = 48;
constexpr std::uint64_t address_mask = (std::uint64_t{1} << address_bits) - 1;

ORCHARD_INLINE std::uint64_t slot_word(const void* block, std::uint64_t hash) {
    return reinterpret_cast<std::uint64_t>(block) | (hash & ~address_mask);
}
ORCHARD_INLINE std::uint64_t* block_in(std::uint64_t slot) {
    return reinterpret_cast<std::uint64_t*>(slot & address_mask);
}

/// The first block that did not carry its tags. Written by one thread, so that plain words suffice.
struct mismatch {
    simt::plain<std::uint64_t> thread;  ///< thread that found it
    simt::plain<std::uint64_t> slot;    ///< the slot's word
    simt::plain<std::uint64_t> id;      ///< the block's first word, as found
    simt::plain<std::uint64_t> last;    ///< its last word, as found; 0 if the first one is already wrong
};

/// The counts of all threads since the start. Relaxed: read after the kernel.
struct tally {
    word64 allocations;
    word64 frees;
    word64 nulls;
    word64 handed_over;
    word64 bytes;
    word64 mismatches;
    mismatch first;
};

/// The tables, in device memory.
struct tables {
    word64* slots = nullptr;  ///< [threads][slots_each]; accessed by their own thread only
    word64* board = nullptr;  ///< [threads]; accessed by all threads: blocks that wait for another thread
    tally* counts = nullptr;
    std::uint32_t threads = 0;
    std::uint32_t slots_each = 0;  ///< a power of two up to 256
    size_mix sizes;
};

/// Writes the tags that `block_is_right` checks.
ORCHARD_INLINE void tag_block(std::uint64_t* block, std::uint64_t id, std::uint64_t hash, std::uint64_t bytes) {
    block[0] = id;
    block[bytes / 8 - 1] = hash;
}

/// Returns true if the block of a slot has its tags; clears its id then. Otherwise records the first such mismatch.
ORCHARD_INLINE bool block_is_right(const tables& t, std::uint64_t slot, std::uint64_t thread) {
    std::uint64_t* block = block_in(slot);
    const std::uint64_t id = block[0];
    const std::uint64_t hash = hash_of(id);
    std::uint64_t last = 0;
    // The size is computed from the id only if the id is right.
    if (((hash ^ slot) & ~address_mask) == 0) {
        last = block[bytes_of(hash, t.sizes) / 8 - 1];
        if (last == hash) {
            block[0] = 0;
            return true;
        }
    }
    // Relaxed: only the thread that counts the first mismatch writes the record, which is read after the kernel.
    if (t.counts->mismatches.fetch_add<order::relaxed>(1) == 0) {
        t.counts->first.thread.set(thread);
        t.counts->first.slot.set(slot);
        t.counts->first.id.set(id);
        t.counts->first.last.set(last);
    }
    return false;
}

/// The rounds of one launch. `Heap` has `malloc` and `free` like `heap_ref`. All choices of a round (slot, size,
/// handing over) come from the block's id, so that a run can be repeated; what threads do to each other depends on
/// their timing.
template <class Heap>
struct run_kernel {
    static constexpr int max_registers = 64;  ///< so that 1,024 threads run at once on an SM with 65,536 registers
    Heap heap;
    tables t;
    std::uint64_t first_sequence;  ///< of this launch; 32 bits of it are used
    std::uint32_t rounds;
    std::uint64_t limit_ns;  ///< time after which a thread stops before its rounds are complete

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t thread = at.global_thread();
        if (thread >= t.threads) {
            return;
        }
        const std::uint64_t began = simt::clock_ns();
        std::uint32_t frees = 0;
        std::uint32_t nulls = 0;
        std::uint32_t allocations = 0;
        std::uint32_t handed_over = 0;
        std::uint64_t bytes = 0;
        for (std::uint32_t round = 0; round < rounds; ++round) {
            // Every 16 rounds only, to spare reads of the clock.
            if (round % 16 == 15 && simt::clock_ns() - began > limit_ns) {
                break;
            }
            const std::uint64_t id = thread << 32 | ((first_sequence + round) & 0xffffffffu);
            const std::uint64_t random = simt::mix64(id);
            word64& slot = t.slots[thread * t.slots_each + (random & (t.slots_each - 1))];
            // Relaxed: no other thread has this slot; launches are ordered.
            std::uint64_t held = slot.load<order::relaxed>();
            if (held != 0) {
                if (block_is_right(t, held, thread)) {
                    heap.free(block_in(held));
                    ++frees;
                }
                held = 0;
            } else {
                held = new_block(id, bytes);
                (held != 0 ? allocations : nulls) += 1;
            }
            // One visit in eight, with or without a block: an empty slot can take a block from the board.
            if ((random >> 8 & 7) == 0) {
                handed_over += held != 0 ? 1 : 0;
                // Releases the block's tags to the thread that takes it, and acquires the tags of the block that lies
                // there.
                held = t.board[(random >> 32) % t.threads].exchange<order::acq_rel>(held);
            }
            slot.store<order::relaxed>(held);
        }
        // Counted once for each thread and launch, so that counting costs little.
        t.counts->allocations.fetch_add<order::relaxed>(allocations);
        t.counts->frees.fetch_add<order::relaxed>(frees);
        t.counts->nulls.fetch_add<order::relaxed>(nulls);
        t.counts->handed_over.fetch_add<order::relaxed>(handed_over);
        t.counts->bytes.fetch_add<order::relaxed>(bytes);
    }

private:
    ORCHARD_INLINE std::uint64_t new_block(std::uint64_t id, std::uint64_t& bytes) const {
        const std::uint64_t hash = hash_of(id);
        const std::uint64_t wanted = bytes_of(hash, t.sizes);
        auto* block = static_cast<std::uint64_t*>(heap.malloc(wanted));
        if (block == nullptr) {
            return 0;
        }
        tag_block(block, id, hash, wanted);
        bytes += wanted;
        return slot_word(block, hash);
    }
};

/// Checks and frees all blocks; each table by another thread than its own, so that most blocks are freed by a thread of
/// another warp than the one that allocated them.
template <class Heap>
struct drain_kernel {
    static constexpr int max_registers = 64;
    Heap heap;
    tables t;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() >= t.threads) {
            return;
        }
        const std::uint64_t thread = at.global_thread();
        const std::uint64_t other = t.threads - 1 - thread;
        std::uint64_t frees = 0;
        // The last word is the board's: one for each thread.
        for (std::uint32_t i = 0; i <= t.slots_each; ++i) {
            word64& slot = i < t.slots_each ? t.slots[other * t.slots_each + i] : t.board[other];
            // Relaxed: each word has one thread, and the previous launch has ended.
            const std::uint64_t held = slot.load<order::relaxed>();
            if (held != 0) {
                slot.store<order::relaxed>(0);
                if (block_is_right(t, held, thread)) {
                    heap.free(block_in(held));
                    ++frees;
                }
            }
        }
        t.counts->frees.fetch_add<order::relaxed>(frees);
    }
};

}  // namespace orchard::bench::soak
