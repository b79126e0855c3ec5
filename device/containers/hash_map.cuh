// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `hash_map_ref`: a hash map in a heap that grows while the threads of kernels read and write it.
///
/// Linear hashing (W. Litwin, 1980): the number of buckets grows by one at a time. With `all` buckets, of which 2^d is
/// the greatest power of two, the key of hash h is in bucket h mod 2^(d+1), or h mod 2^d if that one does not exist. A
/// split makes bucket b + 2^d from bucket b. Here each bucket's header has its own depth d, and so has precisely the
/// keys with h mod 2^d = b. A lane therefore needs no current number of buckets: the headers tell it where to go on.
///
///     find, contains       map_buckets.cuh   no lock, no atomic: the header, slots, at times the header again
///       locate             map_buckets.cuh   the bucket of a hash
///     insert, upsert, ...                    `put`: reads as find does; the lanes of a group go on together:
///       put_locked                           rounds until all are done: grow, lock by one atomic each, look, write
///         grow             map_growth.cuh    counts the keys of a group by one atomic, makes buckets that are due
///           ask            map_memory.cuh    memory for more buckets
///           make_buckets   map_growth.cuh    each lane locks the bucket that has the keys; all split these together
///         look_in_locked   map_buckets.cuh   unless the header is still the one with which the key was missed
///         hand_over                          in a full bucket: a block that a split of the group has freed
///         make_room                          ... or a split that is due, or a block of the map or the heap
///     split_together       map_growth.cuh    moves keys of locked buckets to new ones
///     erase                                  fills the hole from the chain, so that chains stay short
///
/// A lane that has a lock waits for no memory and for no other lock. Lanes of a group that split buckets, or look for
/// room, together wait for each other, and for nothing else meanwhile. A lane that finds a lock waits in a loop with
/// `pause`, and so does a lane whose new buckets another lane is getting memory for. A lane that finds no memory
/// returns `no_memory`, or leaves out a split, which later calls make up for.
///
/// A reader uses the header as a version (a seqlock): it acquires the header, reads, and looks whether the header is
/// the same, unless it has found a key in one word with its value (`is_certain`). A writer that reuses a slot has a
/// fence between its lock and its writes: a reader that sees a write then finds the header changed.

#include <cstdint>
#include <type_traits>

#include "device/containers/map_growth.cuh"

namespace orchard {

/// The result of a call that may add a key.
enum class map_result : std::uint32_t {
    inserted,   ///< the key is new
    present,    ///< the map had the key
    no_memory,  ///< the map does not have the key, and is as before; the heap has recorded the failure
};

/// The view of a `hash_map` in kernels. Trivially copyable; pass it by value. It is valid while the map lives.
///
/// Threads of any kernel may call any functions at the same time, in any divergence, except where a function says
/// otherwise. Each call takes effect at one moment between its begin and its end. A thread that finds a key is ordered
/// after the thread that inserted it; of a value that `upsert` or `insert_or_assign` changed later, it may see the new
/// value without being ordered after that call.
///
/// `K`: trivially copyable, without padding, and no floating-point number: keys are compared as bytes. Any key is
/// allowed; there is no key that means "empty". `V`: trivially copyable. Both together have at most 4,080 B. Best are 4
/// and 4 B, or 8 and 8 B.
template <class K, class V, class Shape = device::map_shape<device::map_slots<K, V>::node_bytes>>
class hash_map_ref : device::map_growth<K, V, Shape> {
    using base = device::map_growth<K, V, Shape>;
    using base::back_off;
    using base::child_of;
    using base::lock_and_look;
    using base::lock_as_seen;
    using base::lock_for;
    using base::look;
    using base::look_in_locked;
    using base::look_up;
    using base::low_bits;
    using base::memory_;
    using base::must_be_free;
    using base::state;
    using base::unlock;
    using typename base::finding;
    using typename base::header;
    using typename base::node;
    using typename base::order;
    using typename base::position;
    using typename base::slots;
    using typename base::words;

public:
    using typename base::memory_type;
    static constexpr std::uint32_t slots_per_bucket = slots::slots;

