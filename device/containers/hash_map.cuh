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
///     find, contains         no lock, no atomic: the header, slots, and in most cases the header again
///       locate                 the bucket of a hash
///     insert, upsert, ...    `put`: reads as find does; takes the lock by one atomic, if the bucket is as it was read
///       make_room              a bucket that is full: a split that is due, or an overflow block
///       grow                   counts the keys of a group by one atomic; splits as many buckets as are due
///         prepare                memory for more buckets (map_memory.cuh)
///         split_for, split       moves keys to a new bucket
///     erase                  fills the hole from the chain, so that chains stay as short as can be
///
/// A lane that has a lock waits for nothing: not for memory, not for another lock, not for lanes of its warp. A lane
/// that finds a lock waits in a loop with `pause`. A lane that finds no memory returns `no_memory`, or leaves out a
/// split, which later calls make up for.
///
/// A reader uses the header as a version (a seqlock): it acquires the header, reads, and looks whether the header is
/// the same. A writer that reuses a slot has a fence between its lock and its writes: a reader that sees a write then
/// finds the header changed.

#include <cstdint>
#include <type_traits>

#include "device/containers/map_memory.cuh"
#include "device/group/leader.cuh"

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
class hash_map_ref {
    using slots = device::map_slots<K, V, Shape::most_slots>;
    using header = device::map_header;
    using node = device::map_node;
    using words = typename slots::words;
    using order = simt::order;
    using fault = simt::mutation::fault;

public:
    using memory_type = device::map_memory<Shape, slots::node_bytes>;
    static constexpr std::uint32_t slots_per_bucket = slots::slots;

    hash_map_ref() = default;
    /// @param buckets_per_key  buckets for each key, in units of 2^-16: when to split
    hash_map_ref(const heap_ref& heap, hash_map_state* state, std::uint32_t buckets_per_key)
        : memory_{heap, state}, buckets_per_key_{buckets_per_key} {}

