// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `chunk_pool`: the free chunks of an instance (sections 3.1 and 3.2 of the paper). A chunk that was never used is
/// taken from a counter; one that was is taken from a queue, before all others.
///
/// Chunks are counted before they are taken, in a word with two counters:
///
///     free       chunks that are free
///     reserved   those of them that queues may still need; never more than `free`
///
/// Pages may take a chunk only if it is not reserved. A `free` of a page may have to add a chunk to a queue; it must
/// not fail, although no other memory may be left. In print nothing is reserved, and such a free would wait for ever.

#include <cstdint>

#include "device/published/ouroboros/instance_view.cuh"
#include "device/published/ouroboros/static_ring.cuh"

namespace orchard::device::ouroboros {

class chunk_pool {
public:
    ORCHARD_INLINE explicit chunk_pool(const instance_view& v) : v_{&v} {}

    /// Claims a chunk for pages, and reserves `more` for queues; returns false, and claims none, if the memory does not
    /// suffice. `take` follows, or `unclaim`. Any lane, alone.
    ORCHARD_INLINE bool claim(std::uint32_t more) {
        auto& counts = v_->pool->counts;
        std::uint64_t c = counts.load<simt::order::relaxed>();
        // Relaxed: the queue, or the counter, orders what concerns the chunk.
        do {
            if (free(c) < reserved(c) + 1 + more) {
                return false;
            }
        } while (!counts.compare_exchange<simt::order::relaxed>(c, c - 1 + more * one_reserved));
        return true;
    }
    /// Undoes a `claim` with the same `more`.
    ORCHARD_INLINE void unclaim(std::uint32_t more) {
        v_->pool->counts.fetch_add<simt::order::relaxed>(1 - more * one_reserved);
    }

    /// Returns the index of a chunk that the caller has claimed. Any lane, alone. More chunks are in the queue or were
    /// never used than are claimed, so that an attempt fails only if other lanes have taken what was there.
    ORCHARD_FN std::uint32_t take() {
        for (;;) {
            if (const std::uint32_t found = reuse().try_take(); found != 0) {
                return found - 1;
            }
            auto& fresh = v_->pool->fresh;
            std::uint32_t next = fresh.load<simt::order::relaxed>();
            while (next < v_->chunks) {
                if (fresh.compare_exchange<simt::order::relaxed>(next, next + 1)) {
                    return next;
                }
            }
            simt::pause(100);
        }
    }
    /// Gives back a chunk of pages, which no lane uses any more. Its state says that it is free.
    ORCHARD_INLINE void give(std::uint32_t index) {
        // The queue has a place for each chunk, so that the put succeeds.
        (void)reuse().try_put(index + 1);
        v_->pool->counts.fetch_add<simt::order::relaxed>(1);
    }

    /// Returns a chunk for the queue of a class, with all places empty. Waits while no chunk is reserved, which is only
    /// while more lanes than were foreseen are in the midst of reading chunks of queues; these lanes wait for no chunk.
    ORCHARD_FN std::uint32_t take_for_queue() {
        auto& counts = v_->pool->counts;
        std::uint64_t c = counts.load<simt::order::relaxed>();
        while (reserved(c) == 0 || !counts.compare_exchange<simt::order::relaxed>(c, c - 1 - one_reserved)) {
            if (reserved(c) == 0) {
                simt::pause(500);
                c = counts.load<simt::order::relaxed>();
            }
        }
        const std::uint32_t index = take();
        chunk_header& h = v_->headers[index];
        set_state(h, chunk_role::queue);
        simt::device_word<std::uint32_t>* const places = v_->places_of(index);
        // Relaxed, here and below: the caller publishes the chunk by a release.
        for (std::uint32_t i = 0; i < 1u << v_->places_log(); ++i) {
            places[i].store<simt::order::relaxed>(0);
        }
        h.counts.store<simt::order::relaxed>(0);
        return index;
    }
    /// Gives back a chunk of a queue, which no lane uses any more: it is free, and reserved again.
    ORCHARD_INLINE void give_from_queue(std::uint32_t index) {
        set_state(v_->headers[index], chunk_role::none);
        (void)reuse().try_put(index + 1);
        v_->pool->counts.fetch_add<simt::order::relaxed>(1 + one_reserved);
    }

    /// Returns the numbers of free and of reserved chunks, now.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t free_now() const { return free(now()); }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t reserved_now() const { return reserved(now()); }

private:
    static constexpr std::uint64_t one_reserved = std::uint64_t{1} << 32;

    [[nodiscard]] static ORCHARD_INLINE std::uint32_t free(std::uint64_t c) { return static_cast<std::uint32_t>(c); }
    [[nodiscard]] static ORCHARD_INLINE std::uint32_t reserved(std::uint64_t c) {
        return static_cast<std::uint32_t>(c >> 32);
    }
    [[nodiscard]] ORCHARD_INLINE std::uint64_t now() const { return v_->pool->counts.load<simt::order::relaxed>(); }
    [[nodiscard]] ORCHARD_INLINE index_queue<static_ring> reuse() const {
        return {v_->pool->reuse, static_ring(v_->reuse, v_->reuse_log), v_->chunks};
    }

    const instance_view* v_;
};

}  // namespace orchard::device::ouroboros
