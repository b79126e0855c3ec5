// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The functions of a heap that move memory, or tell the driver how to. They run on the caller's thread; no thread of
/// the heap waits for them.
///
///     migrate           finish_stream, read_samples, choose_moves, backing::move
///     prefetch          of an elastic heap an order for each piece in the range; of a managed one the driver's call
///     advise            the driver's call

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "host/move_policy.hpp"
#include "runtime/heap/heap_impl.hpp"

namespace orchard {

/// Returns OutOfRange if a range is not inside the heap. The subtraction wraps around for an address below the heap,
/// which is then beyond its end.
absl::Status heap::impl::check_inside(const char* verb, const void* at, std::uint64_t bytes) const {
    const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(at) - view.base);
    const std::uint64_t all = std::uint64_t{view.segments} << segment_shift;
    if (offset > all || bytes > all - offset) {
        return absl::OutOfRangeError(absl::StrFormat("cannot %s %d bytes at %p: the heap has %d at %p", verb, bytes, at,
                                                     all, static_cast<void*>(view.base)));
    }
    return absl::OkStatus();
}

/// Brings `heat_` up to date for the first `segments` segments: the samples since the last call, and a quarter of what
/// it was. If there were fewer samples this time, the old ones count less accordingly: a long phase of a program must
/// not outweigh the next one. Without new samples nothing changes.
absl::Status heap::impl::read_samples(std::size_t segments) {
    std::vector<std::uint32_t> now(segments);
    if (absl::Status s = memory_->read(now.data(), view.samples, segments * sizeof(now[0])); !s.ok()) {
        return s;
    }
    samples_.resize(std::max(samples_.size(), segments));
    heat_.resize(samples_.size());
    double fresh = 0;
    for (std::size_t i = 0; i < segments; ++i) {
        fresh += now[i] - samples_[i];  // the difference is right after an overflow, too
    }
    if (fresh == 0) {
        return absl::OkStatus();
    }
    constexpr double kept = 0.25;
    const double old = std::accumulate(heat_.begin(), heat_.end(), 0.0);
    const double factor = kept * std::min(1.0, old > 0 ? fresh / old : 1.0);
    for (std::size_t i = 0; i < segments; ++i) {
        heat_[i] = heat_[i] * factor + (now[i] - samples_[i]);
        samples_[i] = now[i];
    }
    return absl::OkStatus();
}

absl::StatusOr<migration> heap::impl::migrate(void* stream) {
    absl::Status ready = memory_->finish_stream(stream);
    // Ends what an earlier call has left under way, so that the tiers are known.
    ready.Update(ready.ok() ? memory_->move({}) : ready);
    if (!ready.ok()) {
        return ready;
    }
    std::vector<rated_memory> all;
    std::size_t segments = 0;
    for (const movable_memory& m : memory_->movable()) {
        all.push_back({m, 0});
        segments = std::max<std::size_t>(segments, to_underlying(m.run.first) + m.run.count);
    }
    if (absl::Status s = read_samples(segments); !s.ok()) {
        return s;
    }
    for (rated_memory& m : all) {
        for (std::uint32_t i = 0; i < m.memory.run.count; ++i) {
            m.accesses += heat_[to_underlying(m.memory.run.first) + i];
        }
    }
    const memory_use before = memory_->use();
    move_limits limits;
    limits.device_room = before.device_budget - std::min(before.device_budget, before.device_bytes);
    limits.is_sampled = std::any_of(samples_.begin(), samples_.end(), [](std::uint32_t n) { return n != 0; });
    limits.batch_bytes = std::max(limits.batch_bytes, values.move_unit);
    if (absl::Status s = move(choose_moves(all, limits)); !s.ok()) {
        return s;
    }
    const memory_use after = memory_->use();
    return migration{after.moved_to_device - before.moved_to_device, after.moved_to_host - before.moved_to_host};
}

/// If the tier has no room, memory that no block uses is released, and what is left is moved. Growth ahead of demand
/// fills the budgets of both tiers with such memory.
absl::Status heap::impl::prefetch(void* at, std::uint64_t bytes, memory_tier to) {
    absl::Status s = check_inside("move", at, bytes);
    if (!s.ok() || bytes == 0) {
        return s;
    }
    if (!memory_->can_move()) {
        return memory_->prefetch(at, bytes, to);
    }
    const std::uint32_t first = view.segment_of(at);
    const std::uint32_t last = view.segment_of(static_cast<char*>(at) + (bytes - 1));
    const auto move_range = [&] {
        std::vector<move_order> orders;
        for (const movable_memory& m : memory_->movable()) {
            const std::uint32_t begin = to_underlying(m.run.first);
            if (begin <= last && begin + m.run.count > first) {
                orders.push_back({m.run.first, to});
            }
        }
        return move(orders);
    };
    s = move_range();
    if (absl::IsResourceExhausted(s) && release_unused().ok()) {
        s = move_range();
    }
    return s;
}

absl::Status heap::impl::advise(void* at, std::uint64_t bytes, managed_advice what) {
    absl::Status s = check_inside("advise the driver about", at, bytes);
    return s.ok() && bytes != 0 ? memory_->advise(at, bytes, what) : s;
}

}  // namespace orchard
