// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Kernels report their blocks through a ring of few slots, which a host thread reads at its own speed. The order of
/// the tickets is one in which the blocks can be allocated and freed again, and no event is lost or damaged.

#include <array>
#include <vector>

#include "runtime/trace/followed_blocks.hpp"
#include "runtime/trace/kernel_events.hpp"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t event_slots = 4;
constexpr std::uint32_t log_event_slots = 2;
/// Pages of one class, so that memory passes from thread to thread, and a block of a chunk.
constexpr std::array<std::uint64_t, 2> event_sizes{512 << 10, 700 << 10};

/// A block that one thread hands to another.
struct passed_block {
    simt::device_word<std::uint64_t>
        place;  ///< its offset in the heap, times 2, plus the size's index, plus 1; 0: none
};

/// Reads events, and follows them; played by a lane that does nothing else.
struct event_reader {
    kernel_events source;
    followed_blocks blocks;
    std::uint64_t events = 0;
    std::uint64_t wrong = 0;

    void look() {
        event out[2];
        std::uint64_t lost = 0;
        const std::size_t count = source.drain(out, &lost);
        for (std::size_t i = 0; i < count; ++i) {
            using effect = followed_blocks::effect;
            const followed_blocks::change c = blocks.take(out[i]);
            const bool has_size =
                c.what != effect::allocated || c.after.bytes == event_sizes[0] || c.after.bytes == event_sizes[1];
            wrong += c.what == effect::unknown || c.what == effect::doubled || !has_size ? 1 : 0;
        }
        events += count;
        wrong += lost;
    }
};

void run_event_ring(world& w) {
    std::vector<std::uint64_t> memory(event_ring_memory::bytes_for(event_slots) / sizeof(std::uint64_t));
    const event_ring_memory slots = event_ring_memory::in(memory.data(), event_slots);
    device::event_ring ring{};
    ring.room = simt::device_word<std::uint64_t>(event_slots);
    ring.words = slots.words;
    ring.progress = slots.progress;
    ring.slots = event_slots;
    ring.log_slots = log_event_slots;
    ring.timeout_ns = 1'000'000'000;
    heap_world heap(w, {.segments = 8, .committed_at_start = 6, .extent = 1, .cache_target = 2, .events = &ring});
    event_reader reader{kernel_events(slots, false), {}};
    std::array<passed_block, 2> passed{};
    bool ended = false;
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        while (!ended) {
            reader.look();
            simt::pause(500);
        }
    });
    std::uint32_t left = 0;
    for (const auto& block : w.size.blocks) {
        for (const int lanes : block) {
            left += static_cast<std::uint32_t>(lanes);
        }
    }
    std::uint64_t reported = 0;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const std::size_t size = heap.s.pick(event_sizes.size());
            void* const p = heap.take(event_sizes[size]);
            if (p == nullptr) {
                continue;
            }
            ++reported;
            const std::uint64_t mine = heap.view.offset_of(p) * 2 + size + 1;
            // Another thread's block is freed in place of this one: acquires what its owner released.
            const std::uint64_t other = passed[heap.s.pick(passed.size())].place.exchange<simt::order::acq_rel>(mine);
            if (other != 0) {
                ++reported;
                heap.give(heap.view.base + (other - 1) / 2, event_sizes[(other - 1) % 2]);
            }
        }
        if (--left == 0) {
            ended = true;
        }
    });
    if (!w.s.run()) {
        return;
    }
    while (reader.source.read() != ring.ticket.load<simt::order::relaxed>() && reader.events < reported + 1000) {
        const std::uint64_t before = reader.events;
        reader.look();
        if (reader.events == before) {
            break;
        }
    }
    w.s.check(reader.wrong == 0, "the events are no order in which the blocks can be allocated and freed");
    w.s.check(ring.is_broken.load<simt::order::relaxed>() == 0, "a group gave up although the host reads");
    std::uint64_t live = 0;
    for (const passed_block& b : passed) {
        live += b.place.load<simt::order::relaxed>() != 0 ? 1 : 0;
    }
    w.s.check(reader.blocks.blocks().size() == live, "the events leave other blocks in use than there are");
    const std::uint64_t tickets = ring.ticket.load<simt::order::relaxed>();
    w.s.check(tickets >= reported && reader.source.read() == tickets, "an event was lost");
}

const registrar event_ring{
    {"event_ring",
     "Kernels report their blocks through a ring of few slots, in an order that can be replayed.",
     {{{3, 2}, {3}}, 3},
     run_event_ring}};

}  // namespace
}  // namespace orchard::explore
