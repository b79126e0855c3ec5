// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The owners of segments and portions, as the host and the device have them, and their comparison in `heap::validate`.
///
///     host: granted         segments    . 1 1 1 . 1        portions   (5, leaf 0, 3 leaves)
///     device: found         slab at 1, chunk at 2 and 3    portion    leaf 160, 3 leaves, of a chunk
///     compare               both sides name the same memory: segments 1 to 3, and the portion in segment 5
///
/// Memory that is granted and found nowhere is lost; memory that is found and was not granted is used twice.

#include "runtime/heap/ownership.hpp"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace orchard {

granted_memory::granted_memory(const segment_service& service) : segments(service.segments(), false) {
    for (std::uint32_t i = 0; i < service.segments(); ++i) {
        segments[i] = service.is_granted(segment_index{i});
    }
    service.for_each_portion([this](const portion& p) { portions.push_back(p); });
}

/// The first owner keeps the segment; the message names both.
absl::Status ownership::take(std::uint32_t segment, const char* owner) {
    if (segment >= owner_.size()) {
        return absl::InternalError(
            absl::StrFormat("a %s lies in segment %d, the heap has %d", owner, segment, owner_.size()));
    }
    if (owner_[segment] != nullptr) {
        return absl::InternalError(
            absl::StrFormat("segment %d belongs to a %s and to a %s", segment, owner_[segment], owner));
    }
    // `owner` is a literal and needs no copy.
    owner_[segment] = owner;
    return absl::OkStatus();
}

/// No check for a second owner here: two portions at one place are found by `compare`, since the host has granted one.
void ownership::take_portion(std::uint32_t leaf, std::uint32_t leaves, const char* owner) {
    // Sorted later, by `compare`.
    portions_.push_back({leaf, leaves, owner});
}

/// The tail begins right behind the last segment.
absl::Status ownership::take_chunk(std::uint32_t leaf, std::uint32_t segments, std::uint32_t leaves, const char* owner,
                                   const char* tail_owner) {
    for (std::uint32_t i = 0; i < segments; ++i) {
        if (absl::Status s = take(leaf / leaves_per_segment + i, owner); !s.ok()) {
            return s;
        }
    }
    if (leaves != 0) {
        take_portion(leaf + segments * leaves_per_segment, leaves, tail_owner);
    }
    return absl::OkStatus();
}

/// Segments first, then portions; each side's portions are in the order of their addresses, so that they are compared
/// pairwise. Sorts the portions collected on the device.
absl::Status ownership::compare(const granted_memory& granted) {
    // A segment that holds portions was granted for these, and has no owner as a whole.
    std::vector<bool> whole = granted.segments;
    for (const portion& p : granted.portions) {
        whole[to_underlying(p.block)] = false;
    }
    for (std::uint32_t i = 0; i < owner_.size(); ++i) {
        // Granted and found, or neither.
        if ((owner_[i] != nullptr) == whole[i]) {
            continue;
        }
        return absl::InternalError(whole[i]
                                       ? absl::StrFormat("segment %d was granted and is nowhere on the device", i)
                                       : absl::StrFormat("segment %d is %s for the host and a %s on the device", i,
                                                         granted.segments[i] ? "one of portions" : "free", owner_[i]));
    }
    std::ranges::sort(portions_, {}, &owned_portion::leaf);
    for (std::size_t i = 0; i < std::max(portions_.size(), granted.portions.size()); ++i) {
        const auto describe_granted = [&] {
            const portion& p = granted.portions[i];
            return absl::StrFormat("%d leaves at leaf %d of segment %d", to_underlying(p.leaves),
                                   to_underlying(p.first), to_underlying(p.block));
        };
        // The device's list ended first. If the portion is missing in the middle, the pair at its place differs
        // instead.
        if (i >= portions_.size()) {
            return absl::InternalError(
                absl::StrFormat("a portion of %s was granted and is nowhere on the device", describe_granted()));
        }
        const owned_portion& own = portions_[i];
        // The device counts leaves from the heap's first; the host, from the first of the VA block.
        const portion as_host_says{segment_index{own.leaf / leaves_per_segment},
                                   leaf_index{own.leaf % leaves_per_segment}, leaf_count{own.leaves}};
        if (i >= granted.portions.size() || as_host_says != granted.portions[i]) {
            return absl::InternalError(
                absl::StrFormat("the device has %s of %d leaves at leaf %d of segment %d; granted is %s", own.owner,
                                own.leaves, own.leaf % leaves_per_segment, own.leaf / leaves_per_segment,
                                i < granted.portions.size() ? describe_granted() : "nothing so far up"));
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard
