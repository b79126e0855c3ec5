// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/heap/ownership.hpp"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace orchard {

void granted_memory::add(const segment_service& service) {
    const segment_run range = service.range();
    for (std::uint32_t i = 0; i < range.count; ++i) {
        segments[to_underlying(range.first) + i] = service.is_granted(range.first + i);
    }
    service.for_each_portion([this](const portion& p) { portions.push_back(p); });
}

absl::Status ownership::take(std::uint32_t segment, const char* owner) {
    if (segment >= owner_.size()) {
        return absl::InternalError(
            absl::StrFormat("a %s lies in segment %d, the heap has %d", owner, segment, owner_.size()));
    }
    if (owner_[segment] != nullptr) {
        return absl::InternalError(
            absl::StrFormat("segment %d belongs to a %s and to a %s", segment, owner_[segment], owner));
    }
    owner_[segment] = owner;
    return absl::OkStatus();
}

void ownership::take_portion(std::uint32_t leaf, std::uint32_t leaves, const char* owner) {
    portions_.push_back({leaf, leaves, owner});
}

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

absl::Status ownership::compare(const granted_memory& granted) {
    std::vector<bool> whole = granted.segments;
    for (const portion& p : granted.portions) {
        whole[to_underlying(p.block)] = false;
    }
    for (std::uint32_t i = 0; i < owner_.size(); ++i) {
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
        if (i >= portions_.size()) {
            return absl::InternalError(
                absl::StrFormat("a portion of %s was granted and is nowhere on the device", describe_granted()));
        }
        const owned_portion& own = portions_[i];
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
