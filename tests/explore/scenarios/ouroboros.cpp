// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes allocate and free by a variant of Ouroboros that the seed draws, in an instance of tiny chunks, so that a few
/// calls fill chunks and queues, empty them, and use them again as something else. No block has two owners, each owner
/// is ordered after the one before, and in the end every chunk and every page is accounted for.

#include <algorithm>
#include <array>
#include <vector>

#include "device/published/ouroboros/ouroboros_ref.cuh"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

namespace ring = device::ouroboros;
using simt::order;

/// The memory of an instance: chunks of 32 B, each two pages of 16 B, or one of 32 B, or 8 places of a queue; or of 16
/// B, a page or 4 places.
struct tiny_instance {
    static constexpr std::uint32_t most_classes = 2;

    std::vector<std::uint64_t> chunks;
    std::vector<ring::chunk_header> headers;
    std::vector<simt::device_word<std::uint64_t>> bits;
    std::array<ring::class_words, most_classes> classes{};
    ring::pool_words pool{};
    std::array<simt::device_word<std::uint32_t>, 64> reuse{};
    std::array<simt::device_word<std::uint32_t>, 2 * 128> rings{};
    std::array<simt::device_word<std::uint64_t>, 2 * 32> directories{};
    ring::instance_view view;

    /// @param directory_log  entries of each directory of VA
    tiny_instance(std::uint32_t chunk_count, ring::variant v, std::uint32_t trail, std::uint32_t chunk_log = 5,
                  std::uint32_t directory_log = 5)
        : chunks(chunk_count * 4), headers(chunk_count), bits(chunk_count) {
        view.chunks_at = reinterpret_cast<char*>(chunks.data());
        view.headers = headers.data();
        view.bits = bits.data();
        view.classes = classes.data();
        view.pool = &pool;
        view.reuse = reuse.data();
        view.rings = rings.data();
        view.directories = directories.data();
        view.chunks = chunk_count;
        view.chunk_log = chunk_log;
        view.smallest_log = 4;
        view.class_count = chunk_log - 3;
        view.reuse_log = 6;
        view.trail = trail;
        // As runtime/published/ouroboros.hpp computes it, with more room in rings and directories.
        const std::uint32_t each = 2 + (ring::kind_of(v) == ring::queue_kind::linked_chunks ? trail : 0) +
                                   (ring::holds_chunks(v) ? (chunk_count + 7) / 8 : 0);
        view.reserved = ring::kind_of(v) == ring::queue_kind::static_ring ? 0 : each * view.class_count;
        for (std::uint32_t c = 0; c < view.class_count; ++c) {
            const bool in_ring = ring::kind_of(v) == ring::queue_kind::static_ring;
            view.layout[c] = {c * (in_ring ? 128u : 32u), in_ring ? 7u : directory_log, chunk_count};
        }
        count_free();
    }
    void count_free() {
        pool.counts = simt::device_word<std::uint64_t>(std::uint64_t{view.reserved} << 32 | view.chunks);
    }
};

/// Allocates and frees in turn. Each owner writes the first and the last word of its block.
template <ring::variant V>
void use(world& w, const ring::ouroboros_ref<V>& heap, bool scarce) {
    using plain = simt::plain<std::uint32_t>;
    struct block {
        plain* at = nullptr;
        std::uint32_t words = 0;
    };
    std::array<block, 2> held;
    const auto drop = [&](block& b) {
        if (b.at != nullptr) {
            w.s.check(b.at[0].get() == b.words && b.at[b.words - 1].get() == b.words, "a block has changed");
            w.s.disown(b.at);
            heap.free(b.at);
            b.at = nullptr;
        }
    };
    for (int i = 0; i < w.size.operations; ++i) {
        block& b = held[w.s.pick(2)];
        drop(b);
        b.words = w.s.pick(2) == 0 ? 4 : 8;
        b.at = static_cast<plain*>(heap.malloc(b.words * 4));
        if (b.at == nullptr) {
            w.s.check(scarce, "null, although there is memory for all");
            continue;
        }
        w.s.own(b.at, b.words * 4, "a block");
        b.at[0].set(b.words);
        b.at[b.words - 1].set(b.words);
    }
    for (block& b : held) {
        drop(b);
    }
}

