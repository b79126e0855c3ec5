// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `by_warp_ref`: a heap whose small requests are grouped by the warp, and not by the class of their size. The lanes of
/// a warp that call together get one block of the heap, whatever their sizes, as in XMalloc (xmalloc_ref.cuh). It is
/// here for the comparison with `heap_ref`, which makes one claim for each class that the lanes ask for.
///
///     malloc(bytes)
///       small, and another lane too ? ask together            one block of the heap for the lanes: a shared block
///                              else   ask alone               a block of the heap for this lane alone
///
///     shared block   | header | of a lane | header | of another lane | header | of a third lane |
///     block alone    | header | of the lane |
///
/// Before each lane's memory stands a header of 16 B. It says how far before it the heap's block begins, or that the
/// block is not shared. The first header of a shared block counts the lanes that have not freed their part; the free of
/// the last one frees the block.
///
/// Source: X. Huang et al., *Scalable SIMD-parallel memory allocation for many-core machines*, 2011 (section 5, figure
/// 4). Differences from `xmalloc_ref` without queues: docs/xmalloc.md.

#include <cstdint>

#include "device/group/lane_sums.cuh"
#include "device/group/leader.cuh"
#include "device/heap_ref.cuh"
#include "device/published/device_allocator.cuh"
#include "device/simt/mutation.cuh"

namespace orchard {

/// The view of a heap by warps in kernels. Trivially copyable; pass it by value. It is valid while the heap lives. The
/// heap's own blocks are freed by `heap_ref` alone, and blocks of this view by this view.
///
/// @tparam MostShared  bytes of a shared block, with its headers, at most
template <std::uint32_t MostShared>
class by_warp_ref {
    static_assert(MostShared >= 512 && MostShared <= largest_page_bytes && MostShared % 16 == 0);

public:
    /// A request of more bytes is served alone, so that a shared block has room for the requests of several lanes.
    static constexpr std::uint32_t most_bytes_shared = MostShared / 8;

    by_warp_ref() = default;
    ORCHARD_INLINE explicit by_warp_ref(const heap_ref& heap) : heap_{heap} {}

    /// Returns memory of at least `bytes`, aligned to 16 B, which no other block overlaps; null for 0 bytes, for more
    /// than the heap serves, and if memory lacks. Any thread, in any divergence. Lanes that call at the same time share
    /// a block as far as it has room: the first ones by their numbers. If the heap has no memory for that block, each
    /// lane asks alone, and the heap has recorded the failure of the first request. Cost: a match, a ballot for each
    /// bit of the sizes, and `heap_ref::malloc`, in which the lanes that ask alone go on together with one lane of
    /// those that share.
    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        if (bytes == 0 || bytes > most_bytes) {
            return nullptr;
        }
        // The lanes that ask the same heap. The address of its state identifies it.
        const simt::lane_mask same =
            simt::match(simt::converge(), reinterpret_cast<std::uintptr_t>(heap_.view().state));
        part mine = simt::by_mask(same, [&](simt::lane_mask mask) { return part_of(mask, bytes); });
        // One call for all, so that its code is inlined once: the second round is for lanes whose group got no block.
        for (;;) {
            const bool shares = mine.group != 0;
            const std::uint64_t asked = shares ? mine.asked() : bytes + header_bytes;
            auto* const block = static_cast<header*>(heap_.malloc(asked));
            void* const p = shares ? take_part(mine, block) : begin_alone(block);
            if (p != nullptr || !shares) {
                return p;
            }
            mine.group = 0;
        }
    }

    /// Frees what `malloc` returned; does nothing for null. Any thread of any kernel, in any divergence. It never
    /// waits. Cost: a load; for parts of shared blocks a match, a barrier, and for each block an atomic whose result is
    /// awaited; `heap_ref::free` for the blocks that are not shared, and for shared ones of which no part is left.
    ORCHARD_FN void free(void* p) const {
        if (p == nullptr) {
            return;
        }
        header* block = static_cast<header*>(p) - 1;
        const std::uint64_t offset = block->offset.get();
        bool last = offset == not_shared;
        const simt::lane_mask shared = simt::ballot(simt::converge(), !last);
        if (!last) {
            block -= offset;
            last = leave(shared, block);
        }
        heap_.free(last ? block : nullptr);
    }

    /// Returns the heap that blocks come from.
    [[nodiscard]] ORCHARD_INLINE const heap_ref& heap() const { return heap_; }

private:
    static constexpr std::uint32_t header_bytes = 16;
    static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 47;  ///< so that no sum wraps
    static constexpr std::uint64_t not_shared = ~std::uint64_t{0};