    hash_map_ref() = default;
    /// @param buckets_per_key  buckets for each key, in units of 2^-16: when to split
    hash_map_ref(const heap_ref& heap, hash_map_state* of, std::uint32_t buckets_per_key)
        : base{memory_type{heap, of}, buckets_per_key} {}

    /// Adds `key` with `value` if the map does not have the key; else changes nothing. Cost: one atomic, one line of
    /// memory and a release; an atomic for each group of lanes that add keys together; every tenth call or so, a split.
    ORCHARD_FN map_result insert(const K& key, const V& value = V{}) const {
        return put(
            key, value, [](const V& old) { return old; }, false);
    }
    /// Adds `key` with `value`, or gives the key that is there this value. Cost: as `insert`.
    ORCHARD_FN map_result insert_or_assign(const K& key, const V& value) const {
        return put(
            key, value, [&](const V&) { return value; }, true);
    }
    /// Adds `key` with `value`, or replaces the value `old` that is there by `change(old)`. `change` is called once if
    /// the map has the key. The bucket is locked while it runs, so that it must be short, and must not call the map nor
    /// wait for other threads. Cost: as `insert`.
    template <class Change>
    ORCHARD_FN map_result upsert(const K& key, const V& value, Change change) const {
        return put(key, value, change, true);
    }

    /// Returns whether the map has `key`, and sets `value` if it does. Cost: one line of memory, of which it reads the
    /// parts up to the key.
    ORCHARD_FN bool find(const K& key, V& value) const {
        words found{};
        const bool is_there = look_up(slots::of_key(key), found);
        if (is_there) {
            value = slots::value_of(found);
        }
        return is_there;
    }
    [[nodiscard]] ORCHARD_FN bool contains(const K& key) const {
        words found{};
        return look_up(slots::of_key(key), found);
    }

    /// Removes `key`. Returns whether the map had it. The memory stays with the map, for other keys. Cost: as `insert`.
    ORCHARD_FN bool erase(const K& key) const {
        const words wanted = slots::of_key(key);
        const std::uint64_t hash = slots::hash(wanted);
        const simt::lane_mask group = this->here();
        node* freed = nullptr;
        position at;
        const bool removed = remove(wanted, hash, at, freed);
        if (freed != nullptr) {
            memory_.put_block(at.bucket, freed);
        }
        this->count_down(simt::ballot(group, removed));
        return removed;
    }

    /// Returns the number of keys: of calls under way, some are counted and others not. Cost: one load.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t size() const {
        const std::uint64_t keys = state().keys.template load<order::relaxed>();
        return keys >> 63 == 0 ? keys : 0;  // a key's erase was counted first
    }

    /// Calls `visit(key, value)` for each key in the buckets of this thread: thread `thread` of `threads` that call it.
    /// No other thread may add or remove keys meanwhile. Cost: reads the buckets once.
    template <class Visit>
    ORCHARD_FN void for_each(std::uint64_t thread, std::uint64_t threads, Visit visit) const {
        for_each_node(thread, threads, [&](node* n, std::uint32_t used, bool) {
            for (; used != 0; used &= used - 1) {
                const words all = slots::load(*n, static_cast<std::uint32_t>(simt::lowest_bit(used)));
                visit(slots::key_of(all), slots::value_of(all));
            }
        });
    }

