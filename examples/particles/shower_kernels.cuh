// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernel of a shower: each thread follows the tracks of one primary, a list that it alone uses.
///
///     families[thread] --> track --> track --> track        each a block of `track_bytes` from `Memory`
///                          particle | next | records ...    the last steps, checked when the particle ends
///
///     a pass     `steps` steps of each track; secondaries join the list, and begin in the next pass
///
/// Without memory for its secondaries a particle stays as it was before the step, and its thread stops: the pass says
/// so, and the run ends.

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/launch.cuh"
#include "examples/particles/shower.cuh"
#include "examples/report/free_lists.cuh"

namespace orchard::examples {

/// A track in its block. Records lie behind it, as many as fit the block.
struct track {
    particle now;
    track* next;
    std::uint64_t unused;  ///< the records begin at a multiple of 16 B

    [[nodiscard]] ORCHARD_FN std::uint64_t* records() { return reinterpret_cast<std::uint64_t*>(this + 1); }
};

/// The sums of all passes, in device memory, and what goes wrong.
struct shower_counts {
    simt::device_word<std::uint64_t> particles;
    simt::device_word<std::uint64_t> ended;
    simt::device_word<std::uint64_t> steps;
    simt::device_word<std::uint64_t> no_memory;  ///< requests that got null
    simt::device_word<std::uint64_t> wrong;      ///< records that are not what their particle has written
    simt::device_word<std::uint64_t> deposited_kev[shower_layers];
};

/// Makes the track of each primary. `Memory`: `void* malloc(std::uint64_t) const`, `void free(void*) const`.
template <class Memory>
struct begin_showers {
    Memory memory;
    shower_rule rule;
    std::uint64_t track_bytes;
    std::uint64_t primaries;
    track** families;
    shower_counts* counts;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= primaries) {
            return;
        }
        auto* const t = static_cast<track*>(memory.malloc(track_bytes));
        families[i] = t;
        if (t == nullptr) {
            counts->no_memory.template fetch_add<simt::order::relaxed>(1);
            return;
        }
        t->now = rule.primary(i);
        t->next = nullptr;
        counts->particles.template fetch_add<simt::order::relaxed>(1);
    }
};

/// One pass over all tracks.
template <class Memory>
struct follow_showers {
    Memory memory;
    shower_rule rule;
    std::uint64_t track_bytes;
    std::uint32_t steps;  ///< of each particle in this pass
    std::uint64_t primaries;
    track** families;
    shower_counts* counts;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= primaries) {
            return;
        }
        track* born = nullptr;
        track* last_born = nullptr;
        std::uint64_t followed = 0;
        bool has_memory = true;
        for (track** link = &families[i]; has_memory && *link != nullptr;) {
            track* const t = *link;
            bool ends = false;
            for (std::uint32_t s = 0; has_memory && !ends && s < steps; ++s) {
                const shower_step what = rule.next(t->now);
                has_memory = make_secondaries(*t, what, born, last_born);
                if (has_memory) {
                    note(*t, what);
                    t->now = what.after;
                    ends = what.ends;
                    ++followed;
                }
            }
            if (ends) {
                *link = t->next;
                end(t);
            } else {
                link = &t->next;
            }
        }
        if (born != nullptr) {
            last_born->next = families[i];
            families[i] = born;
        }
        counts->steps.template fetch_add<simt::order::relaxed>(followed);
    }

private:
    /// Allocates the secondaries of a step, in front of `born`. Returns false, with none of them, without memory.
    ORCHARD_FN bool make_secondaries(const track& parent, const shower_step& what, track*& born,
                                     track*& last_born) const {
        track* const before = born;
        for (std::uint32_t k = 0; k < what.secondaries; ++k) {
            auto* const t = static_cast<track*>(memory.malloc(track_bytes));
            if (t == nullptr) {
                counts->no_memory.template fetch_add<simt::order::relaxed>(1);
                while (born != before) {
                    track* const gone = born;
                    born = gone->next;
                    memory.free(gone);
                }
                return false;
            }
            t->now = rule.secondary(parent.now, what, k);
            t->next = born;
            last_born = born == nullptr ? t : last_born;
            born = t;
        }
        counts->particles.template fetch_add<simt::order::relaxed>(what.secondaries);
        return true;
    }
    [[nodiscard]] ORCHARD_FN std::uint64_t places() const {
        return (track_bytes - sizeof(track)) / sizeof(std::uint64_t);
    }

    ORCHARD_FN void note(track& t, const shower_step& what) const {
        if (places() != 0) {
            t.records()[t.now.step % places()] = shower_rule::record(t.now, t.now.step);
        }
        counts->deposited_kev[what.layer].template fetch_add<simt::order::relaxed>(what.deposited_kev);
    }

    /// Compares the records of a particle that has ended, and frees its track.
    ORCHARD_FN void end(track* t) const {
        const std::uint32_t all = t->now.step;
        const std::uint64_t kept = all < places() ? all : places();
        std::uint64_t wrong = 0;
        for (std::uint64_t s = all - kept; s < all; ++s) {
            const auto step = static_cast<std::uint32_t>(s);
            wrong += t->records()[s % places()] == shower_rule::record(t->now, step) ? 0 : 1;
        }
        if (wrong != 0) {
            counts->wrong.template fetch_add<simt::order::relaxed>(wrong);
        }
        counts->ended.template fetch_add<simt::order::relaxed>(1);
        memory.free(t);
    }
};

/// Frees the tracks that a run which has ended too early leaves behind.
template <class Memory>
using free_showers = free_lists<Memory, track, &track::next>;

}  // namespace orchard::examples
