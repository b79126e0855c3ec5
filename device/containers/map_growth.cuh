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
    ORCHARD_FN void grow() const {
        const simt::lane_mask group = here();
        std::uint64_t first = 0;
        std::uint32_t count = 0;
        if (device::is_leader(group)) {
            const auto added = static_cast<std::uint64_t>(simt::popcount(group));
            const std::uint64_t before = state().keys.template fetch_add<order::relaxed>(added);
            const std::uint64_t target = (before + added) * buckets_per_key_ >> 16;
            const std::uint64_t due = target - (before * buckets_per_key_ >> 16);
            // Most groups read the number of buckets before those that are ahead of them have changed it. So it only
            // says whether the map has had more keys before, and enough buckets for these.
            const std::uint64_t all = due != 0 ? state().buckets.template load<order::relaxed>() : std::uint64_t{0};
            if (due != 0 && target > all && before >> 63 == 0) {
                count = static_cast<std::uint32_t>(due < target - all ? due : target - all);
                first = state().buckets.template fetch_add<order::relaxed>(std::uint64_t{count});
            }
        }
        count = device::from_leader(group, count);
        if (count != 0) {
            first = device::from_leader(group, first);
            wait_for_memory(memory_, group, first + count);
            make_buckets(*this, group, first, count);
        }
    }
    /// Takes keys out of the count that the lanes here have erased, or have counted and not added.
    ORCHARD_FN void count_down() const {
        const simt::lane_mask group = here();
        if (device::is_leader(group)) {
            (void)state().keys.template fetch_sub<order::relaxed>(static_cast<std::uint64_t>(simt::popcount(group)));
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
    /// buckets make them later.
    ORCHARD_NOINLINE static void make_buckets(map_growth m, simt::lane_mask group, std::uint64_t first,
                                              std::uint32_t count) {
        const auto lanes = static_cast<std::uint32_t>(simt::popcount(group));
        for (auto i = static_cast<std::uint32_t>(simt::rank_in(group)); i < count; i += lanes) {
            m.make_bucket(first + i);
        }
    }
    /// Makes bucket `b`, if it has memory. The buckets that it comes from are made first if they are missing.
    ORCHARD_FN void make_bucket(std::uint64_t b) const {
        if (b >= state().ready.template load<order::acquire>()) {
            return;
        }
        for (std::uint32_t attempt = 0;;) {
            position at = bucket_at(parent_of(b));
            while (header::depth(at.head) == 0) {
                at = bucket_at(parent_of(at.bucket));
            }
            if (child_of(at) > b) {
                return;  // it is there
            }
            const std::uint64_t seen = at.head;
            if (!base::lock_any(at)) {
                base::back_off(attempt++);
                continue;
            }
            if (simt::mutation::is(fault::map_split) && ((seen ^ at.head) & header::chained) == 0 &&
                header::depth(seen) == header::depth(at.head)) {
                at.head = seen;
            }
            const std::uint64_t child = child_of(at);
            if (child > b) {
                unlock(at.n, at.head);  // another lane has made `b` meanwhile
                return;
            }
            if (!split(at, child) && !memory_.stock(child)) {
                return;
            }
        }
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

    /// Splits a locked bucket: moves half of its keys to bucket `child`, which is ready. Unlocks the bucket. Returns
    /// false, with the bucket as it was, if the free list has too few blocks (`map_memory::stock`). It does not ask the
    /// heap: a lane that has a lock waits for nothing, and functions below `malloc` need registers, which every caller
    /// of a split would hold.
    [[nodiscard]] ORCHARD_INLINE bool split(const position& at, std::uint64_t child) const {
        return split_by(*this, at, child);
    }
    ORCHARD_NOINLINE static bool split_by(map_growth m, position at, std::uint64_t child) {
        if ((at.head & header::chained) == 0) {
            divide(at, m.memory_.bucket(child));
            return true;
        }
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

    /// Moves keys from a locked bucket without a chain to `to`, each into the slot of the same number. It loads four
    /// slots before it looks at them, so that these loads overlap.
    ORCHARD_FN static void divide(const position& at, node* to) {
        constexpr std::uint32_t at_once = slots::slot_words <= 2 ? 4 : 1;
        const std::uint32_t bit = header::depth(at.head);
        const std::uint32_t used = header::used(at.head);
        std::uint32_t moved = 0;
        for (std::uint32_t begin = 0; begin < slots::slots; begin += at_once) {
            words all[at_once];
            ORCHARD_UNROLL
            for (std::uint32_t i = 0; i < at_once; ++i) {
                if ((used >> (begin + i) & 1) != 0) {
                    all[i] = slots::load(*at.n, begin + i);
                }
            }
            ORCHARD_UNROLL
            for (std::uint32_t i = 0; i < at_once; ++i) {
                if ((used >> (begin + i) & 1) != 0 && (slots::hash(all[i]) >> bit & 1) != 0) {
                    slots::store(*to, begin + i, all[i]);
                    moved |= 1u << (begin + i);
                }
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

    std::uint32_t buckets_per_key_ = 0;
};

}  // namespace orchard::device
