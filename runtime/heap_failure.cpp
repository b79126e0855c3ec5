// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What a heap knows of requests and frees that failed.

#include <algorithm>

#include "runtime/heap_impl.hpp"

namespace orchard {

absl::StatusOr<std::unique_ptr<device::heap_state>> heap::impl::read_state() {
    auto state = std::make_unique<device::heap_state>();
    absl::Status status = memory_->read(static_cast<void*>(state.get()), view.state, sizeof(device::heap_state));
    if (!status.ok()) {
        return status;
    }
    return state;
}

std::optional<failure> heap::impl::last_failure() {
    constexpr simt::order relaxed = simt::order::relaxed;
    auto state = read_state();
    if (!state.ok() || (*state)->failure.ready.load<relaxed>() == 0) {
        return std::nullopt;
    }
    // Once more: a copy beside kernels may have taken the flag later than the fields.
    state = read_state();
    if (!state.ok()) {
        return std::nullopt;
    }
    const device::failure_record& f = (*state)->failure;
    const std::uint32_t page_class = f.size_class.load<relaxed>();
    return failure{static_cast<failure_reason>(f.reason.load<relaxed>()),
                   f.bytes.load<relaxed>(),
                   page_class < class_count ? page_class : chunk_class,
                   f.block.load<relaxed>(),
                   f.thread.load<relaxed>(),
                   f.time_ns.load<relaxed>(),
                   f.count.load<relaxed>(),
                   levels()};
}

void heap::impl::on_failure(failure_watch::callback report) {
    watch_.reset();
    if (report) {
        watch_ = std::make_unique<failure_watch>(
            *view.failure_signal, [this] { return last_failure(); }, std::move(report));
    }
}

std::uintptr_t heap::impl::first_invalid_free() {
    auto state = read_state();
    return state.ok() ? (*state)->failure.first_invalid_free.load<simt::order::relaxed>() : 0;
}

memory_levels heap::impl::levels() {
    memory_levels now;
    std::uint32_t largest = 0;
    for (shard& s : shards_) {
        const service_counters& c = s.service->counters();
        now.in_use += c.segments_granted.get() << segment_shift;
        now.committed += c.segments_committed.get() << segment_shift;
        s.thread->run([&] { largest = std::max(largest, s.service->longest_free_run()); });
    }
    now.largest_free = std::uint64_t{largest} << segment_shift;
    now.device_budget = values.capacity;
    now.host_budget = values.backing == backing_option::elastic ? values.host_budget : 0;
    return now;
}

}  // namespace orchard
