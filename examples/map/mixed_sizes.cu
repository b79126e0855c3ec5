// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The heap of `orchard map --example`.

#include "examples/map/mixed_sizes.hpp"

#include "device/heap_arrays_impl.cuh"
#include "device/heap_ref_impl.cuh"
#include "runtime/cli/program_heap.hpp"

namespace orchard::examples {
namespace {

/// Returns a number that looks random: the finalizer of SplitMix64.
ORCHARD_FN inline std::uint64_t scattered(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/// Each thread asks for blocks, and frees some of them. Threads of a warp ask for sizes of one kind, so that large ones
/// share chunks.
struct ask_for_mixed_sizes {
    heap_ref heap;
    std::uint32_t rounds;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t warp = at.global_thread() / simt::warp_size;
        for (std::uint32_t i = 0; i < rounds; ++i) {
            const std::uint64_t of_warp = scattered(warp * 1000 + i);
            const std::uint64_t mine = scattered(at.global_thread() * 1000003 + i);
            const std::uint64_t kind = of_warp % 16;
            void* p = nullptr;
            if (kind < 8) {
                p = heap.malloc(16 + mine % 1024);
            } else if (kind < 12) {
                p = heap.malloc((1 << 10) + mine % (15 << 10));
            } else if (kind < 14) {
                p = at.global_thread() % 4 == 0 ? heap.malloc((16 << 10) + mine % (240 << 10)) : nullptr;
            } else if (kind < 15) {
                // Chunks of one lane or more, with tails.
                const bool asks = of_warp / 16 % 4 == 0 && at.global_thread() % 16 == of_warp / 64 % 16;
                p = asks ? heap.malloc((600 << 10) + mine % (4 << 20)) : nullptr;
            } else {
                const lane_array<float> a =
                    heap.allocate_array<float>(512 + of_warp / 16 % 16384, layout::interleaved(tile::b4));
                if (of_warp / 16 % 4 == 0) {
                    heap.free_array(a);
                }
            }
            if (mine / 1024 % 3 == 0) {
                heap.free(p);
            }
        }
    }
};

}  // namespace

absl::StatusOr<heap_map> map_of_mixed_sizes(const options& values) {
    options of_heap = values;
    of_heap.capacity = 256 * mib;
    of_heap.host_budget = 256 * mib;
    if (values.backing == backing_option::automatic) {
        of_heap.backing = backing_option::elastic;
    }
    absl::StatusOr<heap> h = command_line::create_heap(of_heap);
    if (!h.ok()) {
        return h.status();
    }
    absl::Status loaded = h->preload<ask_for_mixed_sizes>();
    if (!loaded.ok()) {
        return loaded;
    }
    const simt::launch_result result =
        simt::launch(h->executor(), simt::grid{16, 256}, ask_for_mixed_sizes{h->ref(), 8});
    if (!result.ok) {
        return absl::InternalError(result.error);
    }
    return h->map();
}

}  // namespace orchard::examples
