// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Arrays of lanes, interleaved in warp chunks, of several layouts and sizes. Lanes of two concurrent kernels allocate
/// them, alone or together with lanes of their warp, and leave them on a pile. Lanes of any warp take arrays from the
/// pile and free them, while chunks return and are used again. Heaps have room for all arrays, or for few.

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

using pile_word = simt::device_word<std::uint64_t>;
using element = simt::plain<std::uint64_t>;
using array_of_lane = lane_array<element>;

constexpr std::uint32_t pile_places = 5;
constexpr std::uint32_t counts_each = 4;

/// A possible request of a lane: a layout, and one of some numbers of elements. The first two are similar, but not
/// equal.
struct wish {
    layout how;
    std::array<std::uint64_t, counts_each> counts;
};
constexpr std::array<wish, 7> wishes{{
    {layout::interleaved(tile::b16), {514, 640, 100, 40}},
    {layout::interleaved(tile::k4), {9 * 512, 10 * 512, 2 * 512, 2'600}},
    {layout::interleaved(tile::k64), {19 * 512, 20 * 512, 3 * 512, 48 * 512}},
    {layout::interleaved(tile::k64), {100'000, 102'000, 144'000, 40'000}},   // chunks of whole segments
    {layout::interleaved(tile::k64), {135'000, 135'000, 135'000, 100'000}},  // as above, mostly of one length
    {layout::automatic(), {2'100, 2'500, 8'192, 4'000}},
    {layout::linear(), {512, 8'192, 70'000, 2'048}},
}};

/// An array that a lane holds; the contents of its elements follow from the number.
struct held_array {
    array_of_lane a;
    std::uint64_t number = 0;
    [[nodiscard]] std::uint64_t word(std::uint64_t index) const { return number << 32 | index; }
};

/// Calls `act` for some pieces of an array: all of its tiles if they are few, and its end in any case.
template <class Act>
void for_some_pieces(const array_of_lane& a, Act act) {
    constexpr std::uint64_t about = 5;
    std::uint64_t end = 0;
    for (std::uint64_t i = 0; i < a.size();) {
        const auto piece = a.span_at(i);
        act(piece);
        end = i + piece.count;
        i += std::max(piece.count, a.size() / about);
    }
    if (end < a.size()) {
        act(a.span_at(a.size() - 1));
    }
}

class arrays_world {
public:
    arrays_world(world& w, const heap_setup& setup, bool has_room) : heap{w, setup}, has_room_{has_room} {
        w.s.name_words(pile_.data(), sizeof(pile_), "pile", sizeof(pile_word));
        for (const wish& x : wishes) {
            for (const std::uint64_t count : x.counts) {
                if (count * sizeof(element) <= largest_page_bytes) {
                    classes_.insert(class_of(static_cast<std::uint32_t>(count * sizeof(element))));
                }
            }
        }
    }

    /// Asks for an array, leaves it on the pile, and frees what lay there. `which`: the wish of those of its warp.
    void exchange_one(std::uint32_t which) {
        auto& s = heap.s;
        const wish& x = wishes[s.pick(4) == 0 ? s.pick(wishes.size()) : which % wishes.size()];
        const std::uint64_t mine = take(x.counts[s.pick(counts_each)], x.how);
        // Releases what this lane wrote to the one, and acquires what another wrote to the other.
        give(pile_[s.pick(pile_places)].exchange<simt::order::acq_rel>(mine));
    }

    /// A kernel that frees what lies on the pile: the lanes of one warp.
    bool free_all() {
        heap.s.add_kernel({{static_cast<int>(pile_places)}}, [this](simt::thread_position at) {
            give(pile_[at.thread].exchange<simt::order::acq_rel>(0));
        });
        return heap.s.run();
    }

    /// As `heap_world::settle`, for all classes that contain only arrays of lanes.
    bool settle() {
        heap.s.add_kernel({{1}}, [this](simt::thread_position) {
            for (const std::uint32_t c : classes_) {
                device::retire_empty_slabs(heap.view, 1, c);
            }
        });
        return heap.s.run() && heap.settle({});
    }

    /// By the service's own account: its counters may be those of the poll before.
    [[nodiscard]] std::uint32_t segments_granted() const {
        std::uint32_t n = 0;
        for (std::uint32_t i = 0; i < heap.setup.segments; ++i) {
            n += heap.service.is_granted(segment_index{i}) ? 1 : 0;
        }
        return n;
    }
    [[nodiscard]] bool served_any() const { return held_.size() > 1; }

    heap_world heap;

private:
    /// Allocates an array and returns its number, after checking that no other owner has an element of it; 0 without
    /// memory.
    std::uint64_t take(std::uint64_t count, layout how) {
        const array_of_lane a = heap.ref.allocate_array<element>(count, how);
        if (a.empty()) {
            heap.s.check(!has_room_, "no array, although the heap has room for all");
            return 0;
        }
        heap.s.check(a.size() == count, "an array is not as long as was asked for");
        const held_array h{a, held_.size()};
        held_.push_back(h);
        for_some_pieces(a, [&](const tile_span<element>& piece) {
            const std::uint64_t last = piece.count - 1;
            heap.s.check(heap.ref.owns(piece.data) && heap.ref.owns(&piece[last]), "an array beyond the heap");
            heap.s.own(piece.data, piece.count * sizeof(element), "a piece of an array");
            piece[0].set(h.word(piece.first));
            piece[last].set(h.word(piece.first + last));
        });
        return h.number;
    }

    /// Checks that an array is as its owner left it, and frees it.
    void give(std::uint64_t number) {
        if (number == 0) {
            return;
        }
        const held_array h = held_[number];
        for_some_pieces(h.a, [&](const tile_span<element>& piece) {
            const std::uint64_t last = piece.count - 1;
            heap.s.check(
                piece[last].get() == h.word(piece.first + last) && (last == 0 || piece[0].get() == h.word(piece.first)),
                "an array changed while it was owned");
            heap.s.disown(piece.data);
        });
        heap.ref.free_array(h.a);
    }

    std::array<pile_word, pile_places> pile_{};  // numbers; 0: empty
    std::vector<held_array> held_ = std::vector<held_array>(1);
    std::set<std::uint32_t> classes_;
    bool has_room_;
};

heap_setup setup_of(world& w, bool has_room) {
    return {.segments = has_room ? 56 : 5 + w.s.pick(7),
            .committed_at_start = 4,
            .extent = 3,
            .cache_target = w.s.pick(3),
            .portions_by = w.s.pick(2) == 0 ? portion_policy::packed : portion_policy::padded,
            .tails_by = w.s.pick(2) == 0 ? tail_policy::adjacent : tail_policy::pooled};
}

void run_arrays(world& w) {
    const bool has_room = w.s.pick(2) == 0;
    arrays_world all(w, setup_of(w, has_room), has_room);
    heap_world& heap = all.heap;
    heap.memory.commit_ns = 2'000;  // `growth` is the scenario with slow commits
    const std::uint32_t start = w.s.pick(wishes.size());
    const auto kernel = [&](simt::thread_position at) {
        for (int i = 0; i < w.size.operations; ++i) {
            all.exchange_one(start + at.block + at.thread / simt::warp_size + static_cast<std::uint32_t>(i));
        }
    };
    w.s.add_kernel(w.size.blocks, kernel);
    w.s.add_kernel({w.size.blocks.back()}, kernel);
    if (!w.s.run() || !all.settle()) {
        return;
    }
    w.s.check(all.served_any(), "no group got memory");
    // Includes the arrays on the pile.
    heap.check_clean(all.segments_granted());
    if (!all.free_all() || !all.settle()) {
        return;
    }
    heap.check_clean(0);
    w.s.check(w.s.owned() == 0, "a piece of an array is still owned");
    heap.check_counts();
}

const registrar arrays{{"arrays",
                        "Interleaved arrays of lanes, freed by lanes of other warps and kernels.",
                        {{{4, 3}, {3}}, 2},
                        run_arrays}};

}  // namespace
}  // namespace orchard::explore