    /// Adds `key` with `value` if the map does not have the key; else changes nothing. Cost: one atomic, one line of
    /// memory and a release; an atomic for each group of lanes that return together; every seventh call or so, a split.
    ORCHARD_FN map_result insert(const K& key, const V& value = V{}) const {
        return put(key, value, [](const V& old) { return old; }, false);
    }
    /// Adds `key` with `value`, or gives the key that is there this value. Cost: as `insert`.
    ORCHARD_FN map_result insert_or_assign(const K& key, const V& value) const {
        return put(key, value, [&](const V&) { return value; }, true);
    }
    /// Adds `key` with `value`, or replaces the value `old` that is there by `change(old)`. `change` is called once at
    /// most if it has an effect; while it runs, the bucket is locked, so that it must be short and not wait for other
    /// threads. Cost: as `insert`.
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
        node* freed = nullptr;
        position at;
        const bool removed = remove(wanted, hash, at, freed);
        if (freed != nullptr) {
            memory_.put_block(list_of(at.bucket), freed);
        }
        const simt::lane_mask group = here();
        const simt::lane_mask with = simt::ballot(group, removed);
        if (with != 0 && device::is_leader(group)) {
            (void)state().keys.template fetch_sub<order::relaxed>(static_cast<std::uint64_t>(simt::popcount(with)));
        }
        return removed;
    }

    /// Returns the number of keys: of calls under way, some are counted and others not. Cost: one load.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t size() const { return state().keys.template load<order::relaxed>(); }

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
    /// A bucket as a lane has found it.
    struct position {
        std::uint64_t bucket = 0;
        std::uint64_t head = 0;  ///< its header
        node* n = nullptr;
    };

    [[nodiscard]] ORCHARD_INLINE hash_map_state& state() const { return memory_.state(); }
    [[nodiscard]] ORCHARD_INLINE static std::uint32_t list_of(std::uint64_t bucket) {
        return static_cast<std::uint32_t>(bucket);
    }
    /// Returns the lanes that are here with this map.
    [[nodiscard]] ORCHARD_INLINE simt::lane_mask here(simt::site where = simt::site::here()) const {
        const simt::lane_mask all = simt::converge(where);
        return simt::match(all, reinterpret_cast<std::uintptr_t>(&state()), where);
    }
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
        std::uint64_t ready = state().ready.template load<order::acquire>();
        const std::uint64_t made = state().buckets.template load<order::relaxed>();
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
    /// Returns whether a key found in one of the bucket's own slots is there, without another look at the header.
    ORCHARD_INLINE static bool is_certain(std::uint64_t head) { return slots::slot_words == 1 && !must_be_free(head); }

    /// What a lane has found in a bucket.
    struct finding {
        node* at = nullptr;  ///< the node with the key; null: none has it
        std::uint32_t slot = 0;
        node* first_block = nullptr;  ///< of the chain
        bool is_torn = false;         ///< the bucket has changed meanwhile
    };

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

    ORCHARD_FN bool look_up(const words& wanted, words& found) const {
        const std::uint64_t hash = slots::hash(wanted);
        for (;;) {
            const position at = locate(hash, !simt::mutation::is(fault::map_depth));
            if (!is_blocked(at.head)) {
                const finding f = look_in(at, wanted, hash, found);
                if ((f.at != nullptr && is_certain(at.head)) || simt::mutation::is(fault::map_version) ||
                    (!f.is_torn && is_unchanged(at))) {
                    return f.at != nullptr;
                }
            } else {
                simt::pause(100);
            }
        }
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

    /// Finds the bucket of a key and the key in it, for a change. Returns with the lock if the caller needs it: the
    /// bucket is then as `at` and the result say. The first attempt reads before it locks, so that a bucket is locked
    /// for a short time; later ones lock first, so that every attempt that gets the lock is the last.
    /// @param needs  whether a change needs the lock, depending on whether the key is there: `needs(finding)`
    template <class Needs>
    ORCHARD_FN finding look_and_lock(const words& wanted, std::uint64_t hash, position& at, words& found, bool& locked,
                                     Needs needs) const {
        for (bool reads_first = true;; reads_first = false) {
            at = locate(hash);
            locked = false;
            if ((at.head & header::locked) != 0) {
                simt::pause(100);
                continue;
            }
            if (!reads_first) {
                locked = lock(at);
                if (!locked) {
                    simt::pause(50);
                    continue;
                }
            }
            const finding f = look_in(at, wanted, hash, found);
            if (locked) {
                return f;
            }
            if (needs(f)) {
                locked = !f.is_torn && lock(at);
                if (locked) {
                    return f;
                }
            } else if ((f.at != nullptr && is_certain(at.head)) || (!f.is_torn && is_unchanged(at))) {
                return f;
            }
        }
    }

    /// Adds a key, or changes its value if `changes`.
    template <class Change>
    ORCHARD_FN map_result put(const K& key, const V& value, Change change, bool changes) const {
        const words wanted = slots::of(key, value);
        const std::uint64_t hash = slots::hash(wanted);
        node* spare = nullptr;
        map_result result = map_result::no_memory;
        position at;
        for (bool done = false; !done;) {
            words found{};
            bool locked = false;
            const auto lacks_room = [&](const position& p, const finding& f) {
                return f.at == nullptr && spare == nullptr && header::used(p.head) == slots::all_slots &&
                       (f.first_block == nullptr ||
                        header::used(f.first_block->header.template load<order::relaxed>()) == slots::all_slots);
            };
            const finding f = look_and_lock(wanted, hash, at, found, locked, [&](const finding& seen) {
                return seen.at != nullptr ? changes : !lacks_room(at, seen);
            });
            done = true;
            if (f.at == nullptr && (!locked || lacks_room(at, f))) {
                if (locked) {
                    unlock(at.n, at.head);
                }
                done = !make_room(at, spare);
            } else if (f.at == nullptr) {
                add(at, f, wanted, hash, spare);
                result = map_result::inserted;
            } else {
                if (locked && changes) {
                    if constexpr (slots::has_value) {
                        const words changed = slots::of(key, change(slots::value_of(found)));
                        if constexpr (slots::tears) {
                            simt::fence<simt::scope::device>();  // a reader that reads a part finds the lock
                        }
                        slots::store_value(*f.at, f.slot, changed);
                    }
                    unlock(at.n, at.head + header::one_version);
                } else if (locked) {
                    unlock(at.n, at.head);
                }
                result = map_result::present;
            }
        }
        if (spare != nullptr) {
            memory_.put_block(list_of(at.bucket), spare);
        }
        grow(result == map_result::inserted);
        return result;
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
            // Releases a new block to lanes that follow the chain.
            at.n->next.template store<order::release>(block->address());
            head |= header::chained;
        }
        unlock(at.n, header::next(head, used));
    }

    /// Makes room for a key in a full bucket, which is not locked: by the split that is due, or by an overflow block.
    /// Returns false without memory.
    ORCHARD_NOINLINE bool make_room(const position& at, node*& spare) const {
        const std::uint64_t child = at.bucket | std::uint64_t{1} << header::depth(at.head);
        if (child < state().buckets.template load<order::relaxed>() &&
            child < state().ready.template load<order::acquire>() && split(at, child)) {
            return true;
        }
        spare = memory_.take_block(list_of(at.bucket));
        return spare != nullptr;
    }

    /// Removes a key. Returns whether it was there. `freed` gets a block that the bucket does not need any more.
    ORCHARD_FN bool remove(const words& wanted, std::uint64_t hash, position& at, node*& freed) const {
        words found{};
        bool locked = false;
        const finding f = look_and_lock(wanted, hash, at, found, locked,
                                        [](const finding& seen) { return seen.at != nullptr; });
        if (f.at == nullptr) {
            if (locked) {
                unlock(at.n, at.head);
            }
            return false;
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

    /// Counts the new keys of the lanes that are here, and splits the buckets that are due for them.
    ORCHARD_FN void grow(bool is_new) const {
        const simt::lane_mask group = here();
        const simt::lane_mask with = simt::ballot(group, is_new);
        if (with == 0) {
            return;
        }
        std::uint64_t first = 0;
        std::uint32_t splits = 0;
        if (device::is_leader(group)) {
            splits = claim(static_cast<std::uint32_t>(simt::popcount(with)),
                           static_cast<std::uint32_t>(simt::popcount(group)), first);
        }
        splits = device::from_leader(group, splits);
        if (splits == 0) {
            return;
        }
        first = device::from_leader(group, first);
        const auto rank = static_cast<std::uint32_t>(simt::rank_in(group));
        if (rank < splits) {
            split_for(first + rank);
        }
    }
    /// Counts `added` keys. Returns how many buckets the caller is to make, at most `most`; `first` is the first one.
    ORCHARD_NOINLINE std::uint32_t claim(std::uint32_t added, std::uint32_t most, std::uint64_t& first) const {
        const std::uint64_t before = state().keys.template fetch_add<order::relaxed>(std::uint64_t{added});
        const std::uint64_t target = (before + added) * buckets_per_key_ >> 16;
        const std::uint64_t due = target - (before * buckets_per_key_ >> 16);
        const std::uint64_t all = state().buckets.template load<order::relaxed>();
        if (due == 0 || target <= all) {
            return 0;
        }
        // Twice as many as these keys need, to make up for those that were left out; as many as can be if many were.
        std::uint64_t splits = target - all;
        const std::uint64_t share = splits > all / 8 ? most : 2 * due;
        splits = splits < share ? splits : share;
        splits = splits < most ? splits : most;
        const std::uint64_t ready = memory_.prepare(all + splits);
        if (ready <= all) {
            return 0;
        }
        splits = splits < ready - all ? splits : ready - all;
        first = state().buckets.template fetch_add<order::relaxed>(splits);
        return static_cast<std::uint32_t>(splits);
    }

    /// Makes bucket `b`, unless it cannot be made now: it has no memory yet, or locks are taken again and again. The
    /// splits that come before it are made first if they are missing.
    ORCHARD_NOINLINE void split_for(std::uint64_t b) const {
        constexpr int most_attempts = 32;
        if (b >= state().ready.template load<order::acquire>()) {
            return;
        }
        for (int i = 0; i < most_attempts; ++i) {
            position at;
            at.bucket = b;
            at.n = memory_.bucket(b);
            at.head = at.n->header.template load<order::acquire>();
            if (header::depth(at.head) != 0) {
                return;
            }
            while (header::depth(at.head) == 0) {
                at.bucket = parent_of(at.bucket);
                at.n = memory_.bucket(at.bucket);
                at.head = at.n->header.template load<order::acquire>();
            }
            // Beyond `b` if another lane has made `b` meanwhile.
            const std::uint64_t child = at.bucket | std::uint64_t{1} << header::depth(at.head);
            if (child <= b && !split(at, child)) {
                simt::pause(100);
            }
        }
    }

    /// Splits the bucket `at`, if it is as it was read: moves half of its keys to bucket `child`, which is ready.
    /// Returns whether it did.
    ORCHARD_NOINLINE bool split(const position& at, std::uint64_t child) const {
        node* spares[2] = {nullptr, nullptr};
        bool done = (at.head & header::locked) == 0;
        if (done && needs_spares(at)) {
            spares[0] = memory_.take_spare(list_of(child));
            spares[1] = spares[0] != nullptr ? memory_.take_spare(list_of(child)) : nullptr;
            done = spares[1] != nullptr;
        }
        done = done && lock_to_split(at);
        if (done && (at.head & header::chained) == 0) {
            divide(at, memory_.bucket(child));
        } else if (done) {
            divider(at, memory_.bucket(child), spares).run();
        }
        // The blocks that were not needed, chained by their `next`.
        for (node* const begin : spares) {
            for (node* n = begin; n != nullptr;) {
                const std::uint64_t next = done ? n->next.template load<order::relaxed>() : 0;
                memory_.put_block(list_of(child), n);
                n = next != 0 ? node::at(next) : nullptr;
            }
        }
        return done;
    }
    ORCHARD_INLINE static bool lock_to_split(const position& at) {
        std::uint64_t expected = at.head;
        if (simt::mutation::is(fault::map_split)) {
            const std::uint64_t now = at.n->header.template load<order::relaxed>() & ~header::locked;
            expected = header::depth(now) == header::depth(at.head) ? now : expected;
        }
        return at.n->header.template compare_exchange<order::acquire>(expected, expected | header::locked);
    }
    /// Returns whether the keys of a bucket with a chain may need blocks before the blocks that they are in are free.
    ORCHARD_FN static bool needs_spares(const position& at) {
        if ((at.head & header::chained) == 0) {
            return false;
        }
        const std::uint64_t address = at.n->next.template load<order::acquire>();
        if (address == 0) {
            return false;  // the bucket has changed; its lock cannot be taken
        }
        node* const block = node::at(address);
        if (block->next.template load<order::relaxed>() != 0) {
            return true;
        }
        const std::uint32_t bit = header::depth(at.head);
        std::uint32_t moving = 0;
        std::uint32_t staying = 0;
        for (int i = 0; i < 2; ++i) {
            node* const n = i == 0 ? at.n : block;
            std::uint32_t used = header::used(i == 0 ? at.head : n->header.template load<order::relaxed>());
            for (; used != 0; used &= used - 1) {
                const words all = slots::load(*n, static_cast<std::uint32_t>(simt::lowest_bit(used)));
                (slots::hash(all) >> bit & 1) != 0 ? ++moving : ++staying;
            }
        }
        return moving > slots::slots || staying > slots::slots;
    }

    /// Moves keys from a locked bucket without a chain to `to`, each into the slot of the same number.
    ORCHARD_FN static void divide(const position& at, node* to) {
        const std::uint32_t bit = header::depth(at.head);
        std::uint32_t moved = 0;
        for (std::uint32_t used = header::used(at.head); used != 0; used &= used - 1) {
            const auto slot = static_cast<std::uint32_t>(simt::lowest_bit(used));
            const words all = slots::load(*at.n, slot);
            if ((slots::hash(all) >> bit & 1) != 0) {
                slots::store(*to, slot, all);
                moved |= 1u << slot;
            }
        }
        finish(at, header::used(at.head) & ~moved, 0, to, moved, 0);
    }
    /// Publishes the new bucket, then the old one, without the lock.
    ORCHARD_FN static void finish(const position& at, std::uint32_t staying, std::uint64_t chain, node* to,
                                  std::uint32_t moved, std::uint64_t chain_of_new) {
        const std::uint32_t depth = header::depth(at.head) + 1;
        to->next.template store<order::relaxed>(chain_of_new);
        to->header.template store<order::release>(header::make(depth, moved) |
                                                  (chain_of_new != 0 ? header::chained : 0));
        if ((at.head & header::chained) != 0) {
            at.n->next.template store<order::release>(chain);
        }
        constexpr std::uint64_t flags = header::chained | header::reused;
        const std::uint64_t head = (at.head & ~flags) + (std::uint64_t{1} << header::depth_shift);
        const bool reused = (at.head & flags) != 0 || staying != header::used(at.head);
        unlock(at.n, header::next(head, staying) | (reused ? header::reused : 0) | (chain != 0 ? header::chained : 0));
    }

    /// The split of a locked bucket with a chain: its keys go, one after the other, to the nodes of the old and of the
    /// new bucket. A block that has been emptied is a spare one for the keys that follow. With two spare blocks at the
    /// beginning there always is one: each bucket begins one block at most for the keys of a block.
    struct divider {
        const position& at;
        node* const to;
        node* (&spares)[2];

        /// A bucket that gets keys.
        struct side {
            node* n = nullptr;
            std::uint32_t used = 0;
            node* block = nullptr;  ///< the first one of its chain
            std::uint32_t there = 0;
        };
        side sides[2] = {};

        ORCHARD_FN divider(const position& from, node* child, node* (&blocks)[2])
            : at{from}, to{child}, spares{blocks} {}

        ORCHARD_FN void run() {
            simt::fence<simt::scope::device>();  // as in `remove`
            if (spares[0] != nullptr) {
                spares[0]->next.template store<order::relaxed>(0);
                spares[1]->next.template store<order::relaxed>(spares[0]->address());
            }
            spares[0] = nullptr;  // one list of spares from here on
            const std::uint32_t bit = header::depth(at.head);
            sides[0].n = at.n;
            sides[1].n = to;
            sides[0].used = header::used(at.head);
            for (std::uint32_t used = header::used(at.head); used != 0; used &= used - 1) {
                const auto slot = static_cast<std::uint32_t>(simt::lowest_bit(used));
                const words all = slots::load(*at.n, slot);
                if ((slots::hash(all) >> bit & 1) != 0) {
                    slots::store(*to, slot, all);
                    sides[0].used &= ~(1u << slot);
                    sides[1].used |= 1u << slot;
                }
            }
            for (std::uint64_t address = at.n->next.template load<order::relaxed>(); address != 0;) {
                node* const block = node::at(address);
                address = block->next.template load<order::relaxed>();
                std::uint32_t used = header::used(block->header.template load<order::relaxed>());
                for (; used != 0; used &= used - 1) {
                    const words all = slots::load(*block, static_cast<std::uint32_t>(simt::lowest_bit(used)));
                    const std::uint64_t hash = slots::hash(all);
                    give(sides[hash >> bit & 1], all, hash);
                }
                block->next.template store<order::relaxed>(spares[1] != nullptr ? spares[1]->address() : 0);
                spares[1] = block;
            }
            finish(at, sides[0].used, chain_of(sides[0]), to, sides[1].used, chain_of(sides[1]));
        }
        ORCHARD_FN static std::uint64_t chain_of(const side& s) { return s.block != nullptr ? s.block->address() : 0; }
        ORCHARD_FN void give(side& s, const words& all, std::uint64_t hash) {
            if (s.used != slots::all_slots) {
                const std::uint32_t slot = slots::free_slot(s.used, hash);
                slots::store(*s.n, slot, all);
                s.used |= 1u << slot;
                return;
            }
            if (s.block == nullptr || s.there == slots::all_slots) {
                node* const fresh = spares[1];
                const std::uint64_t rest = fresh->next.template load<order::relaxed>();
                spares[1] = rest != 0 ? node::at(rest) : nullptr;
                fresh->next.template store<order::relaxed>(chain_of(s));
                s.block = fresh;
                s.there = 0;
            }
            const std::uint32_t slot = slots::free_slot(s.there, hash);
            slots::store(*s.block, slot, all);
            s.there |= 1u << slot;
            s.block->header.template store<order::relaxed>(header::make(0, s.there));
        }
    };

    memory_type memory_;
    std::uint32_t buckets_per_key_ = 0;
};

/// The view of a `hash_set` in kernels: a map of keys without values. All that `hash_map_ref` says holds.
template <class K>
class hash_set_ref {
public:
    using map_type = hash_map_ref<K, no_value>;

    hash_set_ref() = default;
    explicit hash_set_ref(const map_type& map) : map_{map} {}

    /// Adds `key` if the set does not have it.
    ORCHARD_FN map_result insert(const K& key) const { return map_.insert(key); }
    /// Returns whether the set has `key`.
    [[nodiscard]] ORCHARD_FN bool contains(const K& key) const { return map_.contains(key); }
    /// Removes `key`. Returns whether the set had it.
    ORCHARD_FN bool erase(const K& key) const { return map_.erase(key); }
    /// Returns the number of keys.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t size() const { return map_.size(); }
    /// Calls `visit(key)` for each key in the buckets of this thread, as `hash_map_ref::for_each`.
    template <class Visit>
    ORCHARD_FN void for_each(std::uint64_t thread, std::uint64_t threads, Visit visit) const {
        map_.for_each(thread, threads, [&](const K& key, const no_value&) { visit(key); });
    }
    [[nodiscard]] ORCHARD_INLINE const map_type& map() const { return map_; }

private:
    map_type map_;
};

}  // namespace orchard
