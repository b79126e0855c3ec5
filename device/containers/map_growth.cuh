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

    [[nodiscard]] ORCHARD_INLINE static std::uint32_t list_of(std::uint64_t bucket) {
        return static_cast<std::uint32_t>(bucket);
    }
    /// Returns the lanes that are here with this map.
    [[nodiscard]] ORCHARD_INLINE simt::lane_mask here(simt::site where = simt::site::here()) const {
        const simt::lane_mask all = simt::converge(where);
        return simt::match(all, reinterpret_cast<std::uintptr_t>(&state()), where);
    }

    /// Counts the new keys of the lanes that are here, and splits the buckets that are due for them.
    ORCHARD_FN void grow(bool is_new) const {
        const simt::lane_mask group = here();
        const simt::lane_mask with = simt::ballot(group, is_new);
        if (with == 0) {
            return;
        }
        due_splits mine;
        if (device::is_leader(group)) {
            const auto added = static_cast<std::uint64_t>(simt::popcount(with));
            const std::uint64_t before = state().keys.template fetch_add<order::relaxed>(added);
            const std::uint64_t target = (before + added) * buckets_per_key_ >> 16;
            const std::uint64_t due = target - (before >> 63 == 0 ? before * buckets_per_key_ >> 16 : 0);
            const std::uint64_t all = state().buckets.template load<order::relaxed>();
            // A key may be erased before it is counted, so that the count is less than 0 for a moment.
            if (due != 0 && target > all && (before + added) >> 63 == 0) {
                mine = claim(*this, target - all, due, static_cast<std::uint32_t>(simt::popcount(group)));
            }
        }
        const std::uint32_t count = device::from_leader(group, mine.count);
        if (count == 0) {
            return;
        }
        const std::uint64_t first = device::from_leader(group, mine.first);
        const auto rank = static_cast<std::uint32_t>(simt::rank_in(group));
        if (rank < count) {
            split_for(*this, first + rank);
        }
    }
    /// Buckets that a group makes.
    struct due_splits {
        std::uint64_t first = 0;
        std::uint32_t count = 0;
    };
    /// Returns the buckets that the caller is to make, at most `most`.
    /// @param lacking  buckets that are due and not there
    /// @param due      those of them that the caller's keys make due
    ORCHARD_NOINLINE static due_splits claim(map_growth m, std::uint64_t lacking, std::uint64_t due,
                                             std::uint32_t most) {
        const std::uint64_t all = m.state().buckets.template load<order::relaxed>();
        // Twice as many as these keys need, to make up for those that were left out; as many as can be if many were.
        std::uint64_t splits = lacking > all / 8 ? most : 2 * due;
        splits = splits < lacking ? splits : lacking;
        splits = splits < most ? splits : most;
        const std::uint64_t ready = m.memory_.prepare(all + splits);
        if (ready <= all) {
            return {};
        }
        splits = splits < ready - all ? splits : ready - all;
        due_splits mine;
        mine.first = m.state().buckets.template fetch_add<order::relaxed>(splits);
        mine.count = static_cast<std::uint32_t>(splits);
        return mine;
    }

    /// Makes bucket `b`, unless it cannot be made now: it has no memory yet, or locks are taken again and again. The
    /// splits that come before it are made first if they are missing.
    ORCHARD_NOINLINE static void split_for(map_growth m, std::uint64_t b) {
        constexpr int most_attempts = 32;
        if (b >= m.state().ready.template load<order::acquire>()) {
            return;
        }
        for (int i = 0; i < most_attempts; ++i) {
            position at;
            at.bucket = b;
            at.n = m.memory_.bucket(b);
            at.head = at.n->header.template load<order::acquire>();
            if (header::depth(at.head) != 0) {
                return;
            }
            while (header::depth(at.head) == 0) {
                at.bucket = parent_of(at.bucket);
                at.n = m.memory_.bucket(at.bucket);
                at.head = at.n->header.template load<order::acquire>();
            }
            // Beyond `b` if another lane has made `b` meanwhile.
            const std::uint64_t child = at.bucket | std::uint64_t{1} << header::depth(at.head);
            const split_result result = child <= b ? m.split(at, child) : split_result::changed;
            if (result == split_result::changed) {
                simt::pause(100);
            } else if (result == split_result::lacks_blocks && !m.memory_.stock(list_of(child))) {
                return;
            }
        }
    }

    enum class split_result : std::uint32_t {
        done,
        changed,       ///< the bucket is not as it was read, or locked
        lacks_blocks,  ///< the free list has too few blocks (`map_memory::stock`)
    };
    /// Splits the bucket `at`, if it is as it was read: moves half of its keys to bucket `child`, which is ready. It
    /// does not ask the heap: functions below `malloc` need registers, which every caller of a split would hold.
    ORCHARD_INLINE split_result split(const position& at, std::uint64_t child) const {
        return split_by(*this, at, child);
    }
    ORCHARD_NOINLINE static split_result split_by(map_growth m, position at, std::uint64_t child) {
        node* spares[2] = {nullptr, nullptr};
        if ((at.head & header::locked) != 0) {
            return split_result::changed;
        }
        bool done = true;
        if (needs_spares(at)) {
            spares[0] = m.memory_.take_free(list_of(child));
            spares[1] = spares[0] != nullptr ? m.memory_.take_free(list_of(child)) : nullptr;
            done = spares[1] != nullptr;
        }
        const bool lacks_blocks = !done;
        done = done && lock_to_split(at);
        if (done && (at.head & header::chained) == 0) {
            divide(at, m.memory_.bucket(child));
        } else if (done) {
            divider(at, m.memory_.bucket(child), spares).run();
        }
        // The blocks that were not needed, chained by their `next`.
        for (node* const begin : spares) {
            for (node* n = begin; n != nullptr;) {
                const std::uint64_t next = done ? n->next.template load<order::relaxed>() : 0;
                m.memory_.put_block(list_of(child), n);
                n = next != 0 ? node::at(next) : nullptr;
            }
        }
        return done ? split_result::done : lacks_blocks ? split_result::lacks_blocks : split_result::changed;
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

    std::uint32_t buckets_per_key_ = 0;
};

}  // namespace orchard::device
