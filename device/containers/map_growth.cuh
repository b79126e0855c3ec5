// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Growth of a hash map: splits of buckets (hash_map.cuh describes the whole).

#include <cstdint>

#include "device/containers/map_buckets.cuh"
#include "device/group/leader.cuh"

namespace orchard::device {

/// The buckets of a map, for lanes that add keys.
template <class K, class V, class Shape>
class map_growth : protected map_buckets<K, V, Shape> {
protected:
    using base = map_buckets<K, V, Shape>;
    using base::memory_;
    using base::parent_of;
    using base::state;
    using base::unlock;
    using typename base::fault;
    using typename base::header;
    using typename base::node;
    using typename base::order;
    using typename base::position;
    using typename base::slots;
    using typename base::words;

    map_growth() = default;
    map_growth(const typename base::memory_type& memory, std::uint32_t buckets_per_key)
        : base{memory}, buckets_per_key_{buckets_per_key} {}

    /// Returns the lanes that are here with this map.
    [[nodiscard]] ORCHARD_INLINE simt::lane_mask here(simt::site where = simt::site::here()) const {
        const simt::lane_mask all = simt::converge(where);
        return simt::match(all, reinterpret_cast<std::uintptr_t>(&state()), where);
    }

    /// Counts the keys that the lanes here are about to add, and makes the buckets that are due for them.
    ///
    /// Growth comes before the keys: a bucket then never gets many more keys than its share, however many threads add
    /// keys at once. Each group makes the buckets of its own keys, and no two groups make the same.
    /// @param spare  gets an overflow block that a split of this lane has freed, if it is null
    ORCHARD_FN void grow(simt::lane_mask group, node*& spare) const {
        std::uint64_t first = 0;
        std::uint32_t count = 0;
        bool lacks = false;
        if (device::is_leader(group)) {
            const auto added = static_cast<std::uint64_t>(simt::popcount(group));
            // Most groups read the number of buckets before those that are ahead of them have changed it. So it only
            // says whether the map has had more keys before, and enough buckets for these.
            const std::uint64_t all = state().buckets.template load<order::relaxed>();
            const std::uint64_t before = state().keys.template fetch_add<order::relaxed>(added);
            const std::uint64_t target = (before + added) * buckets_per_key_ >> 16;
            const std::uint64_t due = target - (before * buckets_per_key_ >> 16);
            if (due != 0 && target > all && before >> 63 == 0) {
                count = static_cast<std::uint32_t>(due < target - all ? due : target - all);
                first = state().buckets.template fetch_add<order::relaxed>(std::uint64_t{count});
                lacks = memory_.lacks(first + count);
            }
        }
        count = device::from_leader(group, count);
        if (count != 0) {
            first = device::from_leader(group, first);
            if (simt::ballot(group, lacks) != 0) {
                wait_for_memory(memory_, group, first + count);
            }
            spare = make_buckets(*this, group, first, count, spare);
        }
    }
    /// Takes keys out of the count that the lanes of `those`, a part of the caller's group, have erased, or have
    /// counted and not added. No collective.
    ORCHARD_FN void count_down(simt::lane_mask those) const {
        if (those != 0 && device::is_leader(those)) {
            (void)state().keys.template fetch_sub<order::relaxed>(static_cast<std::uint64_t>(simt::popcount(those)));
        }
    }