    /// Calls `visit(node, used, is_block)` for each bucket and each overflow block, as `for_each`; `used` are the slots
    /// with keys. `visit` may free an overflow block. For the library's own kernels.
    template <class Visit>
    ORCHARD_FN void for_each_node(std::uint64_t thread, std::uint64_t threads, Visit visit) const {
        const std::uint64_t ready = state().ready.template load<order::acquire>();
        const std::uint64_t all = state().buckets.template load<order::relaxed>();
        for (std::uint64_t b = thread; b < all && b < ready; b += threads) {
            node* const n = memory_.bucket(b);
            const std::uint64_t head = n->header.template load<order::acquire>();
            if (header::depth(head) == 0) {
                continue;
            }
            std::uint64_t next = n->next.template load<order::acquire>();
            visit(n, header::used(head), false);
            while (next != 0) {
                node* const block = node::at(next);
                next = block->next.template load<order::acquire>();
                visit(block, header::used(block->header.template load<order::relaxed>()), true);
            }
        }
    }
    [[nodiscard]] ORCHARD_INLINE const memory_type& memory() const { return memory_; }

private:
    /// Adds a key, or changes its value if `changes`.
    ///
    /// The lanes that are here go through all steps together: a lane that has gone ahead, or waits, would leave them
    /// with few lanes each, and a step costs a warp the same for one lane as for all.
    template <class Change>
    ORCHARD_FN map_result put(const K& key, const V& value, Change change, bool changes) const {
        const simt::lane_mask group = this->here();
        const words wanted = slots::of(key, value);
        position at;
        words found{};
        const finding f = look(wanted, slots::hash(wanted), at, found,
                               [&](const finding& seen) { return seen.at == nullptr || changes; });
        const bool is_new = f.at == nullptr;
        bool is_done = !is_new && !changes;
        if (!is_new && changes && lock_as_seen(at, f)) {
            change_locked(at, f, found, key, change);
            is_done = true;
        }
        const simt::lane_mask others = simt::ballot(group, !is_done);
        return is_done ? map_result::present
                       : put_locked(*this, others, at.n, at.head & ~header::locked, key, value, change, changes, is_new,
                                    is_new && is_steady(at, f));
    }
    /// The rest of `put`, where a key is to be added, or a lock was taken. It is a function of its own, which keeps
    /// little of what `put` has read: functions below `malloc` need registers, and each value that waits for them
    /// needs one more, of every lane.
    ///
    /// In each round, the lanes that are not done lock their buckets, of which some fail, look, and write. So no lane
    /// that has a lock waits for one that tries to get one.
    /// @param n, head    the bucket where the key was looked for, which is tried first, and its header without the lock
    /// @param is_absent  the key is not in the bucket while it has this header
    template <class Change>
    ORCHARD_NOINLINE static map_result put_locked(hash_map_ref m, simt::lane_mask group, node* n, std::uint64_t head,
                                                  K key, V value, Change change, bool changes, bool is_new,
                                                  bool is_absent) {
        const words wanted = slots::of(key, value);
        position at;
        at.n = n;
        at.head = head;
        node* spare = nullptr;
        bool is_counted = false;
        bool counts = is_new;  // the key is to be counted before it is added
        bool is_done = false;
        map_result result = map_result::no_memory;
        for (std::uint32_t attempt = 0; simt::ballot(group, !is_done) != 0;) {
            const simt::lane_mask counting = simt::ballot(group, counts);
            if (counts) {
                m.grow(counting, spare);
                is_counted = true;
                counts = false;
            }
            simt::sync(group);  // no lane locks a bucket for its key while others, which would wait for it, grow
            const std::uint64_t hash = slots::hash(wanted);
            const std::uint64_t seen = at.head;
            at.bucket = low_bits(hash, header::depth(seen));
            const bool locks = !is_done && lock_for(hash, at);
            if (simt::ballot(group, locks) == 0) {
                back_off(attempt++);
            }
            finding f;
            bool adds = false;
            if (locks) {
                words found{};
                f = is_absent && at.head == seen ? absent(at) : look_in_locked(at, wanted, hash, found);
                is_done = true;
                if (f.at != nullptr) {
                    result = map_result::present;
                    if (changes) {
                        change_locked(at, f, found, key, change);
                    } else {
                        unlock(at.n, at.head);
                    }
                } else if (!is_counted) {
                    unlock(at.n, at.head);  // the key was erased meanwhile
                    counts = true;
                    is_done = false;
                } else {
                    adds = true;
                }
            }
            is_absent = false;
            const bool needs = adds && lacks_room(at, f);
            bool lacks = needs && spare == nullptr;
            const bool group_lacks = simt::ballot(group, lacks) != 0;
            bool splits = false;
            if (group_lacks) {
                splits = lacks && m.is_split_due(at);
                spare = hand_over(group, !needs, lacks && !splits, spare);
                lacks = lacks && spare == nullptr;
            }
            if (adds && !lacks) {
                add(at, f, wanted, hash, spare);
                result = map_result::inserted;
            }
            if (group_lacks && simt::ballot(group, lacks) != 0) {
                const room more = make_room(m, group, lacks, splits, at);
                spare = lacks ? more.block : spare;
                is_done = is_done && !(lacks && more.is_there);
            }
            if (!is_done) {
                at = m.locate(hash);
            }
        }
        if (spare != nullptr) {
            m.memory_.put_block(at.bucket, spare);
        }
        m.count_down(simt::ballot(group, is_counted && result != map_result::inserted));
        return result;
    }
    /// Changes the value of a key in a locked bucket, and unlocks it.
    template <class Change>
    ORCHARD_INLINE static void change_locked(const position& at, const finding& f, const words& found, const K& key,
                                             Change& change) {
        if constexpr (slots::has_value) {
            const words changed = slots::of(key, change(slots::value_of(found)));
            if constexpr (slots::tears) {
                simt::fence<simt::scope::device>();  // a reader that reads a part finds the lock
            }
            slots::store_value(*f.at, f.slot, changed);
        }
        unlock(at.n, at.head + header::one_version);
    }
    /// Returns whether `look` has found the bucket without the lock, and unchanged as far as it can tell.
    ORCHARD_INLINE static bool is_steady(const position& at, const finding& f) {
        return !f.is_torn && (at.head & header::locked) == 0;
    }
    /// Returns the finding for a key that is not in a locked bucket, whose header is still the one with which a look
    /// has missed it. What the look read was not changed until the lock was taken: each change ends with another
    /// header.
    ORCHARD_INLINE static finding absent(const position& at) {
        finding f;
        if ((at.head & header::chained) != 0) {
            f.first_block = node::at(at.n->next.template load<order::relaxed>());
        }
        return f;
    }
    ORCHARD_INLINE static bool lacks_room(const position& at, const finding& f) {
        return header::used(at.head) == slots::all_slots &&
               (f.first_block == nullptr ||
                header::used(f.first_block->header.template load<order::relaxed>()) == slots::all_slots);
    }