/// Checks that chunks and pages add up, when no lane is at work and no block is in use.
template <ring::variant V>
void check_sums(world& w, const tiny_instance& t) {
    std::array<std::uint32_t, tiny_instance::most_classes> pages{};
    std::uint32_t used = 0;
    for (const ring::chunk_header& h : t.headers) {
        const std::uint64_t s = h.state.load<order::relaxed>();
        used += ring::chunk_state::role(s) != ring::chunk_role::none ? 1 : 0;
        if (ring::chunk_state::role(s) == ring::chunk_role::pages) {
            const std::uint32_t c = ring::chunk_state::page_class(s);
            pages[c] += t.view.pages(c);
            w.s.check(!ring::holds_chunks(V) || ring::chunk_state::free(s) == t.view.pages(c), "a page is lost");
        }
    }
    const ring::chunk_pool pool(t.view);
    w.s.check(pool.free_now() + used == t.view.chunks, "a chunk is lost");
    w.s.check(pool.reserved_now() <= pool.free_now(), "more chunks are reserved than free");
    for (std::uint32_t c = 0; c < pages.size(); ++c) {
        const auto now = t.classes[c].pages.read();
        w.s.check(now.count == pages[c] && now.reserved == 0 && now.expected == 0, "the semaphore does not add up");
    }
    // A queue that is empty has a chunk, one ahead, and the trail.
    const std::uint32_t places = ring::kind_of(V) == ring::queue_kind::static_ring ? 0 : (pages[0] + pages[1]) / 8 + 4;
    if (!ring::holds_chunks(V)) {
        const std::uint32_t bound = pages[0] / 2 + pages[1];
        w.s.check(used - bound <= places + 2 * (1 + t.view.trail), "chunks of queues are kept");
    }
}

template <ring::variant V>
void run_variant(world& w) {
    const bool scarce = w.s.pick(2) != 0;
    const std::uint32_t lanes = lanes_of(w.size);
    // Two blocks for each lane, each class as many; and queues.
    tiny_instance t(scarce ? 18 : 4 * lanes + 24, V, w.s.pick(3));
    w.s.name_words(t.headers.data(), t.headers.size() * sizeof(ring::chunk_header), "headers", 8);
    w.s.name_bits(t.bits.data(), t.bits.size() * 8, "bits", 8);
    w.s.name_words(t.classes.data(), sizeof(t.classes), "classes", 4);
    w.s.name_words(&t.pool, sizeof(t.pool), "pool", 4);
    w.s.name_words(t.chunks.data(), t.chunks.size() * 8, "chunks", 4);
    const ring::ouroboros_ref<V> heap(&t.view, 1);
    w.s.add_kernel({{2}}, [&](simt::thread_position at) { ring::start_queues<V>{&t.view}(at); });
    if (!w.s.run()) {
        return;
    }
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { use<V>(w, heap, scarce); });
    if (!w.s.run()) {
        return;
    }
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        if constexpr (ring::holds_chunks(V)) {
            typename ring::ouroboros_ref<V>::heap(t.view).sweep();
        }
        check_sums<V>(w, t);
    });
    (void)w.s.run();
}

void run_ouroboros(world& w) {
    constexpr std::array<void (*)(world&), 6> variants{
        run_variant<ring::variant::s_pages>,  run_variant<ring::variant::s_chunks>,
        run_variant<ring::variant::va_pages>, run_variant<ring::variant::va_chunks>,
        run_variant<ring::variant::vl_pages>, run_variant<ring::variant::vl_chunks>};
    variants[w.s.pick(variants.size())](w);
}