    /// Before each lane's memory. The thread that frees it reads what the thread wrote that allocated it; a program
    /// orders the two.
    struct alignas(header_bytes) header {
        simt::plain<std::uint64_t> offset;       ///< headers from the first one of the block to here, or `not_shared`
        simt::device_word<std::uint64_t> count;  ///< of the first one of a shared block: parts that are in use
    };
    static_assert(sizeof(header) == header_bytes);

    /// The part of a lane in a shared block.
    struct part {
        simt::lane_mask group = 0;  ///< the lanes that share the block, at least two; 0: the lane asks alone
        std::uint32_t units = 0;    ///< of 16 B: of the leader, whose part is the first one, those of the block; of
                                    ///< others those before their part

        /// Return the bytes that the lane asks the heap for, and the number of headers from the block's to its own.
        [[nodiscard]] ORCHARD_INLINE std::uint32_t asked() const { return leads() ? units * header_bytes : 0; }
        [[nodiscard]] ORCHARD_INLINE std::uint32_t offset() const { return leads() ? 0 : units; }
        [[nodiscard]] ORCHARD_INLINE bool leads() const { return device::is_leader(group); }
    };

    /// Returns the calling lane's part. All lanes of `same` call it, converged; they ask one heap.
    ORCHARD_INLINE part part_of(simt::lane_mask same, std::uint64_t bytes) const {
        const bool small = bytes <= most_bytes_shared;
        const std::uint32_t units =
            small ? (static_cast<std::uint32_t>(bytes) + header_bytes - 1) / header_bytes + 1 : 0;
        const auto before = static_cast<std::uint32_t>(device::sum_lanes(same, units).before);
        const std::uint32_t end = before + units;
        // The ends grow from lane to lane, so that the lanes that fit are the first ones, and the block ends where the
        // part of the last of them ends. Two of the largest parts fit.
        const simt::lane_mask group = simt::ballot(same, small && end <= MostShared / header_bytes);
        const std::uint32_t all =
            simt::shuffle(same, end, group != 0 ? simt::highest_bit(group) : simt::leader_of(same));
        const bool shares = (group & (group - 1)) != 0 && (group >> simt::lane_id() & 1) != 0;
        return shares ? part{group, device::is_leader(group) ? all : before} : part{};
    }

    /// Returns the calling lane's memory in a shared block, or null if there is no block. All lanes of the part's group
    /// call it, converged; the leader passes the block, or null.
    ORCHARD_INLINE static void* take_part(const part& mine, header* block) {
        if (mine.leads() && block != nullptr) {
            // Relaxed: `sync` orders it before the lanes' frees, and before those of threads that they order.
            block->count.template store<simt::order::relaxed>(static_cast<std::uint64_t>(simt::popcount(mine.group)));
        }
        const std::uint64_t address = device::from_leader(mine.group, reinterpret_cast<std::uint64_t>(block));
        simt::sync(mine.group);
        return address == 0 ? nullptr : begin(reinterpret_cast<header*>(address) + mine.offset(), mine.offset());
    }
    /// Returns the memory of a block that is not shared, or null if there is no block.
    ORCHARD_INLINE static void* begin_alone(header* block) {
        return block == nullptr ? nullptr : begin(block, not_shared);
    }
    /// Returns the memory behind a header, after it is set.
    ORCHARD_INLINE static void* begin(header* own, std::uint64_t offset) {
        own->offset.set(offset);
        return own + 1;
    }

    /// Gives a lane's part of a shared block back, and returns whether this lane must free the block. All lanes of
    /// `shared` call it, converged, each with the block of its part.
    ORCHARD_INLINE bool leave(simt::lane_mask shared, header* block) const {
        const auto key = reinterpret_cast<std::uint64_t>(block);
        // One block is the usual case, for which a match takes longer than a shuffle and a ballot.
        const bool one = simt::ballot(shared, simt::shuffle(shared, key, simt::leader_of(shared)) != key) == 0;
        const simt::lane_mask peers = one ? shared : simt::match(shared, key);
        // Orders the lanes' use of their parts before their leader's release.
        simt::sync(shared);
        if (!device::is_leader(peers)) {
            return false;
        }
        const auto parts = static_cast<std::uint64_t>(simt::popcount(peers));
        // Release: the use of these parts. Acquire: the use of all other parts, before the block is free.
        simt::mutation::weaken_next(simt::mutation::fault::area_count);
        return block->count.template fetch_sub<simt::order::acq_rel>(parts) == parts;
    }

    heap_ref heap_;
};

static_assert(device::device_allocator<by_warp_ref<8192>>);

}  // namespace orchard