    /// Returns when buckets up to `end` have memory, or the heap has none for them. It is a function of its own because
    /// functions below `malloc` need registers, as do those that split: a caller of both would hold more than either.
    ORCHARD_NOINLINE static void wait_for_memory(typename base::memory_type memory, simt::lane_mask group,
                                                 std::uint64_t end) {
        for (std::uint32_t attempt = 0;; ++attempt) {
            memory.ask(group, end);
            const bool waits = device::is_leader(group) && memory.is_coming(end);
            if (simt::ballot(group, waits) == 0) {
                return;
            }
            base::back_off(attempt);
        }
    }
    /// Makes the buckets from `first` on, `count` of them. Those that have no memory are left out; inserts into full
    /// buckets make them later. Returns `spare`, or a block that was freed if it is null.
    ORCHARD_NOINLINE static node* make_buckets(map_growth m, simt::lane_mask group, std::uint64_t first,
                                               std::uint32_t count, node* spare) {
        const auto lanes = static_cast<std::uint32_t>(simt::popcount(group));
        for (std::uint32_t begin = 0; begin < count; begin += lanes) {
            const auto i = begin + static_cast<std::uint32_t>(simt::rank_in(group));
            m.make_one_each(group, first + i, i < count, spare);
        }
        return spare;
    }
    /// Makes bucket `b` of each lane that `wants` one, if it has memory, all lanes of the group together. The buckets
    /// that it comes from are made first if they are missing.
    ORCHARD_FN void make_one_each(simt::lane_mask group, std::uint64_t b, bool wants, node*& spare) const {
        wants = wants && b < state().ready.template load<order::acquire>();
        for (std::uint32_t attempt = 0; simt::ballot(group, wants) != 0;) {
            position at;
            const bool locks = wants && lock_parent(b, at, wants);
            const simt::lane_mask locked = simt::ballot(group, locks);
            if (locked == 0) {
                base::back_off(attempt++);
                continue;
            }
            const std::uint64_t child = locks ? child_of(at) : 0;
            const split_result split = split_together(*this, group, locked, at, child);
            if (locks) {
                wants = split.done ? child != b : memory_.stock(child);
            }
            if (split.freed != nullptr && spare != nullptr) {
                memory_.put_block(child, split.freed);
            } else if (split.freed != nullptr) {
                spare = split.freed;
            }
        }
    }
    /// Locks the bucket that is split next on the way to bucket `b`. Returns false without a lock if another lane has
    /// it; `wants` becomes false if `b` is there.
    ORCHARD_FN bool lock_parent(std::uint64_t b, position& at, bool& wants) const {
        at = bucket_at(parent_of(b));
        while (header::depth(at.head) == 0) {
            at = bucket_at(parent_of(at.bucket));
        }
        wants = child_of(at) <= b;
        const std::uint64_t seen = at.head;
        if (!wants || !base::lock_any(at)) {
            return false;
        }
        if (simt::mutation::is(fault::map_split) && ((seen ^ at.head) & header::chained) == 0 &&
            header::depth(seen) == header::depth(at.head)) {
            at.head = seen;
        }
        if (child_of(at) > b) {
            wants = false;
            unlock(at.n, at.head);  // another lane has made `b` meanwhile
        }
        return wants;
    }
    [[nodiscard]] ORCHARD_FN position bucket_at(std::uint64_t b) const {
        position at;
        at.bucket = b;
        at.n = memory_.bucket(b);
        at.head = at.n->header.template load<order::acquire>();
        return at;
    }
    /// Returns the bucket that the next split of a bucket makes.
    ORCHARD_INLINE static std::uint64_t child_of(const position& at) {
        return at.bucket | std::uint64_t{1} << header::depth(at.head);
    }

    struct split_result {
        node* freed = nullptr;  ///< an overflow block that the caller's bucket does not need any more
        bool done = false;      ///< the caller's own bucket was split
    };
    /// Splits a bucket of each lane in `locked`, which has locked it: moves half of its keys to bucket `child`, which
    /// is ready, and unlocks it. All lanes of the group call it, and split the buckets one after the other. If the
    /// caller's own was not split, the free list has too few blocks (`map_memory::stock`), and the bucket is as it was,
    /// without the lock. It does not ask the heap: a lane that has a lock does not wait for the host.
    ///
    /// A bucket and its block, if it has one, are read at once, a slot by each lane: that takes one trip to memory. A
    /// lane alone would make one for every slot or two, and hold the lock meanwhile. Buckets with longer chains are
    /// rare; the lane that has locked one splits it by itself.
    ORCHARD_NOINLINE static split_result split_together(map_growth m, simt::lane_mask group, simt::lane_mask locked,
                                                        position at, std::uint64_t child) {
        return simt::by_mask(group, [&](simt::lane_mask mask) { return m.split_by(mask, locked, at, child); });
    }
    [[nodiscard]] ORCHARD_FN split_result split_by(simt::lane_mask group, simt::lane_mask locked, const position& at,
                                                   std::uint64_t child) const {
        const bool is_mine = (locked >> simt::lane_id() & 1) != 0;
        node* const to = is_mine ? memory_.bucket(child) : nullptr;
        node* block = nullptr;
        std::uint32_t there = 0;
        bool is_long = false;
        if (is_mine && (at.head & header::chained) != 0) {
            block = node::at(at.n->next.template load<order::relaxed>());
        }
        if (block != nullptr) {
            there = header::used(block->header.template load<order::relaxed>());
            is_long = block->next.template load<order::relaxed>() != 0;
        }
        if (!simt::mutation::is(fault::map_together)) {
            simt::sync(group);  // all lanes see what the owners of the locks have acquired
        }
        if (simt::ballot(group, block != nullptr && !is_long) != 0) {
            // As in `remove`: slots of the bucket get keys of the block. One fence of each lane serves all its writes.
            simt::fence<simt::scope::device>();
        }
        halves mine;
        for (simt::lane_mask left = simt::ballot(group, is_mine && !is_long); left != 0; left &= left - 1) {
            const int owner = simt::lowest_bit(left);
            pair_of_nodes both;
            both.bucket = node::at(simt::shuffle(group, is_mine ? at.n->address() : std::uint64_t{0}, owner));
            both.block = node::at(simt::shuffle(group, reinterpret_cast<std::uint64_t>(block), owner));
            both.used = simt::shuffle(group, is_mine ? header::used(at.head) | there << slots::slots : 0u, owner);
            node* const target = node::at(simt::shuffle(group, reinterpret_cast<std::uint64_t>(to), owner));
            const std::uint32_t bit = simt::shuffle(group, header::depth(at.head), owner);
            const halves found = divide(group, both, bit, target);
            if (simt::lane_id() == owner) {
                mine = found;
            }
        }
        simt::sync(group);  // all lanes have written their keys
        split_result result;
        if (!is_mine) {
            return result;
        }
        if (is_long) {
            result.done = split_long(*this, at, child);
            return result;
        }
        std::uint64_t chain = 0;
        std::uint64_t chain_of_new = 0;
        if (block != nullptr && (mine.kept | mine.kept_of_new) != 0) {
            (mine.kept != 0 ? chain : chain_of_new) = block->address();
            block->header.template store<order::relaxed>(header::make(0, mine.kept | mine.kept_of_new));
        }
        finish(at, mine.staying, chain, to, mine.moved, chain_of_new);
        result.freed = (mine.kept | mine.kept_of_new) == 0 ? block : nullptr;
        result.done = true;
        return result;
    }

