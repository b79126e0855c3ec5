// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What a heap tells tools; see heap_marks.hpp.

#include "runtime/nvtx/heap_marks.hpp"

#include <algorithm>
#include <utility>

#include "uvm/geometry/geometry.hpp"

namespace orchard::nvtx {
namespace {

constexpr name name_of_activity(activity what) {
    constexpr name all[activities] = {name::serve, name::commit, name::decommit, name::move, name::trim};
    return all[static_cast<int>(what)];
}

}  // namespace

void heap_ranges::begin(activity what, std::uint64_t amount) {
    if (what == activity::serve && amount > depth_.load(std::memory_order_relaxed)) {
        depth_.store(amount, std::memory_order_relaxed);
    }
    push(name_of_activity(what), amount);
}

void heap_ranges::end(activity, std::uint64_t) { pop(); }

void heap_ranges::wait_begins(std::uint32_t slot, std::uint64_t bytes) {
    if (slot < waits_.size()) {
        waits_[slot] = start(name::wait, bytes);
    }
}

void heap_ranges::wait_ends(std::uint32_t slot) {
    if (slot < waits_.size()) {
        nvtx::end(std::exchange(waits_[slot], 0));
    }
}

heap_memory_marks::heap_memory_marks(address_range all)
    : all_{all}, heap_{register_heap(all, heap_use::layout, "orchard heap")}, is_heard_{heap_ != nullptr} {}

heap_memory_marks::~heap_memory_marks() { unregister_heap(heap_); }

/// A return without its grant, or a second grant, follows lost events: each region is told once all the same. The
/// device gives parts of a run back, so that each segment is a region of its own.
void heap_memory_marks::note(std::span<const event> events) {
    if (!is_heard_) {
        return;
    }
    const std::scoped_lock lock(mutex_);
    for (const event& e : events) {
        if (e.kind != event_kind::grant && e.kind != event_kind::give_back) {
            continue;
        }
        std::vector<address_range> begun;
        std::vector<const void*> ended;
        for (std::uint64_t place = e.at, left = e.bytes; left != 0;) {
            const std::uint64_t bytes = std::min(left, segment_bytes);
            if (granted_.erase(place) != 0) {
                ended.push_back(at(place));
            }
            if (e.kind == event_kind::grant) {
                granted_[place] = bytes;
                begun.push_back({at(place), bytes});
            }
            place += bytes;
            left -= bytes;
        }
        if (!has_blocks_) {
            unregister_regions(heap_, ended);
            register_regions(heap_, begun);
        }
    }
}

bool heap_memory_marks::mark_blocks(address_range accessible, std::span<const address_range> blocks) {
    const std::scoped_lock lock(mutex_);
    const bool is_registered = heap_ != nullptr && (has_blocks_ || !is_heard_) && accessible.at == accessible_.at &&
                               accessible.bytes == accessible_.bytes;
    if (!is_registered) {
        unregister_heap(heap_);
        heap_ = register_heap(accessible, heap_use::sub_allocator, "orchard blocks");
        blocks_.clear();
        accessible_ = accessible;
    }
    has_blocks_ = heap_ != nullptr;
    if (!has_blocks_) {
        register_segments();
        return false;
    }
    replace_blocks(blocks);
    return true;
}

void heap_memory_marks::mark_segments() {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(has_blocks_, false)) {
        return;
    }
    if (is_heard_) {
        unregister_heap(heap_);
        register_segments();
    } else {
        replace_blocks({&accessible_, 1});
    }
}

void heap_memory_marks::register_segments() {
    heap_ = is_heard_ ? register_heap(all_, heap_use::layout, "orchard heap") : nullptr;
    blocks_.clear();
    std::vector<address_range> all;
    all.reserve(granted_.size());
    for (const auto& [place, bytes] : granted_) {
        all.push_back({at(place), bytes});
    }
    register_regions(heap_, all);
}

void heap_memory_marks::replace_blocks(std::span<const address_range> blocks) {
    std::map<const void*, std::uint64_t> now;
    std::vector<address_range> begun;
    for (const address_range& b : blocks) {
        now[b.at] = b.bytes;
        const auto before = blocks_.find(b.at);
        if (before == blocks_.end() || before->second != b.bytes) {
            begun.push_back(b);
        }
    }
    std::vector<const void*> ended;
    for (const auto& [place, bytes] : blocks_) {
        const auto after = now.find(place);
        if (after == now.end() || after->second != bytes) {
            ended.push_back(place);
        }
    }
    unregister_regions(heap_, ended);
    register_regions(heap_, begun);
    blocks_ = std::move(now);
}

heap_sink::heap_sink(heap_memory_marks& memory, heap_ranges& ranges, std::function<counter_values()> now)
    : memory_{memory}, ranges_{ranges}, now_{std::move(now)} {
    constexpr std::array<std::array<const char*, 3>, 5> all{
        {{"in use", "bytes of granted segments", "B"},
         {"committed", "bytes of committed segments, on the device and on the host", "B"},
         {"host tier", "bytes of committed segments on the host", "B"},
         {"queue depth", "most requests in one turn of the service since the last sample", "requests"},
         {"events lost", "events of the heap that found no room, in total", "events"}}};
    for (std::size_t i = 0; i < all.size(); ++i) {
        counters_[i] = register_counter(all[i][0], all[i][1], all[i][2]);
    }
}

void heap_sink::take(std::span<const event> events) {
    memory_.note(events);
    sample_all();
}

void heap_sink::lost(std::uint64_t count) {
    lost_ += count;
    sample_all();
}

void heap_sink::sample_all() {
    const counter_values v = now_();
    const std::array<std::uint64_t, 5> values{v.in_use, v.committed, v.on_host, ranges_.take_queue_depth(), lost_};
    for (std::size_t i = 0; i < values.size(); ++i) {
        sample(counters_[i], static_cast<std::int64_t>(values[i]));
    }
}

}  // namespace orchard::nvtx
