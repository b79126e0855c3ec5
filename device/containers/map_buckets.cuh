// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Finding a key in a hash map: the bucket, its slots, its lock (hash_map.cuh describes the whole).

#include <cstdint>

#include "device/containers/map_memory.cuh"

namespace orchard::device {

/// The buckets of a map, for lanes that look for keys.
template <class K, class V, class Shape>
class map_buckets {
protected:
    using slots = map_slots<K, V, Shape::most_slots>;
    using header = map_header;
    using node = map_node;
    using words = typename slots::words;
    using order = simt::order;
    using fault = simt::mutation::fault;
    using memory_type = map_memory<Shape, slots::node_bytes>;

    map_buckets() = default;
    explicit map_buckets(const memory_type& memory) : memory_{memory} {}

    /// A bucket as a lane has found it.
    struct position {
        std::uint64_t bucket = 0;
        std::uint64_t head = 0;  ///< its header
        node* n = nullptr;
    };

    [[nodiscard]] ORCHARD_INLINE hash_map_state& state() const { return memory_.state(); }
    ORCHARD_INLINE static std::uint64_t low_bits(std::uint64_t hash, std::uint32_t count) {
        return hash & ((std::uint64_t{1} << count) - 1);
    }
    ORCHARD_INLINE static std::uint32_t log_of(std::uint64_t x) {
        const auto high = static_cast<std::uint32_t>(x >> 32);
        return static_cast<std::uint32_t>(high != 0 ? 32 + simt::highest_bit(high)
                                                    : simt::highest_bit(static_cast<std::uint32_t>(x)));
    }
    /// Returns the bucket from which bucket `b` is made. `b` is none of the first.
    ORCHARD_INLINE static std::uint64_t parent_of(std::uint64_t b) { return b ^ std::uint64_t{1} << log_of(b); }

    /// Returns the bucket of `hash`, with its header acquired. The number of buckets may be old, and a bucket may not
    /// have been made yet; each header says whether the bucket is the right one.
    ORCHARD_FN position locate(std::uint64_t hash, bool checks = true) const {
        const std::uint64_t made = state().buckets.template load<order::relaxed>();
        std::uint64_t ready = state().ready.template load<order::acquire>();
        const std::uint64_t all = made < ready ? made : ready;
        const std::uint32_t level = log_of(all);
        position at;
        at.bucket = low_bits(hash, level + 1);
        if (at.bucket >= all) {
            at.bucket = low_bits(hash, level);
        }
        for (;;) {
            at.n = memory_.bucket(at.bucket);
            at.head = at.n->header.template load<order::acquire>();
            const std::uint32_t depth = header::depth(at.head);
            if (depth == 0) {
                at.bucket = parent_of(at.bucket);
                continue;
            }
            std::uint64_t right = low_bits(hash, depth);
            if (right == at.bucket || !checks) {
                return at;
            }
            // The bucket has been split. Its children are ready, but perhaps not theirs.
            if (right >= ready) {
                ready = state().ready.template load<order::acquire>();
                while (right >= ready) {
                    right = parent_of(right);
                }
            }
            at.bucket = right;
        }
    }

    /// Returns whether a bucket that had the header `at.head` has been the same until now, for what a reader has found
    /// in it. A lock alone is no change if no slot in use can change under it.
    ORCHARD_INLINE static bool is_unchanged(const position& at) {
        simt::fence<simt::scope::device>();  // the reads before it; pairs with the writers' fences
        const std::uint64_t now = at.n->header.template load<order::relaxed>();
        return now == at.head || (!must_be_free(at.head) && (now & ~header::locked) == (at.head & ~header::locked));
    }
    /// Returns whether a reader must wait for a lock: under it, slots may get other keys than they once had, and a key
    /// that another reader has just found there must not be missed until the lock is given back.
    ORCHARD_INLINE static bool must_be_free(std::uint64_t head) {
        return slots::tears || (head & (header::chained | header::reused)) != 0;
    }
    ORCHARD_INLINE static bool is_blocked(std::uint64_t head) {
        return (head & header::locked) != 0 && must_be_free(head);
    }
    /// What a lane has found in a bucket.
    struct finding {
        node* at = nullptr;  ///< the node with the key; null: none has it
        std::uint32_t slot = 0;
        node* first_block = nullptr;  ///< of the chain
        bool is_torn = false;         ///< the bucket has changed meanwhile
    };

    /// Returns whether a key that was found is there, without another look at the header. It is if the slot is one word
    /// of the bucket itself: the word is not older than the header that the reader has acquired. If it is newer, the
    /// key was inserted, or moved from the chain, while the reader looked. A lane that still inserts it has the lock,
    /// and a reader that does not find the key waits for that (`must_be_free`, as the slot had another key before).
    ORCHARD_INLINE static bool is_certain(const position& at, const finding& f) {
        return slots::slot_words == 1 && f.at == at.n;
    }
    /// Looks for a key in a bucket and its chain; `found` gets its words.
    ORCHARD_FN static finding look_in(const position& at, const words& wanted, std::uint64_t hash, words& found) {
        finding f;
        f.slot = slots::find(*at.n, header::used(at.head), wanted, hash, found);
        f.at = f.slot != slots::none ? at.n : nullptr;
        if ((at.head & header::chained) == 0) {
            return f;
        }
        // Blocks are never given back while the map is used, so that a block that has left the chain can be read; it is
        // noticed, as the header has changed then.
        std::uint64_t address = at.n->next.template load<order::acquire>();
        f.first_block = address != 0 ? node::at(address) : nullptr;
        while (f.at == nullptr && address != 0 && !f.is_torn) {
            node* const block = node::at(address);
            const std::uint32_t used = header::used(block->header.template load<order::acquire>());
            f.slot = slots::find(*block, used, wanted, hash, found);
            f.at = f.slot != slots::none ? block : nullptr;
            address = block->next.template load<order::acquire>();
            const std::uint64_t now = at.n->header.template load<order::relaxed>();
            f.is_torn = (now & ~header::locked) != (at.head & ~header::locked);
        }
        return f;
    }
    /// The same in a locked bucket. All of it was acquired with the lock, so that no load waits for another one but for
    /// an address.
    ORCHARD_FN static finding look_in_locked(const position& at, const words& wanted, std::uint64_t hash,
                                             words& found) {
        finding f;
        const bool is_chained = (at.head & header::chained) != 0;
        std::uint64_t address = is_chained ? at.n->next.template load<order::relaxed>() : 0;
        f.slot = slots::find_at_once(*at.n, header::used(at.head), wanted, hash, found);
        f.at = f.slot != slots::none ? at.n : nullptr;
        f.first_block = address != 0 ? node::at(address) : nullptr;
        while (f.at == nullptr && address != 0) {
            node* const block = node::at(address);
            const std::uint64_t head = block->header.template load<order::relaxed>();
            address = block->next.template load<order::relaxed>();
            f.slot = slots::find_at_once(*block, header::used(head), wanted, hash, found);
            f.at = f.slot != slots::none ? block : nullptr;
        }
        return f;
    }

