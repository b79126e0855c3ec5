// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Blocks that the host allocates and frees; host_blocks.hpp draws both ways.
///
///     allocate(bytes)
///       cut_for            how a chunk for this size is cut
///       open_[size]        a chunk of this size that is begun: its next block, and nothing more
///       take_chunk         else a new chunk
///         from_              a place, from the service
///         describe
///           note_grant         the end of the range that the device searches
///           describe_portion   or describe_segments: record, owners, descriptor, live bits
///
///     free(p)            host_free_queue::push: waiting_, then the ring as far as it has room
///     give_up()          the same for all blocks of open_

#include "runtime/heap/host_blocks.hpp"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"

namespace orchard {
namespace {

using device::descriptor;
using device::segment_kind;
using simt::order;

/// A smaller block occupies this much, because a chunk has at most 32 blocks and at least one leaf of 64 KiB.
constexpr std::uint64_t least_block = big_page_bytes / simt::warp_size;
/// A larger block is a chunk of its own.
constexpr std::uint64_t max_shared = 256 << 10;

/// Returns `n` rounded up to a multiple of `to`.
constexpr std::uint64_t rounded_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

}  // namespace

/// The queue keeps the order of the frees: a block that does not fit into the ring waits behind those before it.
absl::Status host_free_queue::push(std::uint64_t offset) {
    waiting_.push_back(offset);
    return flush();
}

/// The position of the next entry is `posted_` modulo the capacity. `taken` is read only if the ring seems full: a
/// value that is too low makes the room look smaller than it is, and never larger.
absl::Status host_free_queue::flush() {
    constexpr std::uint64_t capacity = device::host_free_ring::capacity;
    while (!waiting_.empty()) {
        if (posted_ - taken_ == capacity) {
            device::device_word<std::uint64_t> now{0};
            auto s =
                memory_.read(static_cast<void*>(&now), static_cast<const void*>(&view_.host_frees->taken), sizeof(now));
            if (!s.ok()) {
                return s;
            }
            // Relaxed: the wait for the copy has ordered it. The device has read the entries below `taken` before it
            // raised it.
            taken_ = now.load<order::relaxed>();
        }
        // The counts only grow, so that their difference is the number of entries in use.
        const std::uint64_t room = capacity - (posted_ - taken_);
        // The device has not taken any; a later call tries again. A kernel takes them, so that waiting here could be
        // for ever.
        if (room == 0) {
            return absl::OkStatus();
        }
        // Written in one copy: up to the ring's end, and at most as much as one copy may have.
        constexpr std::uint64_t most = 4096 / sizeof(std::uint64_t);
        const std::uint64_t count =
            std::min({room, static_cast<std::uint64_t>(waiting_.size()), capacity - posted_ % capacity, most});
        if (auto s = write_some(count); !s.ok()) {
            return s;
        }
    }
    return absl::OkStatus();
}

/// Copies the next `count` frees to the ring, then raises `posted`, which device threads acquire: the two copies are
/// made one after the other, so that a thread which sees the count finds the entries. `posted_` moves only if both
/// copies succeeded. After an error the same frees are written to the same entries again, with a count at least as
/// high. A copy that takes effect late therefore changes nothing, and no block is freed twice.
absl::Status host_free_queue::write_some(std::uint64_t count) {
    // A copy needs contiguous memory; a deque has none.
    std::vector<std::uint64_t> offsets(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
    auto& ring = *view_.host_frees;
    auto s = memory_.write(static_cast<void*>(&ring.offset[posted_ % device::host_free_ring::capacity]), offsets.data(),
                           count * sizeof(std::uint64_t));
    if (!s.ok()) {
        return s;
    }
    const std::uint64_t posted = posted_ + count;
    if (s = memory_.write(static_cast<void*>(&ring.posted), &posted, sizeof(posted)); !s.ok()) {
        return s;
    }
    posted_ = posted;
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
    return s;
}

/// Returns how a chunk for blocks of `bytes` is cut: with as few leaves as keep the waste at an eighth of the chunk at
/// most. Block sizes are those of page classes, so that few chunks are open at a time.
///
///     bytes        one block       chunk
///         100        2,048 B       1 leaf,    32 blocks
///      10,000       10,240 B       1 leaf,     6 blocks, 4 KiB left
///      40,000       40,960 B       2 leaves,   3 blocks, 8 KiB left; 1 leaf would hold one block and waste 24 KiB
///     3 MiB         3 MiB          1 segment and 16 leaves, 1 block
host_blocks::cut host_blocks::cut_for(std::uint64_t bytes) const {
    cut c;
    // A chunk of its own: segments, and a tail for the rest.
    if (bytes > max_shared) {
        c.bytes = rounded_up(bytes, device::chunk_block_alignment);
        c.blocks = 1;
        c.segments = static_cast<std::uint32_t>(c.bytes >> segment_shift);
        const leaf_count left = leaves_for(c.bytes % segment_bytes);
        c.leaves = portion_leaves(view_.portions_by, left);
        // A tail that no portion can hold takes a whole segment more.
        c.segments += to_underlying(left) != 0 && to_underlying(c.leaves) == 0 ? 1 : 0;
        return c;
    }
    // The sizes of page classes, at least 2 KiB and a multiple of 256 B. Few sizes, so that few chunks are begun at a
    // time.
    const std::uint32_t page_class = class_of(static_cast<std::uint32_t>(std::max(bytes, least_block)));
    c.bytes = rounded_up(class_bytes(page_class), device::chunk_block_alignment);
    for (std::uint32_t leaves = 1; leaves < leaves_per_segment; ++leaves) {
        c.leaves = portion_leaves(view_.portions_by, leaf_count{leaves});
        if (to_underlying(c.leaves) == 0) {
            break;  // no portion has so many leaves
        }
        const std::uint64_t room = to_underlying(c.leaves) * big_page_bytes;
        // At most one block for each bit of `live`.
        c.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(room / c.bytes, simt::warp_size));
        // Few leaves are tried first: a chunk is freed as a whole, when its last block is.
        if (c.blocks != 0 && (room - c.blocks * c.bytes) * 8 <= room) {
            break;
        }
    }
    return c;
}

/// Sets the descriptor of a segment, by a copy to the host and one back. Nothing else may change the word in between.
/// For a whole segment that holds, since the host owns it. A segment of portions has several owners: they may write at
/// the same time, and write the same word, because all of them start from the same generation.
absl::Status host_blocks::change_descriptor(std::uint32_t segment, segment_kind kind, std::uint32_t extent) {
    device::device_word<std::uint64_t> word{0};
    auto* const d = &view_.descriptor(segment);
    auto s = memory_.read(static_cast<void*>(&word), static_cast<const void*>(d), sizeof(word));
    // A segment of portions keeps its descriptor from the first portion on, so that most calls write nothing.
    const std::uint64_t old = word.load<order::relaxed>();
    if (!s.ok() || (kind == segment_kind::portions && descriptor::kind(old) == kind)) {
        return s;
    }
    return write(d, device::device_word<std::uint64_t>(descriptor::next(old, kind, 0, extent)));
}

/// Describes a chunk that is one portion, in the order in which a warp does it (`describe` in
/// device/large/chunk_path.cuh): record, owners of the leaves, descriptor, and the mask of live blocks last. Each copy
/// is complete before the next one begins, which takes the place of the release. Errors: the device's own; no block is
/// live then.
absl::Status host_blocks::describe_portion(const cut& c, const mailbox::grant& g) {
    const std::uint32_t segment = to_underlying(g.tail_block());
    const std::uint32_t first = segment * leaves_per_segment + to_underlying(g.leaf);
    const auto units = static_cast<std::uint32_t>(c.bytes >> device::chunk_unit_shift);
    device::portion_record record{};
    // The stamp marks the record as this heap's.
    record.shape.set(device::portion_record::shape_of(view_.stamp, c.blocks, to_underlying(c.leaves)));
    // Two offsets a word; the last one is the end of the last block.
    for (std::uint32_t i = 0; i <= c.blocks; i += 2) {
        record.offsets[i / 2].set((i + 1) * units << 16 | i * units);
    }
    auto s = write(&view_.portion_records[first], record);
    // As `chunk_of_leaves`: every leaf names the first one of the portion.
    std::vector<std::uint32_t> owners(to_underlying(c.leaves), first | device::portion_flag);
    if (s.ok()) {
        s = memory_.write(static_cast<void*>(&view_.leaf_owners[first]), owners.data(),
                          owners.size() * sizeof(std::uint32_t));
    }
    if (s.ok()) {
        s = change_descriptor(segment, segment_kind::portions, 0);
    }
    // One bit for each block. A shift by 32 is undefined, hence the case.
    const std::uint32_t all = c.blocks == simt::warp_size ? ~0u : (1u << c.blocks) - 1;
    // Written last, so that a block is described before it is live.
    return s.ok() ? write(&view_.portion_records[first].live, simt::device_word<std::uint32_t>(all)) : s;
}

/// Describes a chunk of whole segments with one block, as `describe_portion`. The descriptor is set for the first
/// segment alone: a block is freed by its address, which lies there.
absl::Status host_blocks::describe_segments(const cut& c, const mailbox::grant& g) {
    const std::uint32_t segment = to_underlying(g.first);
    device::chunk_record record{};
    // One lane, and one block from offset 0 to the end of its bytes.
    record.lanes.set(1);
    record.segments.set(c.segments);
    record.leaves.set(to_underlying(c.leaves));
    record.offset[0].set(0);
    record.offset[1].set(static_cast<std::uint32_t>(c.bytes >> device::chunk_unit_shift));
    auto s = write(&view_.records[segment], record);
    if (s.ok()) {
        s = change_descriptor(segment, segment_kind::chunk, segment);
    }
    return s.ok() ? write(&view_.records[segment].live, simt::device_word<std::uint32_t>(1)) : s;
}

/// Extends the search range of the segment cache on the device to include this grant, whose segments come there when
/// their blocks are freed. Called before any block can be freed. Cost: a copy if the end rises.
absl::Status host_blocks::note_grant(const mailbox::grant& g) {
    // The segment behind the chunk, whether it ends in a tail or not.
    const std::uint64_t end = std::uint64_t{to_underlying(g.tail_block())} + (to_underlying(g.leaves) != 0 ? 1 : 0);
    if (end <= end_) {
        return absl::OkStatus();
    }
    absl::Status s = write(&view_.state->end.host, device::device_word<std::uint64_t>(end));
    // After an error the next grant writes it again.
    end_ = s.ok() ? end : end_;
    return s;
}

/// Writes all that `free` needs to find a block of the chunk, by copies that end one after the other. After
/// DeadlineExceeded, the copy that was under way may still take effect; no block has been handed out then.
absl::Status host_blocks::describe(const cut& c, const mailbox::grant& g) {
    if (auto s = note_grant(g); !s.ok()) {
        return s;
    }
    return c.segments == 0 ? describe_portion(c, g) : describe_segments(c, g);
}

/// Takes a place from the service and describes a chunk there. Returns all of its blocks as not handed out.
absl::StatusOr<host_blocks::remainder> host_blocks::take_chunk(const cut& c) {
    // May take long: the service may have to wait for memory to be committed.
    const auto place = from_(c.segments, c.leaves);
    if (!place.ok()) {
        return place.status();
    }
    if (auto s = describe(c, *place); !s.ok()) {
        if (absl::IsDeadlineExceeded(s)) {
            late_.push_back(*place);  // the delayed write may still happen, so the place must not be reused
        } else {
            // Nothing is written late: the place may be given to another owner at once.
            to_(*place);
        }
        return s;
    }
    // Writes are made one after the other, so the delayed ones have ended.
    for (const mailbox::grant& g : late_) {
        to_(g);
    }
    late_.clear();
    ++counts_.chunks;
    // The chunk's first leaf, counted from the heap's first: a chunk with segments begins at leaf 0 of its first
    // segment.
    const std::uint64_t leaf = to_underlying(place->first) * std::uint64_t{leaves_per_segment} +
                               (c.segments == 0 ? to_underlying(place->leaf) : 0);
    return remainder{leaf * big_page_bytes, c.blocks};
}

/// The next block of the open chunk of this size, or the first one of a new chunk. An entry of `open_` exists only
/// while blocks are left in it, or during this call.
absl::StatusOr<void*> host_blocks::allocate(std::uint64_t bytes) {
    const std::scoped_lock lock(mutex_);
    const cut c = cut_for(bytes);
    // Blocks of one size share a chunk, whatever sizes were asked for.
    remainder& left = open_[c.bytes];
    if (left.blocks == 0) {
        const auto taken = take_chunk(c);
        if (!taken.ok()) {
            open_.erase(c.bytes);
            return taken.status();
        }
        left = *taken;
    }
    // Blocks are handed out from the chunk's beginning, in the order of addresses.
    char* const p = view_.base + left.offset;
    left.offset += c.bytes;
    if (--left.blocks == 0) {
        open_.erase(c.bytes);
    }
    ++counts_.blocks;
    counts_.bytes += bytes;
    return p;
}

/// The subtraction wraps around for an address below the heap, which is then outside.
absl::Status host_blocks::free(void* p) {
    const auto offset = static_cast<std::uint64_t>(static_cast<char*>(p) - view_.base);
    if (!view_.owns_offset(offset)) {
        return absl::InvalidArgumentError(
            absl::StrFormat("cannot free %p: the heap has %d bytes at %p; give an address that this heap has allocated",
                            p, std::uint64_t{view_.segments} << segment_shift, static_cast<void*>(view_.base)));
    }
    const std::scoped_lock lock(mutex_);
    // Any address inside the heap is queued. A device thread finds out whether a block begins there, and counts it as
    // an invalid free if not: only the device sees the live bits without a copy.
    return frees_.push(offset);
}

/// The blocks are counted as handed out and freed, since the device counts each free.
absl::Status host_blocks::give_up() {
    const std::scoped_lock lock(mutex_);
    absl::Status status;
    // The key is the size of the blocks, by which they follow each other.
    for (const auto& [bytes, left] : open_) {
        for (std::uint32_t i = 0; i < left.blocks; ++i) {
            ++counts_.blocks;
            status.Update(frees_.push(left.offset + i * bytes));
        }
    }
    open_.clear();
    return status;
}

/// For `heap::impl::settle`, which flushes and lets a kernel take frees until nothing waits.
absl::StatusOr<std::size_t> host_blocks::flush() {
    const std::scoped_lock lock(mutex_);
    if (auto s = frees_.flush(); !s.ok()) {
        return s;
    }
    return frees_.waiting();
}

/// Waits for a call that holds the mutex, also while that waits for the service.
host_block_counts host_blocks::counts() const {
    const std::scoped_lock lock(mutex_);
    return counts_;
}

}  // namespace orchard