    /// A bucket with its only block, or none, as the lanes of a group read them.
    struct pair_of_nodes {
        node* bucket;
        node* block;
        std::uint32_t used;  ///< slots with keys: of the bucket, and from bit `slots` on of the block
    };
    /// The slots with keys after a split: of the bucket, of the new bucket, and of the block, which stays with the
    /// bucket (`kept`) or goes to the new one. It never has keys of both: one of them would need all slots of its own
    /// then, and the block's keys are fewer than those of two buckets.
    struct halves {
        std::uint32_t staying = 0;
        std::uint32_t moved = 0;
        std::uint32_t kept = 0;
        std::uint32_t kept_of_new = 0;
    };
    /// Writes the keys of a locked bucket, half of them to the new bucket `to`, and returns where they are. Keys of the
    /// bucket keep the number of their slot; those of the block fill the slots that are free then, and stay in the
    /// block if there are none. All lanes of the group.
    /// @param bit  of the hash, which is 1 for keys that move
    ORCHARD_FN static halves divide(simt::lane_mask group, const pair_of_nodes& from, std::uint32_t bit, node* to) {
        static_assert(2 * slots::slots <= 32);
        const auto rank = static_cast<std::uint32_t>(simt::rank_in(group));
        const auto lanes = static_cast<std::uint32_t>(simt::popcount(group));
        const std::uint32_t end = from.block != nullptr ? 2 * slots::slots : slots::slots;
        const auto load = [&](std::uint32_t p) {
            return p < slots::slots ? slots::load(*from.bucket, p) : slots::load(*from.block, p - slots::slots);
        };
        std::uint32_t moving = 0;
        words all{};
        for (std::uint32_t p = rank; p < end; p += lanes) {
            if ((from.used >> p & 1) != 0) {
                all = load(p);
                moving |= static_cast<std::uint32_t>(slots::hash(all) >> bit & 1) << p;
            }
        }
        moving = simt::reduce_or(group, moving);
        halves now;
        now.staying = from.used & ~moving & slots::all_slots;
        now.moved = from.used & moving & slots::all_slots;
        const std::uint32_t staying_of_block = (from.used & ~moving) >> slots::slots;
        const std::uint32_t moving_of_block = (from.used & moving) >> slots::slots;
        const std::uint32_t free = slots::all_slots & ~now.staying;
        const std::uint32_t free_of_new = slots::all_slots & ~now.moved;
        for (std::uint32_t p = rank; p < slots::slots; p += lanes) {
            if ((now.moved >> p & 1) != 0) {
                if (lanes < end) {
                    all = load(p);
                }
                slots::store(*to, p, all);
            }
        }
        if (lanes < end || from.block != nullptr) {
            simt::sync(group);  // the keys above are read before others get their slots
        }
        for (std::uint32_t p = rank; p < end; p += lanes) {
            if (p < slots::slots || (from.used >> p & 1) == 0) {
                continue;
            }
            const bool moves = (moving >> p & 1) != 0;
            const std::uint32_t before =
                (moves ? moving_of_block : staying_of_block) & ((1u << (p - slots::slots)) - 1);
            const std::uint32_t slot = nth_bit(moves ? free_of_new : free, simt::popcount(before));
            if (slot < slots::slots) {
                if (lanes < end) {
                    all = load(p);
                }
                slots::store(moves ? *to : *from.bucket, slot, all);
            }
        }
        now.kept = without_first(staying_of_block, simt::popcount(free));
        now.kept_of_new = without_first(moving_of_block, simt::popcount(free_of_new));
        now.staying |= first_bits(free, simt::popcount(staying_of_block));
        now.moved |= first_bits(free_of_new, simt::popcount(moving_of_block));
        return now;
    }
    /// Returns `set` without its `count` lowest bits, and these bits; all of them if it has no more.
    ORCHARD_FN static std::uint32_t without_first(std::uint32_t set, int count) {
        const std::uint32_t first = nth_bit(set, count);
        return first < 32 ? set >> first << first : 0;
    }
    ORCHARD_FN static std::uint32_t first_bits(std::uint32_t set, int count) {
        return set & ~without_first(set, count);
    }
    /// Returns the number of the bit of `set` that has `n` bits below it; 32 if there is none.
    ORCHARD_FN static std::uint32_t nth_bit(std::uint32_t set, int n) {
        static_assert(slots::slots <= 16);
        if (n >= simt::popcount(set)) {
            return 32;
        }
        std::uint32_t at = 0;
        ORCHARD_UNROLL
        for (std::uint32_t half = 8; half != 0; half /= 2) {
            const int below = simt::popcount(set >> at & ((1u << half) - 1));
            if (n >= below) {
                n -= below;
                at += half;
            }
        }
        return at;
    }

