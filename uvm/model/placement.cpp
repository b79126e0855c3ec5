// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Where the memory of threads lies in a managed space; see placement.hpp.
///
///     address = chunk(warp)                                     place_chunks
///             + offset of the lane's byte in the chunk          linear: lane * lane_bytes_ + offset
///                                                               interleaved: lane_map::offset_of

#include "uvm/model/placement.hpp"

#include <algorithm>
#include <bit>

#include "absl/strings/str_format.h"
#include "uvm/geometry/geometry.hpp"
#include "uvm/model/trace_coding.hpp"

namespace orchard::uvm_model {

namespace {

// As many threads as the warps of a trace have: a placement's accesses can always be recorded.
constexpr std::uint64_t max_threads = std::uint64_t{max_trace_warps} * max_lanes;
constexpr std::uint64_t max_thread_bytes = 1ull << 43;  // the limit for a lane of a warp chunk
// Addresses and sums of sizes then stay far below 2^64.
constexpr std::uint64_t max_space_bytes = 1ull << 55;

/// Checks the numbers of a `thread_memory`, before anything is computed from them.
absl::Status check(const thread_memory& m) {
    if (m.threads == 0 || m.threads > max_threads) {
        return absl::InvalidArgumentError(absl::StrFormat("%d threads: 1 to %d are allowed", m.threads, max_threads));
    }
    if (m.bytes_per_thread == 0 || m.bytes_per_thread > max_thread_bytes) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%d bytes for each thread: 1 to %d are allowed", m.bytes_per_thread, max_thread_bytes));
    }
    const std::uint64_t e = m.element_bytes;
    if (e == 0 || e > bytes_of(largest_tile) || (e & (e - 1)) != 0 || e > m.bytes_per_thread) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "elements of %d bytes: a power of two up to %d is needed, and at most what a thread has (%d)", e,
            bytes_of(largest_tile), m.bytes_per_thread));
    }
    if (m.how.which == layout::choice::automatic) {
        return absl::InvalidArgumentError("the layout auto says nothing here: choose linear, or a tile");
    }
    if (m.by == placed_by::sync_malloc && m.how.which != layout::choice::linear) {
        return absl::InvalidArgumentError("sync_malloc gives each thread its bytes in one piece: choose linear");
    }
    return absl::OkStatus();
}

/// Returns the least multiple of `to` that is at least `n`.
constexpr std::uint64_t rounded_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

/// The largest request that SyncMalloc serves from slabs, in bytes.
constexpr std::uint64_t largest_slab_request = 512;

/// Returns the distance from lane to lane in one piece of memory, for lanes of `bytes` each.
constexpr std::uint64_t lane_distance(placed_by by, std::uint64_t bytes) {
    if (by == placed_by::service) {
        return rounded_up(bytes, lane_alignment);
    }
    return bytes > largest_slab_request ? rounded_up(bytes, os_page_bytes)
                                        : std::max<std::uint64_t>(lane_alignment, std::bit_ceil(bytes));
}

}  // namespace

absl::StatusOr<placement> placement::create(const thread_memory& of) {
    if (absl::Status s = check(of); !s.ok()) {
        return s;
    }
    placement p;
    p.memory_ = of;
    p.warps_ = static_cast<std::uint32_t>((of.threads + max_lanes - 1) / max_lanes);
    p.last_width_ = static_cast<std::uint32_t>(of.threads - (p.warps_ - std::uint64_t{1}) * max_lanes);
    if (p.linear()) {
        p.lane_bytes_ = lane_distance(of.by, of.bytes_per_thread);
        p.chunk_bytes_ = p.lane_bytes_ * max_lanes;
    } else {
        // As in the heap: a tile holds an element, and rests lie in tail rows if elements are not larger than an OS
        // page.
        const tile t = std::max(of.how.turn, tile_of(std::max(of.element_bytes, bytes_of(smallest_tile))));
        const auto map_of = [&](std::uint32_t width) {
            return of.element_bytes <= os_page_bytes ? lane_map::with_tail_rows(t, width, of.bytes_per_thread)
                                                     : lane_map::rows(t, width);
        };
        p.map_ = map_of(max_lanes);
        p.last_map_ = map_of(p.last_width_);
        p.chunk_bytes_ = p.map_.size(of.bytes_per_thread).bytes;
    }
    if (p.chunk_bytes_ > max_space_bytes / p.warps_ / 4) {
        return absl::InvalidArgumentError(absl::StrFormat("%d warps of %d bytes: more than %d bytes in all", p.warps_,
                                                          p.chunk_bytes_, max_space_bytes / 4));
    }
    p.place_chunks();
    return p;
}

