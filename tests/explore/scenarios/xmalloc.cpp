// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes allocate and free through XMalloc's two layers in front of a heap of few segments, or through the coalescing
/// of `by_warp_ref`. Half of the blocks are freed by other lanes than their owners, so that areas are released by any
/// lane. When the heap has no memory, queues give their blocks back. At the end all memory is in the heap again.

#include <array>
#include <vector>

#include "device/published/xmalloc/by_warp_ref.cuh"
#include "device/published/xmalloc/xmalloc_ref.cuh"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

struct xmalloc_block {
    void* p = nullptr;
    std::uint64_t bytes = 0;
};

/// The words of queues that are empty.
struct xmalloc_queues {
    static constexpr std::uint32_t classes = device::buffer_classes::count;
    static constexpr std::uint32_t blocks = device::block_buffers<heap_ref>::blocks_of_a_class;

    explicit xmalloc_queues(std::uint32_t queues) : ends(classes * queues), messages(classes * blocks) {
        for (device::block_fifo_ends& e : ends) {
            e.head.store<simt::order::relaxed>(0);
            e.tail.store<simt::order::relaxed>(device::block_fifo::first_tail());
        }
        const std::uint32_t room = blocks / queues;
        for (std::uint32_t i = 0; i < messages.size(); ++i) {
            messages[i].store<simt::order::relaxed>(device::block_fifo::first_message(i % room, room));
        }
    }

    std::vector<device::block_fifo_ends> ends;
    std::vector<device::block_fifo::word> messages;
};

heap_setup few_segments(world& w) {
    return {.segments = 3 + w.s.pick(3), .committed_at_start = 1, .extent = 1, .cache_target = w.s.pick(2)};
}

/// Lanes allocate and free, and pass blocks to others; in a last kernel, one lane frees what is left and then does what
/// `at_last` says. Returns false if the run has failed.
template <class Ref, class Last>
bool pass_blocks(world& w, heap_world& heap, const Ref& from, Last at_last) {
    std::vector<xmalloc_block> blocks(1);
    std::array<simt::device_word<std::uint64_t>, 6> places{};  // numbers of blocks; 0: none
    w.s.name_words(places.data(), sizeof(places), "places", 8);
    const auto free_block = [&](std::uint64_t number) {
        if (number != 0) {
            heap.unmark(blocks[number].p, blocks[number].bytes);
            from.free(blocks[number].p);
        }
    };
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        // The last one is served alone.
        constexpr std::array<std::uint64_t, 4> sizes{16, 48, 200, 600};
        for (int i = 0; i < w.size.operations; ++i) {
            const std::uint64_t bytes = sizes[w.s.pick(4)];
            void* const p = from.malloc(bytes);
            std::uint64_t number = 0;
            if (p != nullptr) {
                heap.mark(p, bytes);
                number = blocks.size();
                blocks.push_back({p, bytes});
            }
            if (w.s.pick(2) == 0) {
                // Another lane's block for its own; the exchange orders their accesses.
                number = places[w.s.pick(6)].exchange<simt::order::acq_rel>(number);
            }
            free_block(number);
        }
    });
    if (!w.s.run()) {
        return false;
    }
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        for (auto& place : places) {
            free_block(place.load<simt::order::acquire>());
        }
        at_last();
    });
    return w.s.run();
}

void run_xmalloc(world& w) {
    heap_world heap(w, few_segments(w));
    const std::uint32_t queues = 1u << w.s.pick(2);
    xmalloc_queues words(queues);
    w.s.name_words(words.ends.data(), words.ends.size() * sizeof(words.ends[0]), "ends", 8);
    const xmalloc_ref<heap_ref> from({heap.ref, queues, words.ends.data(), words.messages.data()}, 200);
    const auto drain = [&] {
        for (std::uint32_t q = 0; q < from.buffers().all_queues(); ++q) {
            from.buffers().drain(q);
        }
    };
    // From a block of 16 B alone to one of three lanes with 200 B each.
    if (pass_blocks(w, heap, from, drain) &&
        heap.settle({class_of(32), class_of(64), class_of(96), class_of(128), class_of(192), class_of(256),
                     class_of(384), class_of(512), class_of(768)})) {
        heap.check_empty();
    }
}

void run_by_warp(world& w) {
    heap_world heap(w, few_segments(w));
    const by_warp_ref<2048> from(heap.ref);
    // The same; blocks are as long as the requests and their headers.
    if (pass_blocks(w, heap, from, [] {}) &&
        heap.settle({class_of(32), class_of(64), class_of(96), class_of(128), class_of(160), class_of(192),
                     class_of(224), class_of(256), class_of(320), class_of(384), class_of(448), class_of(512),
                     class_of(640), class_of(768)})) {
        heap.check_empty();
    }
}

const registrar xmalloc_scenario{
    {"xmalloc", "Lanes share areas of XMalloc in front of a heap of few segments.", {{{3, 2}, {3}}, 2}, run_xmalloc}};
const registrar by_warp_scenario{
    {"by_warp", "Lanes share blocks of a heap of few segments.", {{{3, 2}, {3}}, 2}, run_by_warp}};

}  // namespace
}  // namespace orchard::explore