    /// Splits a locked bucket with a chain of several blocks; see `split_together`.
    ORCHARD_NOINLINE static bool split_long(map_growth m, position at, std::uint64_t child) {
        node* spares[2] = {nullptr, nullptr};
        bool done = true;
        if (needs_spares(at)) {
            spares[0] = m.memory_.take_free(child);
            spares[1] = spares[0] != nullptr ? m.memory_.take_free(child) : nullptr;
            done = spares[1] != nullptr;
        }
        if (done) {
            divider(at, m.memory_.bucket(child), spares).run();
        } else {
            unlock(at.n, at.head);
        }
        // The blocks that were not needed, chained by their `next`.
        for (node* const begin : spares) {
            for (node* n = begin; n != nullptr;) {
                const std::uint64_t next = done ? n->next.template load<order::relaxed>() : 0;
                m.memory_.put_block(child, n);
                n = next != 0 ? node::at(next) : nullptr;
            }
        }
        return done;
    }
    /// Returns whether the keys of a locked bucket with a chain may need blocks before the blocks that they are in are
    /// free. They do not if each half fits in a bucket.
    ORCHARD_FN static bool needs_spares(const position& at) {
        const std::uint32_t bit = header::depth(at.head);
        std::uint32_t moving = 0;
        std::uint32_t staying = 0;
        std::uint32_t used = header::used(at.head);
        for (node* n = at.n;;) {
            for (; used != 0; used &= used - 1) {
                const words all = slots::load(*n, static_cast<std::uint32_t>(simt::lowest_bit(used)));
                (slots::hash(all) >> bit & 1) != 0 ? ++moving : ++staying;
            }
            const std::uint64_t next = n->next.template load<order::relaxed>();
            if (next == 0) {
                return moving > slots::slots || staying > slots::slots;
            }
            n = node::at(next);
            used = header::used(n->header.template load<order::relaxed>());
        }
    }

    /// Publishes the new bucket, then the old one, without the lock.
    ORCHARD_FN static void finish(const position& at, std::uint32_t staying, std::uint64_t chain, node* to,
                                  std::uint32_t moved, std::uint64_t chain_of_new) {
        const std::uint32_t depth = header::depth(at.head) + 1;
        to->next.template store<order::relaxed>(chain_of_new);
        // Releases the keys to lanes that acquire the header, or the chain; `unlock` then releases both.
        simt::fence<simt::scope::device>();
        to->header.template store<order::relaxed>(header::make(depth, moved) |
                                                  (chain_of_new != 0 ? header::chained : 0));
        if ((at.head & header::chained) != 0) {
            at.n->next.template store<order::relaxed>(chain);
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

    std::uint32_t buckets_per_key_ = 0;
};

}  // namespace orchard::device
