// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Portions of the padded policy, in a heap of few segments. Groups request portions of all lengths, alone or after
/// segments, together with chunks and pages. Segments therefore become segments of portions, cease to be, return to the
/// host and are used for other purposes. The owner of a portion also owns its padding: no other owner may have any byte
/// of it.

#include <array>
#include <string>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

using pile_word = simt::device_word<std::uint64_t>;

/// A tail that is a portion, one that is a segment, a portion alone, and pages.
constexpr std::array<std::uint64_t, 4> padded_portions_sizes{
    segment_bytes + 3 * big_page_bytes, segment_bytes + 17 * big_page_bytes, 9 * big_page_bytes, 512 << 10};
constexpr std::uint32_t pile_places = 4;
constexpr std::uint32_t longest = leaves_per_segment / 2;  ///< of portions, in leaves

/// A block of `bytes`, or what `acquire` gave.
struct held_memory {
    void* block = nullptr;
    std::uint64_t bytes = 0;
    mailbox::grant got{};
};

class portions_world {
public:
    portions_world(world& w, const heap_setup& setup) : heap{w, setup} {
        w.s.name_words(pile_.data(), sizeof(pile_), "pile", sizeof(pile_word));
    }

    /// A block for each lane, left on the pile; each frees what lay there.
    void exchange_blocks() {
        const std::uint64_t bytes = padded_portions_sizes[heap.s.pick(padded_portions_sizes.size())];
        std::uint64_t mine = 0;
        if (void* const p = heap.take(bytes); p != nullptr) {
            mine = add({p, bytes, {}});
        }
        give(swap(mine));
    }

    /// A portion for the group, seldom with segments before it; its leader does the rest.
    void exchange_portion() {
        const simt::lane_mask mask = simt::converge();
        const std::uint32_t k = device::from_leader(mask, heap.s.pick(4) == 0 ? 1 + heap.s.pick(2) : 0);
        const std::uint32_t leaves = device::from_leader(
            mask, to_underlying(portion_leaves(heap.setup.portions_by,
                                               leaf_count{1 + heap.s.pick(heap.s.pick(4) == 0 ? longest : 4)})));
        mailbox::grant got;
        const failure_reason why = device::acquire(heap.view, mask, {k, leaves}, &got);
        heap.s.check(why == failure_reason::none || why == failure_reason::out_of_memory_device_budget ||
                         why == failure_reason::fragmented,
                     "no portion, for no reason");
        if (device::is_leader(mask)) {
            std::uint64_t mine = 0;
            if (why == failure_reason::none) {
                heap.s.check(got.count == k && to_underlying(got.leaves) == leaves && (k == 0 || is_leftmost(got)),
                             "was granted something else than was asked for");
                mark(got);
                mine = add({nullptr, 0, got});
            }
            give(swap(mine));
        }
        if (device::from_leader(mask, heap.s.pick(3)) == 0) {
            device::drain_cache(heap.view, mask);
        }
    }

    /// A kernel that frees the portions on the pile.
    bool give_all() {
        heap.s.add_kernel({{static_cast<int>(pile_places)}}, [this](simt::thread_position at) {
            give(pile_[at.thread].exchange<simt::order::acq_rel>(0));
        });
        return heap.s.run();
    }

    [[nodiscard]] bool served_any() const { return held_.size() > 1; }

    heap_world heap;

private:
    static bool is_leftmost(const mailbox::grant& g) { return to_underlying(g.leaf) == 0; }
    /// The first leaf of its portion, counted from the heap's first.
    static std::uint32_t first_leaf(const mailbox::grant& g) {
        return to_underlying(g.tail_block()) * leaves_per_segment + to_underlying(g.leaf);
    }
    [[nodiscard]] char* begin_of_portion(const mailbox::grant& g) const {
        return heap.view.base + std::uint64_t{first_leaf(g)} * big_page_bytes;
    }

    void mark(const mailbox::grant& g) {
        const std::uint32_t reserved = to_underlying(reserved_for(heap.setup.portions_by, g.leaves));
        heap.s.check(first_leaf(g) % reserved == 0, "a portion is not the left child of a node");
        heap.mark(begin_of_portion(g), reserved * big_page_bytes);
        if (g.count != 0) {
            heap.mark(heap.view.address(to_underlying(g.first)), std::uint64_t{g.count} << segment_shift);
        }
    }
    void unmark(const mailbox::grant& g) {
        heap.unmark(begin_of_portion(g),
                    to_underlying(reserved_for(heap.setup.portions_by, g.leaves)) * big_page_bytes);
        if (g.count != 0) {
            heap.unmark(heap.view.address(to_underlying(g.first)), std::uint64_t{g.count} << segment_shift);
        }
    }

    std::uint64_t add(const held_memory& m) {
        held_.push_back(m);
        return held_.size() - 1;
    }
    /// Releases what this lane wrote to the one, and acquires what another wrote to the other.
    std::uint64_t swap(std::uint64_t mine) {
        return pile_[heap.s.pick(pile_places)].exchange<simt::order::acq_rel>(mine);
    }
    void give(std::uint64_t number) {
        const held_memory m = held_[number];
        if (m.block != nullptr) {
            heap.give(m.block, m.bytes);
        } else if (number != 0) {
            unmark(m.got);
            // As `cache_completion`: the tail first.
            device::keep_late_tail(heap.view, m.got);
            device::put_late_tails(heap.view);
            device::cache_put(heap.view, m.got);
        }
    }

    std::array<pile_word, pile_places> pile_{};  // numbers; 0: empty
    std::vector<held_memory> held_ = std::vector<held_memory>(1);
};

void run_padded_portions(world& w) {
    portions_world all(w, {.segments = 6 + w.s.pick(8),
                           .committed_at_start = 3,
                           .extent = 2,
                           .cache_target = w.s.pick(3),
                           .portions_by = portion_policy::padded});
    heap_world& heap = all.heap;
    heap.memory.commit_ns = 2'000;  // `growth` is the scenario with slow commits
    const auto kernel = [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            if (w.s.pick(4) == 0) {
                all.exchange_blocks();
            } else {
                all.exchange_portion();
            }
        }
    };
    w.s.add_kernel(w.size.blocks, kernel);
    w.s.add_kernel({w.size.blocks.back()}, kernel);
    if (!w.s.run()) {
        return;
    }
    w.s.check(all.served_any(), "no group got memory");
    // Includes the portions on the pile.
    const absl::Status in_use = heap.service.validate();
    w.s.check(in_use.ok(), std::string(in_use.message()));
    if (!all.give_all() || !heap.settle({class_of(padded_portions_sizes.back())})) {
        return;
    }
    heap.check_clean(0);
    w.s.check(w.s.owned() == 0, "a portion or a block is still owned");
    w.s.check(heap.sum(device::counter::live_chunks) == 0, "a chunk is counted as alive");
    w.s.check(heap.service.longest_free_run() == heap.service.counters().segments_committed.get(),
              "what was given back is not one run again");
}

const registrar padded_portions{{"padded_portions",
                                 "Portions with padding join segments and leave them, and go back to the host.",
                                 {{{3, 2}, {3}}, 2},
                                 run_padded_portions}};

}  // namespace
}  // namespace orchard::explore