    /// Writes a new key into the locked bucket, which has room or gets `spare` as an overflow block, and unlocks it.
    ORCHARD_INLINE static void add(const position& at, const finding& f, const words& wanted, std::uint64_t hash,
                                   node*& spare) {
        std::uint32_t used = header::used(at.head);
        std::uint64_t head = at.head;
        if (must_be_free(head) || used == slots::all_slots) {
            simt::fence<simt::scope::device>();  // as in `remove`: the slot may have had another key
        }
        if (used != slots::all_slots) {
            const std::uint32_t slot = slots::free_slot(used, hash);
            slots::store(*at.n, slot, wanted);
            used |= 1u << slot;
        } else {
            node* block = f.first_block;
            std::uint32_t there =
                block != nullptr ? header::used(block->header.template load<order::relaxed>()) : slots::all_slots;
            if (there == slots::all_slots) {
                block = spare;
                spare = nullptr;
                there = 0;
                block->next.template store<order::relaxed>(at.n->next.template load<order::relaxed>());
            }
            const std::uint32_t slot = slots::free_slot(there, hash);
            slots::store(*block, slot, wanted);
            block->header.template store<order::relaxed>(header::make(0, there | 1u << slot));
            if (block != f.first_block) {
                // Releases a new block to lanes that follow the chain.
                at.n->next.template store<order::release>(block->address());
                head |= header::chained;
            }
        }
        unlock(at.n, header::next(head, used));
    }

