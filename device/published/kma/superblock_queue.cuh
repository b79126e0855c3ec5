// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `superblock_queues`: queues of superblocks, without locks. All queues share the nodes that they are made of.
///
///     node     5        2        7                 a queue of two superblocks
///     value    (old)    S        T
///              ^head             ^tail             the first node is a dummy, whose value was taken before
///
///     put(queue, node, S)    links the caller's node behind the last one, and moves `tail` to it
///     take(queue)            moves `head` to the next node and returns its value, and the old dummy
///
/// A superblock that is in no queue owns a node: the one that `take` returned with it. So n superblocks and q queues
/// have n + q nodes, no queue holds a superblock back, and nothing is allocated.
///
/// A pointer to a node has a tag, which each change raises, so that a compare-and-swap fails if a node has left and
/// come back meanwhile. Each failure is another thread's progress, and no thread waits.
///
/// Source: R. Spliet, *A comprehensive study of Dynamic Memory Management in OpenCL kernels* (2013), sections 5.1.2 and
/// 6.1.1, after M. Michael and M. Scott (PODC 1996). Differences: docs/kma.md.

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/mutation.cuh"

namespace orchard::device {

/// The ends of a queue: pointers to nodes, each in a line of its own.
struct superblock_queue {
    alignas(64) simt::device_word<std::uint64_t> head;
    alignas(64) simt::device_word<std::uint64_t> tail;
};

/// A superblock that was in a queue, and the node that it owns now.
struct queued_superblock {
    std::uint32_t superblock;
    std::uint32_t node;
};

/// The view of the nodes in device memory. Trivially copyable. One lane of any kernel calls each function alone.
class superblock_queues {
public:
    using word = simt::device_word<std::uint64_t>;
    using index_word = simt::device_word<std::uint32_t>;

    static constexpr std::uint32_t none = ~std::uint32_t{0};

    superblock_queues() = default;
    ORCHARD_FN superblock_queues(word* next, index_word* values) : next_{next}, values_{values} {}

    /// Makes a queue of the nodes `first` to `last`, the dummy first. Nodes link themselves: `make_node`.
    ORCHARD_FN static void make_queue(superblock_queue& queue, std::uint32_t first, std::uint32_t last) {
        queue.head.store<simt::order::relaxed>(pointer(0, first));
        queue.tail.store<simt::order::relaxed>(pointer(0, last));
    }
    ORCHARD_FN void make_node(std::uint32_t node, std::uint32_t next, std::uint32_t value) const {
        next_[node].store<simt::order::relaxed>(pointer(0, next));
        values_[node].store<simt::order::relaxed>(value);
    }

    /// Appends a superblock, which gives its node away. What the caller did before is ordered before what the thread
    /// does that takes it. Cost: four loads, two stores and two atomics.
    ORCHARD_FN void put(superblock_queue& queue, const queued_superblock& what) const {
        // Relaxed: the link below releases it.
        values_[what.node].store<simt::order::relaxed>(what.superblock);
        // No other thread changes this word: an old pointer leads here only with an old tag. Release: a thread that
        // came here by an old pointer then sees that the end it has read has moved on.
        word& own = next_[what.node];
        own.store<simt::order::release>(pointer(tag_of(own.load<simt::order::relaxed>()) + 1, none));
        std::uint64_t tail = 0;
        for (;;) {
            // Acquire: the node that the pointer leads to.
            tail = queue.tail.load<simt::order::acquire>();
            // Acquire: what the thread did that linked the next node, if `tail` is moved to it here.
            std::uint64_t next = next_[node_of(tail)].load<simt::order::acquire>();
            // The node may have left, and be the last one of another queue by now.
            if (queue.tail.load<simt::order::relaxed>() != tail &&
                !simt::mutation::is(simt::mutation::fault::superblock_tail)) {
                continue;
            }
            if (node_of(next) != none) {
                move(queue.tail, tail, node_of(next));
                continue;
            }
            // Release: the value, and what the caller did.
            const std::uint64_t linked = pointer(tag_of(next) + 1, what.node);
            if (next_[node_of(tail)].compare_exchange<simt::order::release>(next, linked)) {
                break;
            }
        }
        move(queue.tail, tail, what.node);
    }

    /// Takes the first superblock; returns false if there is none. Cost: five loads and an atomic.
    ORCHARD_FN bool take(superblock_queue& queue, queued_superblock* taken) const {
        for (;;) {
            // Acquire, both: the nodes that the pointers lead to; the tail is not behind this head.
            std::uint64_t head = queue.head.load<simt::order::acquire>();
            const std::uint64_t tail = queue.tail.load<simt::order::acquire>();
            // Acquire: the value of the next node, and what the thread did that put it there.
            const std::uint64_t next = next_[node_of(head)].load<simt::order::acquire>();
            if (queue.head.load<simt::order::relaxed>() != head) {
                continue;
            }
            if (node_of(next) == none) {
                return false;
            }
            if (node_of(head) == node_of(tail)) {
                move(queue.tail, tail, node_of(next));
                continue;
            }
            // Before the exchange: afterwards another thread may take that node, and write it.
            std::uint32_t value = values_[node_of(next)].load<simt::order::relaxed>();
            // Release: the loads before it, and `next`. Acquire: later writes to the node come behind.
            if (queue.head.compare_exchange<simt::order::acq_rel>(head, pointer(tag_of(head) + 1, node_of(next)))) {
                if (simt::mutation::is(simt::mutation::fault::superblock_value)) {
                    value = values_[node_of(next)].load<simt::order::relaxed>();
                }
                *taken = {value, node_of(head)};
                return true;
            }
        }
    }

    /// Returns whether there is a superblock. The answer is any if another thread takes one meanwhile. Cost: two loads.
    [[nodiscard]] ORCHARD_FN bool has_any(const superblock_queue& queue) const {
        // Acquire, both: the caller's next loads come behind.
        const std::uint64_t head = queue.head.load<simt::order::acquire>();
        return node_of(next_[node_of(head)].load<simt::order::acquire>()) != none;
    }

private:
    static ORCHARD_INLINE std::uint64_t pointer(std::uint32_t tag, std::uint32_t node) {
        return std::uint64_t{tag} << 32 | node;
    }
    static ORCHARD_INLINE std::uint32_t tag_of(std::uint64_t p) { return static_cast<std::uint32_t>(p >> 32); }
    static ORCHARD_INLINE std::uint32_t node_of(std::uint64_t p) { return static_cast<std::uint32_t>(p); }

    /// Moves the tail on, unless another thread has. Release: the link, and what was acquired with it.
    static ORCHARD_INLINE void move(word& tail, std::uint64_t from, std::uint32_t node) {
        tail.compare_exchange<simt::order::release>(from, pointer(tag_of(from) + 1, node));
    }

    word* next_ = nullptr;
    index_word* values_ = nullptr;
};

}  // namespace orchard::device
