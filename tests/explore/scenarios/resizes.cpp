// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes of two concurrent kernels allocate blocks and leave them on a pile. Lanes of any warp take blocks from the
/// pile, resize them, and put them back. A block keeps its bytes up to the smaller of both sizes, and `realloc` writes
/// no byte behind these, beyond the multiple of 16 B to which a copy may be rounded up.
///
/// Each word of a block says whose it is and where it lies. A word of the new block behind the old size that names
/// another place was therefore copied from behind the old block.

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

using pile_word = simt::device_word<std::uint64_t>;

/// Sizes that move up and down between classes. Some are one byte more than a multiple of 16: only then is one byte
/// less to copy one access less.
constexpr std::array<std::uint64_t, 7> resizes_sizes{33, 48, 81, 160, 200, 513, 1'025};
constexpr std::uint32_t pile_places = 4;
constexpr std::uint64_t copy_unit = 16;

/// A block that a lane holds.
struct sized_block {
    char* at = nullptr;
    std::uint64_t bytes = 0;  ///< usable
    std::uint64_t number = 0;
};

class resizes_world {
public:
    resizes_world(world& w, const heap_setup& setup) : heap{w, setup} {
        w.s.name_words(pile_.data(), sizeof(pile_), "pile", sizeof(pile_word));
    }

    /// Takes what lies on the pile and resizes it, or allocates a block; leaves it on the pile, and frees what was put
    /// there meanwhile.
    void exchange_one() {
        const std::uint64_t bytes = resizes_sizes[heap.s.pick(resizes_sizes.size())];
        const std::uint64_t old = swap(0);
        const std::uint64_t mine = old != 0 ? resize(held_[old], bytes) : hold(heap.ref.malloc(bytes));
        give(swap(mine));
    }

    /// A kernel that frees the blocks on the pile.
    bool give_all() {
        heap.s.add_kernel({{static_cast<int>(pile_places)}}, [this](simt::thread_position at) {
            give(pile_[at.thread].exchange<simt::order::acq_rel>(0));
        });
        return heap.s.run();
    }

    /// As `heap_world::settle`, for the classes of all sizes.
    bool settle() {
        std::set<std::uint32_t> classes;
        for (const std::uint64_t bytes : resizes_sizes) {
            classes.insert(class_of(static_cast<std::uint32_t>(bytes)));
        }
        heap.s.add_kernel({{1}}, [this, classes](simt::thread_position) {
            for (const std::uint32_t c : classes) {
                device::retire_empty_slabs(heap.view, 1, c);
            }
        });
        return heap.s.run() && heap.settle({});
    }

    heap_world heap;

private:
    /// Returns word `index` of the block: its number, and the word's place in the heap.
    [[nodiscard]] std::uint64_t word(const sized_block& b, std::uint64_t index) const {
        return b.number << 32 | (static_cast<std::uint64_t>(b.at - heap.view.base) / 8 + index);
    }
    [[nodiscard]] static std::uint64_t read(const char* at) {
        std::uint64_t found = 0;
        std::memcpy(&found, at, sizeof(found));
        return found;
    }

    /// Fills a new block, whose owner the lane becomes. Returns its number; 0 without memory.
    std::uint64_t hold(void* p) {
        if (p == nullptr) {
            return 0;
        }
        const sized_block b{static_cast<char*>(p), heap.ref.usable_size(p), held_.size()};
        heap.s.own(b.at, b.bytes, "a block");
        for (std::uint64_t i = 0; i < b.bytes / 8; ++i) {
            const std::uint64_t wanted = word(b, i);
            std::memcpy(b.at + i * 8, &wanted, sizeof(wanted));
        }
        held_.push_back(b);
        return b.number;
    }

    /// Checks that `b` is as its owner left it, in the first `n` bytes at `at`.
    void expect_contents(const sized_block& b, const char* at, std::uint64_t n) {
        bool same = true;
        for (std::uint64_t i = 0; i < n; i += 8) {
            const std::uint64_t wanted = word(b, i / 8);
            same = same && std::memcmp(at + i, &wanted, std::min<std::uint64_t>(8, n - i)) == 0;
        }
        heap.s.check(same, at == b.at ? "a block changed while it was owned" : "a block lost bytes when it moved");
    }

    /// Resizes a block. Returns its new number, or the old one if there is no memory for more.
    std::uint64_t resize(const sized_block b, std::uint64_t bytes) {
        expect_contents(b, b.at, b.bytes);
        heap.s.disown(b.at);  // `realloc` frees it
        auto* const moved = static_cast<char*>(heap.ref.realloc(b.at, bytes));
        if (moved == nullptr || moved == b.at) {
            heap.s.check(moved != nullptr || bytes > b.bytes, "no block, although the old one is large enough");
            heap.s.own(b.at, b.bytes, "a block");
            return b.number;
        }
        const std::uint64_t kept = std::min(b.bytes, bytes);
        expect_contents(b, moved, kept);
        const std::uint64_t usable = heap.ref.usable_size(moved);
        heap.s.check(usable >= bytes, "a block is smaller than was asked for");
        for (std::uint64_t i = (kept + copy_unit - 1) / copy_unit * copy_unit; i < usable; i += 8) {
            const std::uint64_t found = read(moved + i);
            const auto place = static_cast<std::uint64_t>(moved + i - heap.view.base) / 8;
            heap.s.check(found == 0 || (found & 0xffff'ffff) == place, "bytes came along that were not the block's");
        }
        return hold(moved);
    }

    void give(std::uint64_t number) {
        if (number != 0) {
            const sized_block b = held_[number];
            expect_contents(b, b.at, b.bytes);
            heap.s.disown(b.at);
            heap.ref.free(b.at);
        }
    }

    /// Releases what this lane wrote to the one, and acquires what another wrote to the other.
    std::uint64_t swap(std::uint64_t mine) {
        return pile_[heap.s.pick(pile_places)].exchange<simt::order::acq_rel>(mine);
    }

    std::array<pile_word, pile_places> pile_{};  // numbers; 0: empty
    std::vector<sized_block> held_ = std::vector<sized_block>(1);
};

void run_resizes(world& w) {
    resizes_world all(w, {.segments = 8 + w.s.pick(8), .committed_at_start = 8, .extent = 3});
    all.heap.memory.commit_ns = 2'000;
    const auto kernel = [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            all.exchange_one();
        }
    };
    w.s.add_kernel(w.size.blocks, kernel);
    w.s.add_kernel({w.size.blocks.back()}, kernel);
    if (w.s.run() && all.give_all() && all.settle()) {
        all.heap.check_empty();
    }
}

const registrar resizes{{"resizes",
                         "Blocks are resized by lanes of other warps, and keep their bytes and no others.",
                         {{{4, 3}, {3}}, 4},
                         run_resizes}};

}  // namespace
}  // namespace orchard::explore