    /// What a full bucket gets.
    struct room {
        node* block = nullptr;
        bool is_there = false;  ///< false: there is no memory
    };
    /// Returns whether the next split of a locked bucket is due, and the new bucket has memory.
    [[nodiscard]] ORCHARD_INLINE bool is_split_due(const position& at) const {
        const std::uint64_t child = child_of(at);
        return child < state().buckets.template load<order::relaxed>() &&
               child < state().ready.template load<order::acquire>();
    }
    /// Hands the blocks of lanes that `can_give` theirs to lanes that lack one, as far as they go. Returns the caller's
    /// block after that. All lanes of the group call it. No trip to memory.
    ORCHARD_INLINE static node* hand_over(simt::lane_mask group, bool can_give, bool lacks, node* spare) {
        simt::lane_mask givers = simt::ballot(group, can_give && spare != nullptr);
        simt::lane_mask takers = simt::ballot(group, lacks);
        while (givers != 0 && takers != 0) {
            const int giver = simt::lowest_bit(givers);
            const int taker = simt::lowest_bit(takers);
            const std::uint64_t block = simt::shuffle(group, reinterpret_cast<std::uint64_t>(spare), giver);
            const int lane = static_cast<int>(simt::lane_id());
            spare = lane == taker ? node::at(block) : lane == giver ? nullptr : spare;
            givers &= givers - 1;
            takers &= takers - 1;
        }
        return spare;
    }
    /// Makes room for keys in full buckets, those that lanes of the group which `lack` room have locked, and unlocks
    /// them: by the split that is due if the lane `splits`, or by an overflow block. Returns a block that the lane has
    /// then, perhaps one that the split has freed. All lanes of the group call it.
    ORCHARD_NOINLINE static room make_room(hash_map_ref m, simt::lane_mask group, bool lacks, bool splits,
                                           position at) {
        const std::uint64_t child = lacks ? child_of(at) : 0;
        splits = splits && lacks;
        room made;
        if (lacks && !splits) {
            unlock(at.n, at.head);
        }
        const simt::lane_mask splitting = simt::ballot(group, splits);
        if (splitting != 0) {
            const auto split = base::split_together(m, group, splitting, at, child);
            made.is_there = split.done;
            made.block = split.freed;
        }
        if (splits && !made.is_there) {
            made.is_there = m.memory_.stock(child);
        }
        if (lacks && !made.is_there) {
            made.block = m.memory_.take_block(at.bucket);
            made.is_there = made.block != nullptr;
        }
        return made;
    }

    /// Removes a key. Returns whether it was there. `freed` gets a block that the bucket does not need any more.
    ORCHARD_FN bool remove(const words& wanted, std::uint64_t hash, position& at, node*& freed) const {
        words found{};
        finding f = look(wanted, hash, at, found, [](const finding& seen) { return seen.at != nullptr; });
        if (f.at == nullptr) {
            return false;
        }
        if (!lock_as_seen(at, f)) {
            f = lock_and_look(wanted, hash, at, found);
            if (f.at == nullptr) {
                unlock(at.n, at.head);
                return false;
            }
        }
        std::uint32_t used = header::used(at.head);
        std::uint64_t head = at.head | header::reused;
        node* const block = f.first_block;
        if (block == nullptr) {
            used &= ~(1u << f.slot);
        } else {
            // After the lock, before writes: a reader that reads one of them finds the header changed.
            simt::fence<simt::scope::device>();
            // A key of the first block fills the hole: only this block has free slots.
            std::uint32_t there = header::used(block->header.template load<order::relaxed>());
            std::uint32_t from = f.slot;
            if (f.at != block) {
                from = static_cast<std::uint32_t>(simt::lowest_bit(there));
                slots::store(*f.at, f.slot, slots::load(*block, from));
            }
            there &= ~(1u << from);
            block->header.template store<order::relaxed>(header::make(0, there));
            if (there == 0) {
                const std::uint64_t next = block->next.template load<order::relaxed>();
                at.n->next.template store<order::release>(next);
                head = next == 0 ? head & ~header::chained : head;
                freed = block;
            }
        }
        unlock(at.n, header::next(head, used));
        return true;
    }
};

}  // namespace orchard