/// Takes a chunk of the pool, writes all of its words, and gives it back.
void use_chunk(world& w, const tiny_instance& t) {
    ring::chunk_pool pool(t.view);
    if (!pool.claim(0)) {
        return;
    }
    const std::uint32_t index = pool.take();
    ring::set_state(t.view.headers[index], ring::chunk_role::pages);
    auto* const words = reinterpret_cast<simt::plain<std::uint32_t>*>(t.view.chunk_at(index));
    w.s.own(words, 16, "a chunk");
    for (std::uint32_t i = 0; i < 4; ++i) {
        words[i].set(index + 1000);
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
        w.s.check(words[i].get() == index + 1000, "a chunk has changed");
    }
    w.s.disown(words);
    ring::set_state(t.view.headers[index], ring::chunk_role::none);
    pool.give(index);
}

/// Each lane puts a number into one of two queues, then takes one from there. Chunks have four places, few are free,
/// and they go from queue to queue.
template <ring::variant V>
void run_queue(world& w) {
    const std::uint32_t lanes = lanes_of(w.size);
    const std::uint32_t trail = w.s.pick(3);
    const std::uint32_t reserved = 2 * ((lanes + 3) / 4 + 2 + trail);
    tiny_instance t(reserved + 1 + w.s.pick(2), V, trail, 4, 2);
    t.view.class_count = 2;
    t.view.layout[1] = {32, t.view.layout[0].log, t.view.chunks};
    t.view.reserved = reserved;
    t.count_free();
    w.s.name_words(t.headers.data(), t.headers.size() * sizeof(ring::chunk_header), "headers", 8);
    w.s.name_words(t.classes.data(), sizeof(t.classes), "classes", 8);
    w.s.name_words(&t.pool, sizeof(t.pool), "pool", 8);
    w.s.name_words(t.chunks.data(), t.chunks.size() * 8, "chunks", 4);
    w.s.name_words(t.directories.data(), sizeof(t.directories), "directories", 8);
    w.s.add_kernel({{2}}, [&](simt::thread_position at) { ring::start_queues<V>{&t.view}(at); });
    if (!w.s.run()) {
        return;
    }
    std::uint32_t last = 0;
    std::vector<int> seen(lanes * static_cast<std::uint32_t>(w.size.operations) + 1, 0);
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const std::uint32_t c = w.s.pick(2);
            ring::counted_queue queue(t.classes[c].queue, ring::storage_of<ring::kind_of(V)>(t.view, c));
            queue.put(++last);
            if (w.s.pick(3) == 0) {
                use_chunk(w, t);
            }
            const std::uint32_t got = queue.take();
            w.s.check(got != 0 && got < seen.size() && ++seen[got] == 1, "a number that was not put, or twice");
        }
    });
    if (!w.s.run()) {
        return;
    }
    std::uint32_t of_queues = 0;
    for (const ring::chunk_header& h : t.headers) {
        of_queues += ring::chunk_state::role(h.state.load<order::relaxed>()) == ring::chunk_role::queue ? 1 : 0;
    }
    w.s.check(ring::chunk_pool(t.view).free_now() + of_queues == t.view.chunks, "a chunk is lost");
    w.s.check(of_queues <= 2 * (2 + trail), "chunks of the queues are kept");
}

void run_ouroboros_queues(world& w) {
    if (w.s.pick(2) == 0) {
        run_queue<ring::variant::va_pages>(w);
    } else {
        run_queue<ring::variant::vl_pages>(w);
    }
}

const registrar ouroboros_queues_scenario{
    {"ouroboros_queues",
     "Numbers pass through queues of tiny chunks, which lanes use for themselves meanwhile.",
     {{{3, 2}, {3}}, 6},
     run_ouroboros_queues}};

const registrar ouroboros_scenario{{"ouroboros",
                                    "Blocks by each variant of Ouroboros; chunks become pages and queues in turn.",
                                    {{{2, 1}, {2, 1}}, 8},
                                    run_ouroboros}};

}  // namespace
}  // namespace orchard::explore
