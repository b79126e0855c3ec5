// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What a heap shows of itself while it runs: the live page, its commands, and the options `verbose` and `show_stats`.
///
///     start_monitor            where an option asks for it, when all of the heap's threads run
///       heap_monitor           looks by `look`, ten times a second
///         perform                a command of a reader; one function for each below
///     print_statistics         before the heap's threads end

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "host/monotonic_clock.hpp"
#include "runtime/heap/dump_file.hpp"
#include "runtime/heap/heap_impl.hpp"
#include "runtime/live/live_reader.hpp"
#include "runtime/options/byte_size.hpp"
#include "runtime/options/option_fields.hpp"

namespace orchard {
namespace {

/// Returns the name of this process's program, without its folder.
std::string name_of_program() {
    std::ifstream file("/proc/self/comm");
    std::string name;
    std::getline(file, name);
    return name;
}

}  // namespace

/// Every heap has a number, so that that of a page or of a line is the same whichever options the others have.
std::uint32_t heap::impl::next_number() {
    static std::atomic<std::uint32_t> next{0};
    return next.fetch_add(1, std::memory_order_relaxed);
}

/// Sets the statistics that the host knows: those of the service, of growth and of the backing. Waits for nothing, and
/// makes no call of the device. Any thread.
void heap::impl::add_host_statistics(statistics& s) const {
#define ORCHARD_STATISTIC(source, name, ...) ORCHARD_STATISTIC_##source(name)
#define ORCHARD_STATISTIC_device(name)
#define ORCHARD_STATISTIC_service(name) s.name = service_->counters().name.get();
#define ORCHARD_STATISTIC_computed(name)
#include "runtime/statistics/statistics.def"
#undef ORCHARD_STATISTIC
#undef ORCHARD_STATISTIC_device
#undef ORCHARD_STATISTIC_service
#undef ORCHARD_STATISTIC_computed
    const service_counters& service = service_->counters();
    s.service_polls = service.polls.get();
    s.service_sleeps = thread_->sleeps();
    s.peak_committed_bytes = service.peak_segments_committed.get() << segment_shift;
    s.host_bytes = service.segments_on_host.get() << segment_shift;
    s.released_bytes = service.segments_released.get() << segment_shift;
    s.committed_bytes = s.segments_committed << segment_shift;
    s.capacity_bytes = std::uint64_t{view.max_slabs} << segment_shift;
    s.range_bytes = std::uint64_t{view.segments} << segment_shift;
    const memory_use use = memory_->use();
    s.metadata_bytes = use.metadata_bytes;
    s.moved_to_device_bytes = use.moved_to_device;
    s.moved_to_host_bytes = use.moved_to_host;
    s.spare_bytes = use.spare_bytes;
    if (memory_->can_move()) {
        s.host_bytes = use.host_bytes;  // the service knows where memory was committed, not where it has moved
    }
    s.callback_exceptions = callback_exceptions_.load(std::memory_order_relaxed);
}

/// The look of the monitor. Failures are read from the board in host memory.
void heap::impl::look(live_state& s) const {
    add_host_statistics(s.counts);
    s.device_budget_bytes = device_budget();
    s.largest_free_bytes = service_->counters().longest_free_run.get() << segment_shift;
    s.failed_commits = growth_->line().failures.load<simt::order::relaxed>();
    for (std::uint32_t i = 0; i < failure_reasons; ++i) {
        s.failures[i] = view.failures->newest_of(static_cast<failure_reason>(i));
    }
}

/// Starts the monitor, if an option asks for one. A page that cannot be made is a warning, since the heap works without
/// it. Errors: throws std::system_error if a thread cannot be started.
void heap::impl::start_monitor() {
    if (!values.live_page && !values.verbose) {
        return;
    }
    live_state constant;
    constant.program = name_of_program();
    constant.device = name_of(executor.kind);
    if (executor.kind == simt::device_kind::cuda) {
        const gpu_info gpu = describe_gpu(choice.gpu);
        constant.gpu = absl::StrCat(choice.gpu);
        constant.gpu_name = gpu.name;
        constant.gpu_uuid = gpu.uuid;
    }
    constant.backing = detail::text_of(values, *detail::find_option("backing"));
    constant.host_budget_bytes = values.backing == backing_option::elastic ? values.host_budget : 0;
    constant.started_ns = monotonic_ns();
    constant.queue_depth = &service_->counters().queue_depth;
    constant.answer_ns = &service_->counters().answer_ns;
    constant.commit_ns = &growth_->commit_ns();
    std::unique_ptr<live::live_page> page;
    if (values.live_page) {
        (void)live::living_pages();  // those that ended processes have left go
        auto made = live::live_page::create(number_, live_table());
        live_page_error_ = made.status();
        page = made.ok() ? *std::move(made) : nullptr;
    }
    if (page || values.verbose) {
        monitor_ = std::make_unique<heap_monitor>(
            monitored_heap{number_, std::move(constant), [this](live_state& s) { look(s); }, [this] { return stats(); },
                           [this] { return std::string(growth_->last_error().message()); },
                           [this](const live::request& r) { return perform(r); }},
            std::move(page), values.verbose);
    }
}

/// Carries out a command of a reader of the live page, on the monitor's worker. Whatever other processes have written
/// into the page comes here as it is. Errors: those of the functions that the commands call; InvalidArgument for a
/// command that is none.
absl::StatusOr<std::string> heap::impl::perform(const live::request& r) {
    const auto answer = [](const absl::Status& s, std::string text) {
        return s.ok() ? absl::StatusOr<std::string>(std::move(text)) : s;
    };
    const auto committed = [this] { return service_->counters().segments_committed.get() << segment_shift; };
    switch (r.kind) {
        case live::command::trim: {
            const std::uint64_t before = committed();
            const absl::Status s = alone([this] { return trim(); });
            const std::uint64_t now = committed();
            return answer(s, absl::StrFormat("%s given back, %s committed now",
                                             format_bytes(before - std::min(before, now)), format_bytes(now)));
        }
        case live::command::validate:
            return answer(alone([this] { return validate({}); }), "no fault found; this holds only if no kernel ran");
        case live::command::dump: return dump_to(r.argument);
        case live::command::reserve: {
            const absl::Status s = alone([this, &r] { return reserve(r.number); });
            return answer(s, absl::StrFormat("%s committed now", format_bytes(committed())));
        }
        case live::command::budget: {
            const absl::Status s = alone([this, &r] { return set_device_budget(r.number); });
            return answer(s, absl::StrFormat("the device's budget is %s, %s committed now", format_bytes(r.number),
                                             format_bytes(committed())));
        }
        case live::command::trace_start: return start_trace(r.argument);
        case live::command::trace_stop: return stop_trace();
        case live::command::none: break;
    }
    return absl::InvalidArgumentError(
        absl::StrFormat("command %d is none that this heap knows", static_cast<std::uint64_t>(r.kind)));
}

/// Writes the map of the heap, with its statistics and options, to a file, which must be named by its whole path.
absl::StatusOr<std::string> heap::impl::dump_to(const std::string& path) {
    if (path.empty() || path.front() != '/') {
        return absl::InvalidArgumentError("dump: give a file by its whole path");
    }
    const auto made = alone([this] { return map(); });
    const absl::Status s = made.ok() ? write_dump(path, to_json(*made)) : made.status();
    return s.ok() ? absl::StatusOr<std::string>(absl::StrCat("written to ", path)) : s;
}

/// Prints the statistics where the option `show_stats` asks for them. A heap that could not be made has none.
void heap::impl::print_statistics() {
    if (!values.show_stats || host_blocks_ == nullptr) {
        return;
    }
    const auto all = stats();
    std::string text = absl::StrFormat("orchard: statistics of heap %d:\n%s\n", number_,
                                       all.ok() ? to_text(*all) : std::string(all.status().message()));
    if (values.sites) {
        const auto used = sites();
        absl::StrAppend(&text, used.ok() ? leak_report(*used) : std::string(used.status().message()) + "\n");
    }
    (void)std::fputs(text.c_str(), stderr);
}

}  // namespace orchard
