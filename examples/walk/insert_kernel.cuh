// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Inserts edges into lists that grow by `realloc`, by threads that do not know of each other.
///
///     claim    0 --compare-and-swap, acquire--> 1 --store, release--> 0
///              free                             one group extends the list
///
///     a group of three lanes at a vertex with 4 of 4 entries in use:
///
///     leader      claims; realloc to 8 entries: 16 B -> 32 B, in place or moved
///     lanes       [ n0 | n1 | n2 | n3 | a | b | c | . ]        lane i writes at size + i
///     leader      size = 7; releases the claim

#include <cstdint>

#include "examples/graph/edge_list.hpp"
#include "examples/walk/records.cuh"

namespace orchard::examples {

/// Entries of a vertex's first list.
inline constexpr std::uint32_t first_capacity = 4;

/// Inserts `count` edges in both directions: thread 2i inserts the upper end of edge i at its lower end, thread 2i + 1
/// the lower end at its upper end.
///
/// Lanes of a warp that insert at the same vertex at the same time act as one group: their leader claims the vertex and
/// makes room for all, each lane writes its entry, the leader releases the claim. A group that does not get the claim
/// pauses and tries again. A group that holds a claim waits for nothing but the heap, so that every claim is released.
/// A group gives up if the list did not change for `patience_ns`.
///
/// `Heap`: `void* realloc(void*, std::uint64_t) const`, or without it `malloc` and `free`.
template <class Heap>
struct insert_edges {
    Heap heap;
    const edge* edges;    ///< of this launch; device memory
    std::uint64_t count;  ///< edges of this launch
    vertex_record* vertices;
    trouble* problem;
    std::uint64_t patience_ns;  ///< a bound on the wait for a claim

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t item = at.global_thread();
        if (item >= 2 * count) {
            return;
        }
        const edge e = edges[item / 2];
        const bool upward = item % 2 == 0;
        insert(upward ? e.low() : e.high(), upward ? e.high() : e.low());
    }

private:
    // Pauses between two attempts; each is twice the last one, up to the longest. Many groups wait at a vertex of high
    // degree, and should leave the memory to the group that works.
    static constexpr std::uint32_t shortest_pause_ns = 64;
    static constexpr std::uint32_t longest_pause_ns = 4096;

    /// Inserts `neighbour` into the list of `vertex`. Ends without it if any thread of the run has noted a trouble, or
    /// after `patience_ns` without progress.
    ORCHARD_FN void insert(std::uint32_t vertex, std::uint32_t neighbour) const {
        vertex_record& record = vertices[vertex];
        std::uint32_t pause_ns = shortest_pause_ns;
        std::uint32_t seen_size = ~0u;
        std::uint64_t since = simt::clock_ns();
        while (!problem->any()) {
            // The lanes that try at this moment, and those of them at the same vertex. Both are formed anew for each
            // attempt, since lanes that succeeded are gone.
            const simt::lane_mask here = simt::converge();
            const simt::lane_mask peers = simt::match(here, vertex);
            const int leader = simt::leader_of(peers);
            const bool leads = simt::lane_id() == leader;
            const std::uint32_t won = simt::shuffle(peers, leads && try_claim(record) ? 1u : 0u, leader);
            if (won != 0) {
                append(record, vertex, neighbour, peers, leads);
                return;
            }
            const std::uint32_t size = record.size.template load<order::relaxed>();
            const std::uint64_t now = simt::clock_ns();
            // Another group has inserted: the claim moves, and the patience begins anew.
            if (size != seen_size) {
                seen_size = size;
                since = now;
            } else if (now - since > patience_ns) {
                problem->record(trouble_kind::claim_not_released, vertex);
                return;
            }
            simt::pause(pause_ns);
            pause_ns = pause_ns * 2 < longest_pause_ns ? pause_ns * 2 : longest_pause_ns;
        }
    }

    /// Returns whether the caller holds the claim now. Reads the word before it tries the exchange: the groups that
    /// wait for one vertex then share the word instead of taking it from each other.
    static ORCHARD_FN bool try_claim(vertex_record& record) {
        std::uint32_t free = 0;
        // Acquire pairs with the release in `append`, so that the last group's list, size, capacity and entries are
        // visible.
        return record.claim.template load<order::relaxed>() == 0 &&
               record.claim.template compare_exchange<order::acquire>(free, 1);
    }

    /// Appends the entries of all lanes of `peers`, which all call it, and releases the claim that their leader holds.
    /// Without memory nothing is appended and the trouble is noted; the claim is released in any case.
    ORCHARD_FN void append(vertex_record& record, std::uint32_t vertex, std::uint32_t neighbour, simt::lane_mask peers,
                           bool leads) const {
        const auto added = static_cast<std::uint32_t>(simt::popcount(peers));
        const int leader = simt::leader_of(peers);
        std::uint32_t size = 0;
        std::uint64_t list = 0;
        if (leads) {
            size = record.size.template load<order::relaxed>();  // ordered by the claim
            list = make_room(record, vertex, size + added);
        }
        size = simt::shuffle(peers, size, leader);
        list = simt::shuffle(peers, list, leader);
        simt::sync(peers);  // the leader's claim holds for all lanes
        if (list != 0) {
            reinterpret_cast<std::uint32_t*>(list)[size + simt::rank_in(peers)] = neighbour;
        }
        simt::sync(peers);  // all lanes have written before the leader releases
        if (leads) {
            if (list != 0) {
                record.size.template store<order::relaxed>(size + added);  // ordered by the release below
            }
            record.claim.template store<order::release>(0);  // pairs with `try_claim`
        }
    }

    /// Returns the list with room for `needed` entries; 0 if the heap returned null. The caller holds the claim.
    ORCHARD_FN std::uint64_t make_room(vertex_record& record, std::uint32_t vertex, std::uint32_t needed) const {
        const std::uint64_t list = record.list.template load<order::relaxed>();
        std::uint32_t capacity = record.capacity.template load<order::relaxed>();
        if (needed <= capacity) {
            return list;
        }
        const std::uint32_t before = capacity;
        // Powers of two, so that a list of n entries grows less than log2 n times.
        capacity = capacity == 0 ? first_capacity : capacity;
        while (capacity < needed) {
            capacity = capacity > 0x7fffffffu ? 0xffffffffu : capacity * 2;
        }
        void* grown = resized(list, before, capacity);
        if (grown == nullptr) {
            problem->record(trouble_kind::no_memory, vertex);
            return 0;
        }
        const auto address = reinterpret_cast<std::uint64_t>(grown);
        record.list.template store<order::relaxed>(address);  // this and the next: ordered by the claim's release
        record.capacity.template store<order::relaxed>(capacity);
        return address;
    }

    /// Returns a list of `capacity` entries with those of `list`, which it replaces; null if the heap returned null.
    ORCHARD_FN void* resized(std::uint64_t list, std::uint32_t before, std::uint32_t capacity) const {
        const std::uint64_t bytes = std::uint64_t{capacity} * sizeof(std::uint32_t);
        if constexpr (requires(void* p) { heap.realloc(p, bytes); }) {
            return heap.realloc(reinterpret_cast<void*>(list), bytes);
        } else {
            auto* const grown = static_cast<std::uint32_t*>(heap.malloc(bytes));
            const auto* const old = reinterpret_cast<const std::uint32_t*>(list);
            for (std::uint32_t i = 0; grown != nullptr && i < before; ++i) {
                grown[i] = old[i];
            }
            if (grown != nullptr && list != 0) {
                heap.free(reinterpret_cast<void*>(list));
            }
            return grown;
        }
    }
};

}  // namespace orchard::examples
