// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Deliberate faults in the real code, to prove that the exploring scheduler finds them. They exist only in sources
/// compiled with ORCHARD_MUTATIONS=1 (a separate test program); everywhere else they are empty and cost nothing.
///
///     if (!mutation::is(fault::no_sync)) simt::sync(mask);         // omits the barrier
///     mutation::weaken_next(fault::claim_acquire);                  // makes the next atomic access relaxed
///     word.fetch_or<order::acquire>(bits);

#include "device/simt/config.cuh"

#if !defined(ORCHARD_MUTATIONS)
#define ORCHARD_MUTATIONS 0
#endif

namespace orchard::simt::mutation {

/// X(name, the fault)
#define ORCHARD_FAULTS(X)                                                                                              \
    X(none, "nothing")                                                                                                 \
    X(claim_acquire, "a page is claimed without acquiring what its last owner released")                               \
    X(free_release, "a page is freed without releasing what its owner wrote")                                          \
    X(free_sync, "a leader frees for its group without a sync of the mask before")                                     \
    X(free_check, "a free does not look whether its segment is a slab")                                                \
    X(claim_check, "a claim does not look whether the slab is still one of the class")                                 \
    X(retire_order, "a slab is retired by clearing its bits before its descriptor")                                    \
    X(retire_claim, "a slab is retired after a look at its bits, without claiming them")                               \
    X(share_ballot, "the lanes that won a page are counted among those without")                                       \
    X(lap_tag, "a poller takes any word of the ring for a new answer")                                                 \
    X(credit, "a post is made without a credit")                                                                       \
    X(abandonment, "a waiter gives up without leaving a note for who delivers later")                                  \
    X(cursor, "a poller moves its cursor one answer too far")                                                          \
    X(acknowledgement, "a slot is not given back after its answer")                                                    \
    X(epoch, "a poller that was taken for lost writes over its successor's word")                                      \
    X(answer_order, "a poller delivers without releasing what the service released")                                   \
    X(live_look, "a free looks at a chunk's record before it knows that somebody lives there")                         \
    X(live_order, "a lane frees its part of a chunk without releasing or acquiring")                                   \
    X(array_room, "a sub-array is as long as its smallest lane asks for")                                              \
    X(array_after, "a lane does not say where the sub-array behind its own begins")                                    \
    X(ring_end, "a lane takes of the host's ring what it has not acquired")                                            \
    X(look_again, "a waiter that has just looked for answers may look again before it thinks of its deadline")         \
    X(reclaim_age, "a group that was refused relies on a reclaim that had begun before")                               \
    X(refill_wait, "a reclaim does not wait for segments that are on their way to the segment cache")                  \
    X(exhausted_size, "a group takes a note of exhaustion that is for more than it asks for")                          \
    X(record_fence, "a failure is recorded without a fence behind its beginning")                                      \
    X(record_turn, "a failure is recorded beside another one in the same record")

enum class fault : int {
#define ORCHARD_FAULT_NAME(name, help) name,
    ORCHARD_FAULTS(ORCHARD_FAULT_NAME)
#undef ORCHARD_FAULT_NAME
};

#if ORCHARD_MUTATIONS && !ORCHARD_CUDA_PASS

/// The fault with which the simulation of this host thread runs.
inline constinit thread_local fault chosen = fault::none;
inline constinit thread_local bool weaken = false;

inline bool is(fault f) { return chosen == f; }
inline void weaken_next(fault f) { weaken = chosen == f; }
inline order applied(order o) {
    const bool weakened = weaken;
    weaken = false;
    return weakened ? order::relaxed : o;
}

#else

ORCHARD_INLINE constexpr bool is(fault) { return false; }
ORCHARD_INLINE constexpr void weaken_next(fault) {}
ORCHARD_INLINE constexpr order applied(order o) { return o; }

#endif

}  // namespace orchard::simt::mutation
