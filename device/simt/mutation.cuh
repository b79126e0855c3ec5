// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Deliberate faults in the real code, to prove that the exploring scheduler finds them. They exist only in sources
/// compiled with ORCHARD_MUTATIONS=1 (a separate test program); everywhere else they are empty and cost nothing.
///
///     if (!mutation::is(fault::no_sync)) simt::sync(mask);         // omits the barrier
///     mutation::weaken_next(fault::claim_acquire);                  // makes the next atomic access relaxed
///     word.fetch_or<order::acquire>(bits);
///
/// A test sets `mutation::chosen` and runs one scenario with many seeds; some seed must then report a violation, and
/// the same seeds must pass without the fault (tests/mutants/found_test.cpp).

#include "device/simt/config.cuh"

#if !defined(ORCHARD_MUTATIONS)
#define ORCHARD_MUTATIONS 0
#endif

namespace orchard::simt::mutation {

/// X(name, the fault)
///
/// The list of all faults. The code that a fault changes names it by `mutation::is` or `mutation::weaken_next`.
#define ORCHARD_FAULTS(X)                                                                                              \
    X(none, "nothing")                                                                                                 \
    X(claim_acquire, "a claim of a page does not acquire what the last owner released")                                \
    X(free_release, "a free of a page does not release what the owner wrote")                                          \
    X(free_sync, "a leader frees for its group without a barrier of the group before")                                 \
    X(free_check, "a free does not check that its segment is a slab")                                                  \
    X(claim_check, "a claim does not check that the slab still belongs to the class")                                  \
    X(retire_order, "a slab is retired by clearing its bits before its descriptor")                                    \
    X(retire_claim, "a slab is retired after its bits were read, without claiming them")                               \
    X(share_ballot, "lanes that won a page are counted as lanes without a page")                                       \
    X(lap_tag, "a poller takes any word of the ring for a new response")                                               \
    X(credit, "a request is posted without a credit")                                                                  \
    X(abandonment, "a waiter gives up without a note for the poller that delivers later")                              \
    X(cursor, "a poller moves its cursor one response too far")                                                        \
    X(acknowledgement, "a slot is not freed after its response")                                                       \
    X(epoch, "a poller whose lease was taken over writes over the word of the next poller")                            \
    X(late_reading, "a poller delivers what it read after its lease was taken over")                                   \
    X(late_delivery, "a poller whose lease was taken over delivers to a slot whose word says so")                      \
    X(takeover_mark, "a poller that takes a lease over does not mark the slots of the responses that it finds")        \
    X(response_order, "a poller delivers a response without releasing what the service released")                      \
    X(live_look, "a free reads the record of a chunk before it knows that the chunk is live")                          \
    X(live_order, "a lane frees its block of a chunk without release and acquire")                                     \
    X(array_room, "an array is as long as the shortest array of its row")                                              \
    X(array_after, "a lane does not record where the next array begins")                                               \
    X(ring_end, "a lane takes entries of the host's ring that it has not acquired")                                    \
    X(event_room, "a group writes its events although the host has not read the slots")                                \
    X(event_sync, "a leader takes tickets without a barrier of the group before and after")                            \
    X(look_again, "a waiter that has just polled may poll again before it checks its deadline")                        \
    X(reclaim_age, "a rejected group relies on a reclaim that began before the rejection")                             \
    X(reclaim_patience, "each owner of a reclaim gets as much time as the one before")                                 \
    X(one_reclaim, "a request fails after one reclaim, although memory is free again")                                 \
    X(refill_wait, "a reclaim does not wait for segments on their way to the segment cache")                           \
    X(refill_after_lack, "a refill takes the memory that a rejected request is about to ask for again")                \
    X(exhausted_size, "a group relies on a note of exhaustion for a greater request than its own")                     \
    X(record_fence, "a failure is recorded without a fence after its first word")                                      \
    X(record_turn, "two failures are recorded in the same record at the same time")                                    \
    X(record_sync, "lanes write a chunk's record before they are ordered after the lane that got the memory")          \
    X(return_sync, "a leader returns drained segments before it is ordered after the lanes that drained them")         \
    X(spare_claim, "a group claims a page more than it has lanes")                                                     \
    X(lost_lease, "a group that acts as poller repeatedly never takes over the lease of a stopped poller")             \
    X(share_sum, "lanes that saw free pages each claim as many as their group lacks")                                  \
    X(walk_claim, "a walk takes a page that another lane has claimed before it")                                       \
    X(entry_swap, "a slab is retired although its index of the table does not hold it yet")                            \
    X(maker_pages, "a group publishes a slab before it has claimed pages of it")                                       \
    X(note_age, "a note of a rejection counts as compared before it was compared")                                     \
    X(racing_free, "the second of two racing frees of a chunk's block succeeds")                                       \
    X(store_order, "a chunk is stored without releasing what its last owners wrote")                                   \
    X(store_claim, "a group that does not find the chunk that it has claimed does not give the claim back")            \
    X(pending_tails, "the service does not enter the tails of chunks that it granted together")                        \
    X(store_again, "a group that loses a stored chunk to another group does not look again")                           \
    X(store_spill, "a reclaim leaves the chunks of the chunk store there")                                             \
    X(extend_undo, "segments that were taken from the segment cache to extend a chunk are not put back")               \
    X(run_across, "the segments of a run beyond its first word are not put back")                                      \
    X(reserved_index, "an index stays reserved if there is no segment for a slab ahead of need")                       \
    X(late_tail, "the record of a tail that came too late keeps what it held")                                         \
    X(copy_beyond, "a reallocation copies as many bytes as were asked for, beyond the end of the old block")           \
    X(copy_spare, "a reallocation copies a byte more than it is to keep")                                              \
    X(copy_short, "a reallocation copies a byte less than it is to keep")                                              \
    X(page_alignment, "a request for a power of two gets a page of the next class")                                    \
    X(class_alignment, "an aligned request gets a page of the first class that is large enough")                       \
    X(block_alignment, "the blocks of a warp chunk lie side by side whatever their alignment")                         \
    X(leaf_alignment, "a tail serves a block whose alignment is above that of a leaf")                                 \
    X(scan_leave, "a scan leaves an index after the first look, although there is a slab")                             \
    X(maker_deadline, "a group waits for ever for a slab whose maker has stopped")                                     \
    X(drain_sync, "lanes look at the segment cache's levels before they are ordered after the chunk store's chunks")   \
    X(graph_lock, "the lock of a vertex does not acquire what its last owner wrote")                                   \
    X(graph_look, "an edge is looked for before its vertex is locked, so that two calls add it")                       \
    X(graph_in_place, "a row that an open snapshot has is changed in place")                                           \
    X(graph_close, "a call that changes a row in place does not acquire that a snapshot of it was closed")             \
    X(graph_retire, "a run that an open snapshot has is freed when it is replaced")                                    \
    X(vertex_look, "a vertex that is erased looks for a neighbour without its lock")                                   \
    X(vertex_order, "a vertex that is erased loses the edge to a neighbour before the edge from it")                   \
    X(batch_step, "lanes of a tile move a row's edges in place before all have read them")                             \
    X(batch_property, "edges that move within their row, or to another run, leave their properties behind")            \
    X(batch_left, "edges of a batch that find no memory are written over each other")                                  \
    X(numbers_kept, "a thread that added memory keeps the numbers that calls took while it did")                       \
    X(list_visit, "a thread that goes over a list does not acquire the memory that others added")                      \
    X(buffer_sync, "lanes use a chunk of a monotonic buffer that their leader alone has acquired")                     \
    X(visit_order, "a visit of a queue's places neither releases nor acquires")                                        \
    X(late_write, "a writer that finds a reader to have been at its place leaves its element there")                   \
    X(map_split, "a split of a hash map's bucket moves what it has read before it locked the bucket")                  \
    X(map_recheck, "an insert into a hash map locks its bucket although it has changed since the key was sought")      \
    X(map_version, "a find in a hash map does not check that the bucket stayed as it was while it was read")           \
    X(map_depth, "a find in a hash map does not check that the bucket still has the keys of its hash")                 \
    X(map_together, "lanes split a bucket of a hash map without seeing what the owner of its lock has acquired")       \
    X(map_unlock, "a bucket of a hash map is unlocked without releasing what was written")                             \
    X(fifo_release, "a block is put into XMalloc's queue without releasing what its last user did")                    \
    X(area_count, "the frees of a coalesced area of XMalloc are not ordered")                                          \
    X(superblock_bit, "a free of KMA clears its bit without releasing what the block's user did")                      \
    X(superblock_tail, "a put into KMA's queue does not check that the tail has stayed")                               \
    X(superblock_value, "a take from KMA's queue reads the value after the exchange of the head")                      \
    X(chunk_bit, "a page of an Ouroboros chunk is claimed without acquiring what its last user did")                   \
    X(chunk_promised, "an Ouroboros chunk goes to the pool although its pages are promised to lanes")                  \
    X(chunk_listed, "an Ouroboros chunk is listed again although it is listed")                                        \
    X(page_put, "a page is put into an Ouroboros queue without releasing what its last user did")                      \
    X(link_current, "a link of an Ouroboros queue's chunk is followed without a look whether the chunk has left")

enum class fault : int {
#define ORCHARD_FAULT_NAME(name, help) name,
    ORCHARD_FAULTS(ORCHARD_FAULT_NAME)
#undef ORCHARD_FAULT_NAME
};

#if ORCHARD_MUTATIONS && !ORCHARD_CUDA_PASS

/// The fault with which the simulation of this host thread runs.
inline __thread fault chosen = fault::none;
/// Set between `weaken_next` and the access that it names. No other actor runs in between, because the access is
/// described before its scheduling point.
inline __thread bool weaken = false;

/// Returns true if the code has to behave as fault `f` says.
inline bool is(fault f) { return chosen == f; }
/// Makes the next atomic access of this thread relaxed if `f` is chosen. Call it directly before that access.
inline void weaken_next(fault f) { weaken = chosen == f; }
/// Returns the order that an access gets: `o`, or relaxed once after `weaken_next`. `atomic` calls it once for each
/// access. The order of a failed compare-and-swap is not changed.
inline order applied(order o) {
    const bool weakened = weaken;
    weaken = false;
    return weakened ? order::relaxed : o;
}

#else

// Constants, so that the compiler removes the faults from all other programs, and from GPU code.
ORCHARD_INLINE constexpr bool is(fault) { return false; }
ORCHARD_INLINE constexpr void weaken_next(fault) {}
ORCHARD_INLINE constexpr order applied(order o) { return o; }

#endif

}  // namespace orchard::simt::mutation
