// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

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

constexpr std::uint64_t rounded_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

}  // namespace

absl::Status host_free_queue::push(std::uint64_t offset) {
    waiting_.push_back(offset);
    return flush();
}

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
            taken_ = now.load<order::relaxed>();
        }
        const std::uint64_t room = capacity - (posted_ - taken_);
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

absl::Status host_free_queue::write_some(std::uint64_t count) {
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

/// Returns a chunk with as few leaves as keep the waste small. Block sizes are those of page classes, so that few
/// chunks are open at a time.
host_blocks::cut host_blocks::cut_for(std::uint64_t bytes) const {
    cut c;
    if (bytes > max_shared) {
        c.bytes = rounded_up(bytes, device::chunk_block_alignment);
        c.blocks = 1;
        c.segments = static_cast<std::uint32_t>(c.bytes >> segment_shift);
        const leaf_count left = leaves_for(c.bytes % segment_bytes);
        c.leaves = portion_leaves(view_.portions_by, left);
        c.segments += to_underlying(left) != 0 && to_underlying(c.leaves) == 0 ? 1 : 0;
        return c;
    }
    const std::uint32_t page_class = class_of(static_cast<std::uint32_t>(std::max(bytes, least_block)));
    c.bytes = rounded_up(class_bytes(page_class), device::chunk_block_alignment);
    for (std::uint32_t leaves = 1; leaves < leaves_per_segment; ++leaves) {
        c.leaves = portion_leaves(view_.portions_by, leaf_count{leaves});
        if (to_underlying(c.leaves) == 0) {
            break;  // no portion has so many leaves
        }
        const std::uint64_t room = to_underlying(c.leaves) * big_page_bytes;
        c.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(room / c.bytes, simt::warp_size));
        if (c.blocks != 0 && (room - c.blocks * c.bytes) * 8 <= room) {
            break;
        }
    }
    return c;
}

/// Sets the descriptor of a segment. Owners of other portions of the segment may write at the same time; they write the
/// same word.
absl::Status host_blocks::change_descriptor(std::uint32_t segment, segment_kind kind, std::uint32_t extent) {
    device::device_word<std::uint64_t> word{0};
    auto* const d = &view_.descriptors[segment];
    auto s = memory_.read(static_cast<void*>(&word), static_cast<const void*>(d), sizeof(word));
    const std::uint64_t old = word.load<order::relaxed>();
    if (!s.ok() || (kind == segment_kind::portions && descriptor::kind(old) == kind)) {
        return s;
    }
    return write(d, device::device_word<std::uint64_t>(descriptor::next(old, kind, 0, extent)));
}

absl::Status host_blocks::describe_portion(const cut& c, const mailbox::grant& g) {
    const std::uint32_t segment = to_underlying(g.tail_block());
    const std::uint32_t first = segment * leaves_per_segment + to_underlying(g.leaf);
    const auto units = static_cast<std::uint32_t>(c.bytes >> device::chunk_unit_shift);
    device::portion_record record{};
    record.shape.set(device::portion_record::shape_of(view_.stamp, c.blocks, to_underlying(c.leaves)));
    for (std::uint32_t i = 0; i <= c.blocks; i += 2) {
        record.offsets[i / 2].set((i + 1) * units << 16 | i * units);
    }
    auto s = write(&view_.portion_records[first], record);
    std::vector<std::uint32_t> owners(to_underlying(c.leaves), first | device::portion_flag);
    if (s.ok()) {
        s = memory_.write(static_cast<void*>(&view_.leaf_owners[first]), owners.data(),
                          owners.size() * sizeof(std::uint32_t));
    }
    if (s.ok()) {
        s = change_descriptor(segment, segment_kind::portions, 0);
    }
    const std::uint32_t all = c.blocks == simt::warp_size ? ~0u : (1u << c.blocks) - 1;
    // Written last, so that a block is described before it is live.
    return s.ok() ? write(&view_.portion_records[first].live, simt::device_word<std::uint32_t>(all)) : s;
}

absl::Status host_blocks::describe_segments(const cut& c, const mailbox::grant& g) {
    const std::uint32_t segment = to_underlying(g.first);
    device::chunk_record record{};
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

/// Extends the search range of the segment cache on the device to include this grant.
absl::Status host_blocks::note_grant(const mailbox::grant& g) {
    const std::uint64_t end = std::uint64_t{to_underlying(g.tail_block())} + 1;
    if (end <= end_) {
        return absl::OkStatus();
    }
    absl::Status s = write(&view_.state->end.host, device::device_word<std::uint64_t>(end));
    end_ = s.ok() ? end : end_;
    return s;
}

absl::Status host_blocks::describe(const cut& c, const mailbox::grant& g) {
    if (auto s = note_grant(g); !s.ok()) {
        return s;
    }
    return c.segments == 0 ? describe_portion(c, g) : describe_segments(c, g);
}

absl::StatusOr<host_blocks::remainder> host_blocks::take_chunk(const cut& c) {
    const auto place = from_(c.segments, c.leaves);
    if (!place.ok()) {
        return place.status();
    }
    if (auto s = describe(c, *place); !s.ok()) {
        if (absl::IsDeadlineExceeded(s)) {
            late_.push_back(*place);  // the delayed write may still happen, so the place must not be reused
        } else {
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
    const std::uint64_t leaf = to_underlying(place->first) * std::uint64_t{leaves_per_segment} +
                               (c.segments == 0 ? to_underlying(place->leaf) : 0);
    return remainder{leaf * big_page_bytes, c.blocks};
}

absl::StatusOr<void*> host_blocks::allocate(std::uint64_t bytes) {
    const std::scoped_lock lock(mutex_);
    const cut c = cut_for(bytes);
    remainder& left = open_[c.bytes];
    if (left.blocks == 0) {
        const auto taken = take_chunk(c);
        if (!taken.ok()) {
            open_.erase(c.bytes);
            return taken.status();
        }
        left = *taken;
    }
    char* const p = view_.base + left.offset;
    left.offset += c.bytes;
    if (--left.blocks == 0) {
        open_.erase(c.bytes);
    }
    ++counts_.blocks;
    counts_.bytes += bytes;
    return p;
}

absl::Status host_blocks::free(void* p) {
    const auto offset = static_cast<std::uint64_t>(static_cast<char*>(p) - view_.base);
    if (!view_.owns_offset(offset)) {
        return absl::InvalidArgumentError(
            absl::StrFormat("cannot free %p: the heap has %d bytes at %p; give an address that this heap has allocated",
                            p, std::uint64_t{view_.segments} << segment_shift, static_cast<void*>(view_.base)));
    }
    const std::scoped_lock lock(mutex_);
    return frees_.push(offset);
}

absl::Status host_blocks::give_up() {
    const std::scoped_lock lock(mutex_);
    absl::Status status;
    for (const auto& [bytes, left] : open_) {
        for (std::uint32_t i = 0; i < left.blocks; ++i) {
            ++counts_.blocks;
            status.Update(frees_.push(left.offset + i * bytes));
        }
    }
    open_.clear();
    return status;
}

absl::StatusOr<std::size_t> host_blocks::flush() {
    const std::scoped_lock lock(mutex_);
    if (auto s = frees_.flush(); !s.ok()) {
        return s;
    }
    return frees_.waiting();
}

host_block_counts host_blocks::counts() const {
    const std::scoped_lock lock(mutex_);
    return counts_;
}

}  // namespace orchard
