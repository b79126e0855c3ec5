// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes ask together for blocks of unequal sizes and alignments: for pages of classes that have the alignment, and for
/// blocks of a warp chunk, each of which begins at a multiple of its own lane's alignment. A request of `malloc` for a
/// power of two is aligned to it.

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

/// A request; an alignment of 0 stands for `malloc`.
struct aligned_wish {
    std::uint64_t alignment;
    std::uint64_t bytes;
};

constexpr std::array<aligned_wish, 6> page_wishes{{{64, 72}, {256, 264}, {4'096, 5'000}, {0, 64}, {0, 128}, {16, 80}}};
// Blocks of odd lengths, so that the next one is aligned only if its lane is heeded.
constexpr std::array<aligned_wish, 6> chunk_wishes{
    {{4'096, 600'000}, {256, 530'000}, {64 << 10, 530'000}, {1 << 20, 600'000}, {1 << 20, 100}, {2 << 20, 300}}};
constexpr std::uint64_t chunk_alignment = 256;  ///< of every block of a chunk

class alignments_world {
public:
    alignments_world(world& w, const heap_setup& setup) : heap{w, setup} {}

    /// Asks for a block, checks it, and frees the block of the round before.
    void take_one(bool of_chunk, void*& held, std::uint64_t& held_bytes) {
        const aligned_wish wish =
            of_chunk ? chunk_wishes[heap.s.pick(chunk_wishes.size())] : page_wishes[heap.s.pick(page_wishes.size())];
        void* const p =
            wish.alignment == 0 ? heap.ref.malloc(wish.bytes) : heap.ref.aligned_alloc(wish.alignment, wish.bytes);
        if (p != nullptr) {
            const std::uint64_t promised =
                std::max(wish.alignment == 0 ? wish.bytes : wish.alignment, of_chunk ? chunk_alignment : 16);
            heap.s.check(reinterpret_cast<std::uintptr_t>(p) % promised == 0,
                         absl::StrFormat("a block of %d B is not aligned to %d B", wish.bytes, promised));
            heap.mark(p, wish.bytes);
        }
        give(held, held_bytes);
        held = p;
        held_bytes = wish.bytes;
    }

    void give(void*& held, std::uint64_t bytes) {
        if (held != nullptr) {
            heap.give(held, bytes);
            held = nullptr;
        }
    }

    /// As `heap_world::settle`, for all classes that requests may have used.
    bool settle() {
        heap.s.add_kernel({{1}}, [this](simt::thread_position) {
            for (std::uint32_t c = 0; c < class_of(16 << 10); ++c) {
                device::retire_empty_slabs(heap.view, 1, c);
            }
        });
        return heap.s.run() && heap.settle({});
    }

    heap_world heap;
};

void run_alignments(world& w) {
    alignments_world all(w, {.segments = 24 + w.s.pick(8),
                             .committed_at_start = 12,
                             .extent = 4,
                             .portions_by = w.s.pick(2) == 0 ? portion_policy::packed : portion_policy::padded});
    all.heap.memory.commit_ns = 2'000;
    const std::uint32_t start = w.s.pick(2);
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
        void* held = nullptr;
        std::uint64_t bytes = 0;
        for (int i = 0; i < w.size.operations; ++i) {
            // The lanes of a warp ask for the same kind, so that they share chunks.
            all.take_one((start + at.thread / simt::warp_size + static_cast<std::uint32_t>(i)) % 2 == 0, held, bytes);
        }
        all.give(held, bytes);
    });
    if (w.s.run() && all.settle()) {
        all.heap.check_empty();
    }
}

const registrar alignments{{"alignments",
                            "Lanes ask together for pages and chunks of unequal alignments.",
                            {{{4, 3}, {3}}, 3},
                            run_alignments}};

}  // namespace
}  // namespace orchard::explore