/// Places groups of chunks that share a VA block, or one chunk with blocks of its own.
///
///     chunk of 5 leaves   packed    6 chunks of 5 leaves in a VA block, 2 leaves unused
///                         padded    a portion of 8 leaves and as much padding: 2 chunks in a VA block
///
/// A chunk shares a VA block if it is a portion alone: shorter than a segment, and of a length that the policy allows.
/// All others begin a VA block, and the rest of their last one stays unused, unless tails are pooled. With
/// `sync_malloc` nothing stays unused.
void placement::place_chunks() {
    if (memory_.by == placed_by::sync_malloc) {
        group_bytes_ = chunk_bytes_;  // the lanes of all warps, one after another
        bytes_ = rounded_up(warps_ * chunk_bytes_, segment_bytes);
        return;
    }
    const std::uint64_t whole = chunk_bytes_ / segment_bytes;
    const leaf_count own = portion_leaves(memory_.portions, leaves_for(chunk_bytes_ % segment_bytes));
    if (whole == 0 && to_underlying(own) != 0) {
        const std::uint32_t leaves = to_underlying(reserved_for(memory_.portions, own));
        chunk_bytes_ = leaves * big_page_bytes;
        chunks_per_group_ = leaves_per_segment / leaves;
        group_bytes_ = segment_bytes;
    } else if (to_underlying(own) != 0 && memory_.tails == tail_policy::pooled && !linear() &&
               last_width_ == max_lanes && map_.pages != 0 && map_.bytes_before_tail_rows() == whole * segment_bytes) {
        tail_bytes_ = to_underlying(reserved_for(memory_.portions, own)) * big_page_bytes;
        tails_bytes_ = segment_bytes;
        chunk_bytes_ = whole * segment_bytes;
        chunks_per_group_ = static_cast<std::uint32_t>(segment_bytes / tail_bytes_);
        group_bytes_ = segment_bytes + chunks_per_group_ * chunk_bytes_;
        bytes_ = chunk(warps_ - 1) + chunk_bytes_;
        return;
    } else {
        group_bytes_ = rounded_up(chunk_bytes_, segment_bytes);
    }
    bytes_ = (warps_ + std::uint64_t{chunks_per_group_} - 1) / chunks_per_group_ * group_bytes_;
}

/// Goes from the group to the chunk to the lane. An address behind the last chunk of a group, or behind the last lane
/// of a linear chunk, counts as a part of that chunk or lane, so that its offset is beyond the thread's bytes. In a
/// block of tails, the offset of a tail begins where that of its chunk's segments ends.
thread_byte placement::byte_at(std::uint64_t address) const {
    const std::uint64_t group = address / group_bytes_;
    const bool in_tail = address % group_bytes_ < tails_bytes_;
    const std::uint64_t in_group = address % group_bytes_ - (in_tail ? 0 : tails_bytes_);
    const std::uint64_t distance = in_tail ? tail_bytes_ : chunk_bytes_;
    const std::uint64_t chunk = std::min<std::uint64_t>(in_group / distance, chunks_per_group_ - 1);
    const std::uint64_t warp = group * chunks_per_group_ + chunk;
    const std::uint64_t offset = in_group - chunk * distance + (in_tail ? chunk_bytes_ : 0);
    if (linear()) {
        const std::uint64_t lane = std::min<std::uint64_t>(offset / lane_bytes_, max_lanes - 1);
        return {warp * max_lanes + lane, offset - lane * lane_bytes_};
    }
    const lane_map& map = warp + 1 == warps_ ? last_map_ : map_;
    if (offset >= map.size(memory_.bytes_per_thread).bytes) {
        // Behind the chunk's last row: no lane's byte. The map is not asked: it has no such row.
        return {warp * max_lanes, ~std::uint64_t{0}};
    }
    const lane_byte found = map.byte_at(offset);
    return {warp * max_lanes + lane_at(memory_.order, map.width, found.position), found.offset};
}

}  // namespace orchard::uvm_model
