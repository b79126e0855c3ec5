// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/heap/heap_trace.hpp"

#include <bit>
#include <cstdio>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "device/simt/lane.cuh"
#include "runtime/heap/heap_impl.hpp"
#include "runtime/trace/site_names.hpp"

namespace orchard {
namespace {

/// Slots of the ring: 2 MiB of host memory. While the log's thread sleeps, up to 10 ms, kernels fill them before they
/// wait.
constexpr std::uint64_t ring_slots = std::uint64_t{1} << 16;
/// Of the events that kernels have written, when the heap ends.
constexpr absl::Duration longest_flush = absl::Seconds(10);

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

/// Returns the header of a trace that begins now.
trace_info info_of(const options& values, const backing& memory, bool on_cuda, event_mode mode) {
    trace_info info;
    info.mode = mode;
    info.on_cuda = on_cuda;
    info.base = reinterpret_cast<std::uintptr_t>(memory.base());
    info.range = std::uint64_t{memory.usable_segments()} << segment_shift;
    info.capacity = values.capacity;
    info.start_ns = simt::clock_ns();
    info.options_json = json_of_options(values);
    return info;
}

/// Ends a trace's file, after the log has passed on all that it is to have. Errors: those of `trace_writer::finish`.
absl::Status finish(trace_writer& file, std::uint64_t lost_notes, const trace_waits& waits) {
    std::map<std::uint32_t, std::string> names;
    for (const std::uint32_t tag : file.tags()) {
        names[tag] = name_of_tag(tag);
    }
    return file.finish(lost_notes, waits, names);
}

absl::Status no_sites() {
    return absl::FailedPreconditionError(
        "sites: the heap does not count blocks by tag; set the option sites (ORCHARD_SITES, --sites)");
}

}  // namespace

absl::StatusOr<std::unique_ptr<heap_trace>> heap_trace::make(const options& values, backing& memory, bool on_cuda,
                                                             bool has_kernels, event_listeners& listeners) {
    if (values.trace.empty() && !values.sites) {
        return nullptr;
    }
    // Sites count every block.
    const event_mode mode = values.sites ? event_mode::complete : values.trace_mode;
    auto made = std::unique_ptr<heap_trace>(new heap_trace(mode, memory));
    if (has_kernels) {
        if (absl::Status s = made->make_ring(values, on_cuda); !s.ok()) {
            return s;
        }
        listeners.sources.push_back(made->kernels_.get());
    }
    if (!values.trace.empty()) {
        const trace_info info = info_of(values, memory, on_cuda, mode);
        auto file = trace_writer::open(values.trace, info, values.trace_limit);
        if (!file.ok()) {
            return file.status();
        }
        made->file_ = *std::move(file);
        listeners.sinks.push_back(made->file_.get());
    }
    if (values.sites) {
        made->sites_ = std::make_unique<site_table>();
        listeners.sinks.push_back(made->sites_.get());
    }
    if (mode == event_mode::complete) {
        listeners.log.mode = event_mode::complete;
    }
    return made;
}

absl::Status heap_trace::make_ring(const options& values, bool on_cuda) {
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
    return memory_.write(static_cast<void*>(ring_), &ring, sizeof(ring));
}

/// Returns a word of the ring in device memory, at a moment of this call.
absl::StatusOr<std::uint64_t> heap_trace::read_word(const simt::device_word<std::uint64_t>& of_ring) {
    simt::device_word<std::uint64_t> word(0);
    absl::Status s = memory_.read(static_cast<void*>(&word), static_cast<const void*>(&of_ring), sizeof(word));
    if (!s.ok()) {
        return s;
    }
    return word.load<simt::order::relaxed>();
}

absl::StatusOr<event_waits> heap_trace::kernel_waits() {
    if (ring_ == nullptr) {
        return event_waits{};
    }
    const auto count = read_word(ring_->waits);
    const auto ns = count.ok() ? read_word(ring_->waited_ns) : count;
    return ns.ok() ? absl::StatusOr<event_waits>(event_waits{*count, *ns}) : ns.status();
}

absl::Status heap_trace::note_host_block(event_kind kind, std::uint64_t offset, std::uint64_t bytes) {
    if (!reports_blocks()) {
        return absl::OkStatus();
    }
    event e;
    e.time_ns = simt::clock_ns();
    e.at = offset;
    e.bytes = bytes;
    e.thread = host_thread;
    e.kind = kind;
    return kernels_->add_of_host(e, [this] { return read_word(ring_->ticket); });
}

absl::StatusOr<std::vector<site_usage>> heap_trace::sites(event_log& log, absl::Duration limit) const {
    if (sites_ == nullptr) {
        return no_sites();
    }
    if (!log.flush(limit)) {
        return absl::DeadlineExceededError(
            absl::StrFormat("sites: the log of the heap's events did not come to rest within %s; a kernel may still be "
                            "allocating, or the disk of the trace is slow",
                            absl::FormatDuration(limit)));
    }
    return sites_->usage();
}

/// First all that kernels have written; then what is still missing can only be lost.
absl::Status heap_trace::end(event_log& log) {
    std::uint64_t lost_notes = 0;
    trace_waits waits;
    if (ring_ != nullptr) {
        log.flush(longest_flush);
        device::event_ring ring;
        if (memory_.read(static_cast<void*>(&ring), static_cast<const void*>(ring_), sizeof(ring)).ok()) {
            kernels_->end(ring.ticket.load<simt::order::relaxed>(), ring.lost.load<simt::order::relaxed>());
            lost_notes = ring.lost_notes.load<simt::order::relaxed>();
            waits.kernels = {ring.waits.load<simt::order::relaxed>(), ring.waited_ns.load<simt::order::relaxed>()};
        }
    }
    log.stop();
    waits.host = log.waits();
    return file_ != nullptr ? finish(*file_, lost_notes, waits) : absl::OkStatus();
}

absl::Status heap::impl::make_trace() {
    auto made = heap_trace::make(values, *memory_, executor.kind == simt::device_kind::cuda,
                                 walk_.algorithm == device::page_policy::default_walk, listeners_);
    if (!made.ok() || *made == nullptr) {
        return made.status();
    }
    trace_ = *std::move(made);
    view.events = trace_->ring();
    view.instrumented |= trace_->reports_blocks() ? device::heap_view::reporting : 0;
    return absl::OkStatus();
}

absl::StatusOr<std::vector<site_usage>> heap::impl::sites() {
    return trace_ != nullptr ? trace_->sites(events_->log(), values.request_timeout) : no_sites();
}

/// Returns how long producers have waited for traces so far; of kernels the value of the time when a trace was started,
/// if the device cannot be read.
trace_waits heap::impl::waits_for_traces() {
    const absl::StatusOr<event_waits> kernels = trace_ ? trace_->kernel_waits() : event_waits{};
    return {kernels.value_or(started_waits_.kernels), events_->log().waits()};
}

/// Begins a trace for a reader of the live page. It has what the heap's threads report, and what kernels do if the heap
/// has the option `trace` or `sites`. Its mode is sampled, as what was before it is missing, so that it cannot be
/// replayed. Errors: InvalidArgument for a file without its whole path; FailedPrecondition if such a trace is under
/// way; those of `trace_writer::open`.
absl::StatusOr<std::string> heap::impl::start_trace(const std::string& path) {
    if (path.empty() || path.front() != '/') {
        return absl::InvalidArgumentError("trace_start: give a file by its whole path");
    }
    if (started_trace_) {
        return absl::FailedPreconditionError(
            absl::StrCat("trace_start: a trace is being written to ", started_path_, "; send trace_stop first"));
    }
    const bool on_cuda = executor.kind == simt::device_kind::cuda;
    auto file = trace_writer::open(path, info_of(values, *memory_, on_cuda, event_mode::sampled), values.trace_limit);
    if (!file.ok()) {
        return file.status();
    }
    started_trace_ = *std::move(file);
    started_path_ = path;
    started_waits_ = waits_for_traces();
    events_->log().add_sink(*started_trace_);
    return absl::StrCat("a trace is being written to ", path);
}

/// Ends the trace that `start_trace` began. Errors: FailedPrecondition if there is none; those of
/// `trace_writer::finish`.
absl::StatusOr<std::string> heap::impl::stop_trace() {
    if (!started_trace_) {
        return absl::FailedPreconditionError("trace_stop: no trace was started; send trace_start=FILE first");
    }
    events_->log().flush(values.request_timeout);
    events_->log().remove_sink(*started_trace_);
    const absl::Status status = finish(*started_trace_, 0, waits_for_traces() - started_waits_);
    const trace_counts counts = started_trace_->counts();
    started_trace_.reset();
    return status.ok() ? absl::StatusOr<std::string>(absl::StrFormat("%d events written to %s, %d lost", counts.events,
                                                                     started_path_, counts.lost))
                       : status;
}

/// Stops the log, and ends the traces. A heap that is destroyed returns nothing: an error of a file is printed where
/// an option asks for lines, and is found by the reader of the file, which is cut off.
void heap::impl::end_traces() {
    absl::Status status = trace_ ? trace_->end(events_->log()) : absl::OkStatus();
    events_->stop();
    if (started_trace_) {
        status.Update(finish(*started_trace_, 0, waits_for_traces() - started_waits_));
    }
    if (!status.ok() && (values.verbose || values.show_stats)) {
        (void)std::fputs(absl::StrFormat("orchard: trace of heap %d: %s\n", number_, status.message()).c_str(), stderr);
    }
}

}  // namespace orchard
