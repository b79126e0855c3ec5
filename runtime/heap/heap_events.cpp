// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/heap/heap_events.hpp"

#include <bit>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "device/simt/lane.cuh"
#include "runtime/trace/site_names.hpp"

namespace orchard {
namespace {

/// Slots of the ring: 2 MiB of host memory. While the log's thread sleeps, up to 10 ms, kernels fill them before they
/// wait.
constexpr std::uint64_t ring_slots = std::uint64_t{1} << 16;

/// Returns the options as a JSON object of texts.
std::string json_of_options(const options& values) {
    std::string text = "{";
    for (const option_info& o : option_table(values)) {
        std::string value;
        for (const char c : o.value) {
            if (c == '"' || c == '\\') {
                value.push_back('\\');
            }
            value.append(static_cast<unsigned char>(c) < 0x20 ? absl::StrFormat("\\u%04x", c) : std::string(1, c));
        }
        absl::StrAppend(&text, text.size() == 1 ? "" : ", ", "\"", o.name, "\": \"", value, "\"");
    }
    return text + "}";
}

}  // namespace

heap_events::~heap_events() { end().IgnoreError(); }

absl::StatusOr<std::unique_ptr<heap_events>> heap_events::make(const options& values, backing& memory, bool on_cuda,
                                                               bool has_kernels) {
    if (values.trace.empty() && !values.sites) {
        return nullptr;
    }
    // Sites count every block.
    event_log_settings settings;
    settings.mode = values.sites ? event_mode::complete : values.trace_mode;
    auto made = std::unique_ptr<heap_events>(new heap_events(settings, memory));
    if (has_kernels) {
        if (absl::Status s = made->make_ring(values, on_cuda); !s.ok()) {
            return s;
        }
    }
    if (!values.trace.empty()) {
        trace_info info;
        info.mode = settings.mode;
        info.on_cuda = on_cuda;
        info.base = reinterpret_cast<std::uintptr_t>(memory.base());
        info.range = std::uint64_t{memory.usable_segments()} << segment_shift;
        info.capacity = values.capacity;
        info.start_ns = simt::clock_ns();
        info.options_json = json_of_options(values);
        auto trace = trace_writer::open(values.trace, info, values.trace_limit);
        if (!trace.ok()) {
            return trace.status();
        }
        made->trace_ = *std::move(trace);
        made->log_.add_sink(*made->trace_);
    }
    if (values.sites) {
        made->sites_ = std::make_unique<site_table>();
        made->log_.add_sink(*made->sites_);
    }
    return made;
}

absl::Status heap_events::make_ring(const options& values, bool on_cuda) {
    auto device = memory_.allocate_metadata(sizeof(device::event_ring));
    auto host = memory_.allocate_host_visible(event_ring_memory::bytes_for(ring_slots));
    if (!device.ok() || !host.ok()) {
        return device.ok() ? host.status() : device.status();
    }
    const event_ring_memory slots = event_ring_memory::in(*host, ring_slots);
    device::event_ring ring{};
    ring.room.store<simt::order::relaxed>(ring_slots);
    ring.words = slots.words;
    ring.progress = slots.progress;
    ring.slots = ring_slots;
    ring.log_slots = std::countr_zero(ring_slots);
    ring.timeout_ns = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(values.request_timeout));
    ring_ = static_cast<device::event_ring*>(*device);
    kernels_ = std::make_unique<kernel_events>(slots, on_cuda);
    log_.add_source(*kernels_);
    return memory_.write(static_cast<void*>(ring_), &ring, sizeof(ring));
}

absl::StatusOr<std::uint64_t> heap_events::read_tickets() {
    simt::device_word<std::uint64_t> tickets(0);
    absl::Status s =
        memory_.read(static_cast<void*>(&tickets), static_cast<const void*>(&ring_->ticket), sizeof(tickets));
    if (!s.ok()) {
        return s;
    }
    return tickets.load<simt::order::relaxed>();
}

absl::Status heap_events::note_host_block(event_kind kind, std::uint64_t offset, std::uint64_t bytes) {
    if (!reports_blocks()) {
        return absl::OkStatus();
    }
    event e;
    e.time_ns = simt::clock_ns();
    e.at = offset;
    e.bytes = bytes;
    e.thread = host_thread;
    e.kind = kind;
    return kernels_->add_of_host(e, [this] { return read_tickets(); });
}

absl::Status heap_events::flush(absl::Duration limit) {
    return log_.flush(limit) ? absl::OkStatus()
                             : absl::DeadlineExceededError(absl::StrFormat(
                                   "the log of the heap's events did not come to rest within %s; a kernel may still be "
                                   "allocating, or the disk of the trace is slow",
                                   absl::FormatDuration(limit)));
}

absl::StatusOr<std::vector<site_usage>> heap_events::sites(absl::Duration limit) {
    if (sites_ == nullptr) {
        return absl::FailedPreconditionError(
            "sites: the heap does not count blocks by tag; set the option sites (ORCHARD_SITES, --sites)");
    }
    if (absl::Status s = flush(limit); !s.ok()) {
        return s;
    }
    return sites_->usage();
}

/// First all that kernels have written; then what is still missing can only be lost.
absl::Status heap_events::end() {
    if (has_ended_) {
        return absl::OkStatus();
    }
    has_ended_ = true;
    std::uint64_t lost_notes = 0;
    if (ring_ != nullptr) {
        constexpr absl::Duration limit = absl::Seconds(10);
        log_.flush(limit);
        device::event_ring ring;
        if (memory_.read(static_cast<void*>(&ring), static_cast<const void*>(ring_), sizeof(ring)).ok()) {
            kernels_->end(ring.ticket.load<simt::order::relaxed>(), ring.lost.load<simt::order::relaxed>());
            lost_notes = ring.lost_notes.load<simt::order::relaxed>();
        }
    }
    log_.stop();
    if (trace_ == nullptr) {
        return absl::OkStatus();
    }
    std::map<std::uint32_t, std::string> names;
    for (const std::uint32_t tag : trace_->tags()) {
        names[tag] = name_of_tag(tag);
    }
    return trace_->finish(lost_notes, names);
}

}  // namespace orchard