    ORCHARD_FN bool look_up(const words& wanted, words& found) const {
        const std::uint64_t hash = slots::hash(wanted);
        for (std::uint32_t attempt = 0;; ++attempt) {
            const position at = locate(hash, !simt::mutation::is(fault::map_depth));
            if (!is_blocked(at.head)) {
                const finding f = look_in(at, wanted, hash, found);
                if (is_certain(at, f) || simt::mutation::is(fault::map_version) || (!f.is_torn && is_unchanged(at))) {
                    return f.at != nullptr;
                }
            } else {
                back_off(attempt);
            }
        }
    }

    /// Pauses after a lock was found taken, `attempt` times before: up to twice as long after each attempt, until a
    /// pause has some microseconds. Each lane pauses for another time, because lanes that find the same lock would
    /// otherwise also come back at the same time.
    ORCHARD_INLINE static void back_off(std::uint32_t attempt) {
        const std::uint32_t most = 64u << (attempt < 5 ? attempt : 5);
        const std::uint32_t random = (simt::noise() + static_cast<std::uint32_t>(simt::lane_id())) * 0x9e3779b9u;
        simt::pause(most / 2 + ((random >> 16) * most >> 16));
    }
    /// Takes the lock of a bucket if its header is still `at.head`, which is without the lock.
    ORCHARD_INLINE static bool lock(const position& at) {
        std::uint64_t expected = at.head;
        if (simt::mutation::is(fault::map_recheck)) {
            expected = at.n->header.template load<order::relaxed>() & ~header::locked;
        }
        // Acquires what the last owner of the lock has written.
        return at.n->header.template compare_exchange<order::acquire>(expected, expected | header::locked);
    }
    /// Gives the lock back, with another header.
    ORCHARD_INLINE static void unlock(node* n, std::uint64_t head) {
        simt::mutation::weaken_next(fault::map_unlock);
        n->header.template store<order::release>(head);
    }

    /// Takes the lock of a bucket whatever its header is, and sets `at.head` to this header, without the lock. Returns
    /// false if another lane has the lock. The bucket exists.
    ORCHARD_INLINE static bool lock_any(position& at) {
        if ((at.head & header::locked) != 0) {
            return false;  // as it was read: no atomic, which would delay the owner
        }
        const std::uint64_t found = at.n->header.template fetch_or<order::acquire>(header::locked);
        if ((found & header::locked) != 0) {
            return false;
        }
        at.head = found;
        return true;
    }

    /// Finds the bucket of a key and the key in it, for a change; takes no lock. The result was true at one moment,
    /// unless the caller takes the lock anyway and sees then whether it still is.
    /// @param locks  whether the caller takes the lock, depending on what was found: `locks(finding)`
    template <class Locks>
    ORCHARD_FN finding look(const words& wanted, std::uint64_t hash, position& at, words& found, Locks locks) const {
        for (std::uint32_t attempt = 0;; ++attempt) {
            at = locate(hash);
            if (!is_blocked(at.head)) {
                const finding f = look_in(at, wanted, hash, found);
                if (locks(f) || is_certain(at, f) || (!f.is_torn && is_unchanged(at))) {
                    return f;
                }
            } else {
                back_off(attempt);
            }
        }
    }
    /// Takes the lock of a bucket that `look` has found, if it is still as it was then.
    ORCHARD_INLINE static bool lock_as_seen(const position& at, const finding& f) {
        return !f.is_torn && (at.head & header::locked) == 0 && lock(at);
    }
    /// Locks the bucket `at` if it is the one of `hash`. Returns false without the lock if it has been split, or
    /// another lane has the lock.
    ORCHARD_INLINE static bool lock_for(std::uint64_t hash, position& at) {
        if (!lock_any(at)) {
            return false;
        }
        if (low_bits(hash, header::depth(at.head)) == at.bucket) {
            return true;
        }
        unlock(at.n, at.head);
        return false;
    }
    /// Locks the bucket of a key and finds the key in it. It locks first, so that every attempt that gets the lock of
    /// the right bucket is the last.
    ORCHARD_FN finding lock_and_look(const words& wanted, std::uint64_t hash, position& at, words& found) const {
        at = locate(hash);
        for (std::uint32_t attempt = 0; !lock_for(hash, at); at = locate(hash)) {
            back_off(attempt++);
        }
        return look_in_locked(at, wanted, hash, found);
    }

    memory_type memory_;
};

}  // namespace orchard::device
