// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What a heap reports of itself; see heap_events.hpp. Also `heap::mark_live_blocks`, which tells tools the live
/// blocks.

#include "runtime/heap/heap_events.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "device/simt/lane.cuh"
#include "runtime/heap/detail_kernels.hpp"
#include "runtime/heap/heap_impl.hpp"
#include "runtime/heap/live_blocks.hpp"

namespace orchard {

/// Registering the memory is the test for a tool that listens to memory alone.
std::unique_ptr<heap_events> heap_events::make(const event_listeners& listeners, bool for_tools,
                                               nvtx::address_range range, std::uint32_t slots,
                                               std::function<nvtx::counter_values()> now) {
    std::unique_ptr<tools> heard;
    if (for_tools && nvtx::is_built()) {
        heard = std::make_unique<tools>(range, slots, std::move(now));
        if (!nvtx::is_attached() && !heard->memory.is_heard()) {
            heard.reset();
        }
    }
    if (!heard && !listeners.any()) {
        return nullptr;
    }
    std::unique_ptr<heap_events> made(new heap_events(listeners.log));
    made->tools_ = std::move(heard);
    for (event_source* const source : listeners.sources) {
        made->log_.add_source(*source);
    }
    for (event_sink* const sink : listeners.sinks) {
        made->log_.add_sink(*sink);
    }
    if (made->tools_) {
        made->log_.add_sink(made->tools_->sink);
        made->log_.on_start([] { nvtx::name_thread("events"); });
    }
    return made;
}

reports heap_events::of_service() {
    return {&log_.add_queue(log_.settings().service_capacity), tools_ ? &tools_->ranges : nullptr};
}
reports heap_events::of_growth() { return {&log_.add_queue(), tools_ ? &tools_->ranges : nullptr}; }

std::uint64_t heap_events::begin(activity what, std::uint64_t amount) {
    if (tools_) {
        tools_->ranges.begin(what, amount);
    }
    return simt::clock_ns();
}

void heap_events::end(activity what, std::uint64_t amount, std::uint64_t begun_ns, std::vector<event> events) {
    if (tools_) {
        tools_->ranges.end(what, amount);
    }
    const std::uint64_t now = simt::clock_ns();
    for (event& e : events) {
        e.time_ns = now;
        e.thread = event_microseconds(now - begun_ns);
        log_.emit_shared(e);
    }
}

/// Makes the object, if somebody listens, and lets the service and growth report to it. Called before their threads
/// start. In a complete log a producer waits no longer than an eighth of what a kernel waits.
void heap::impl::listen() {
    listeners_.log.patience = std::min(listeners_.log.patience, values.request_timeout / 8);
    events_ = heap_events::make(
        listeners_, values.nvtx, {view.base, std::uint64_t{view.segments} << segment_shift},
        static_cast<std::uint32_t>(values.mailbox_slots), [this] {
            const service_counters& c = service_->counters();
            return nvtx::counter_values{
                .in_use = c.segments_granted.get() << segment_shift,
                .committed = c.segments_committed.get() << segment_shift,
                .on_host = memory_->can_move() ? memory_->use().host_bytes : c.segments_on_host.get() << segment_shift};
        });
    if (events_) {
        nvtx::name_stream(memory_->stream(), "orchard heap");
        service_->report_to(events_->of_service());
        growth_->report_to(events_->of_growth());
        events_->start();
    }
}

absl::Status heap::impl::trim() {
    if (!events_) {
        return trim_now();
    }
    const auto released = [&] { return service_->counters().segments_released.get() << segment_shift; };
    const std::uint64_t before = released();
    const std::uint64_t begun_ns = events_->begin(activity::trim, 0);
    absl::Status status = trim_now();
    const std::uint64_t bytes = released() - before;
    events_->end(activity::trim, bytes, begun_ns, {{.bytes = bytes, .kind = event_kind::trim}});
    return status;
}

/// Has the backing carry out the orders. One event for each piece that has another tier afterwards.
absl::Status heap::impl::move(const std::vector<move_order>& orders) {
    if (!events_) {
        return memory_->move(orders);
    }
    const std::vector<movable_memory> before = memory_->movable();
    std::uint64_t asked = 0;
    for (const movable_memory& m : before) {
        const auto is_of = [&](const move_order& o) { return o.first == m.run.first && o.to != m.tier; };
        asked += std::any_of(orders.begin(), orders.end(), is_of) ? std::uint64_t{m.run.count} << segment_shift : 0;
    }
    const std::uint64_t begun_ns = events_->begin(activity::move, asked);
    absl::Status status = memory_->move(orders);
    std::vector<event> moved;
    std::uint64_t bytes = 0;
    for (const movable_memory& now : memory_->movable()) {
        const auto old =
            std::find_if(before.begin(), before.end(), [&](const movable_memory& m) { return m.number == now.number; });
        if (old != before.end() && old->tier != now.tier) {
            moved.push_back({.at = std::uint64_t{to_underlying(now.run.first)} << segment_shift,
                             .bytes = std::uint64_t{now.run.count} << segment_shift,
                             .detail = static_cast<std::uint32_t>(now.tier) & 1,
                             .kind = event_kind::move});
            bytes += moved.back().bytes;
        }
    }
    events_->end(activity::move, bytes, begun_ns, std::move(moved));
    return status;
}

/// Returns what tells tools of the heap's memory; null if no tool has been heard of.
nvtx::heap_memory_marks* heap::impl::memory_marks() {
    nvtx::heap_memory_marks* const marks = events_ ? events_->memory() : nullptr;
    return marks != nullptr ? marks : late_marks_.get();
}

/// The quarantine is emptied first: its blocks are freed, and must not count as live, nor be read by a later free.
absl::StatusOr<std::uint64_t> heap::impl::mark_live_blocks() {
    const char* const tool = std::getenv("NVTX_INJECTION64_PATH");
    const bool has_tool = tool != nullptr && *tool != '\0';
    if (!values.nvtx || (memory_marks() == nullptr && !has_tool)) {
        return 0;
    }
    if (closed.state != nullptr) {
        return absl::FailedPreconditionError(
            "mark_live_blocks: a published algorithm serves this heap, whose blocks are not told to tools; use a heap "
            "of heap::create");
    }
    absl::Status status = settle();
    status.Update(status.ok() ? detail::run_empty_quarantine(own_executor(), view) : status);
    if (!status.ok()) {
        return status;
    }
    auto blocks = live_blocks(view, *memory_);
    if (!blocks.ok()) {
        return blocks.status();
    }
    // Behind the last segment in use there may be no memory, of which a tool could know nothing.
    std::uint32_t end = service_->segments();
    if (values.backing != backing_option::fixed) {
        status = run("mark_live_blocks", [&] {
            while (end != 0 && !service_->is_granted(segment_index{end - 1})) {
                --end;
            }
        });
    }
    if (!status.ok()) {
        return status;
    }
    // A tool may take live blocks alone: it is not heard of when the heap is made.
    if (memory_marks() == nullptr) {
        late_marks_ = std::make_unique<nvtx::heap_memory_marks>(
            nvtx::address_range{view.base, std::uint64_t{view.segments} << segment_shift});
    }
    if (memory_marks()->mark_blocks({view.base, std::uint64_t{end} << segment_shift}, *blocks)) {
        return blocks->size();
    }
    if (!has_tool) {
        return 0;
    }
    return absl::FailedPreconditionError(
        "mark_live_blocks: the tool takes no live blocks in the memory of this heap; compute-sanitizer takes that of "
        "cudaMalloc alone: create the heap with backing fixed");
}

void heap::impl::unmark_live_blocks() {
    if (nvtx::heap_memory_marks* const marks = memory_marks(); marks != nullptr) {
        marks->mark_segments();
    }
}

}  // namespace orchard
