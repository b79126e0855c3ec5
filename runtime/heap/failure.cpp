// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The texts of failures. `to_text` gives, for a request of 3 MiB in a heap of 4 MiB:
///
///     a request of 3145728 bytes (3 MiB, beyond the page classes) by block 0, thread 5
///     failed at device time 12.000000345 s
///     : out_of_memory_device_budget: all memory that the heap may commit is granted
///     ; 7 requests failed so far, 2 of them for this reason
///     ; now 4 MiB are in use of 4 MiB committed, the largest free piece is 0 B, the budget 4 MiB
///     ; raise the option capacity ...
///
/// It is one line; the breaks above are between its parts.

#include "runtime/heap/failure.hpp"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/options/byte_size.hpp"

namespace orchard {
namespace {

/// The texts of one reason, in the order in which a message has them.
struct entry {
    std::string_view name;
    std::string_view meaning;
    std::string_view remedy;
};

// Indexed by failure_reason. A text has neither a capital letter at its beginning nor a stop at its end, since
// `to_text` joins them into one line.
constexpr std::array<entry, failure_reasons> reason_entries{{
    {"none", "nothing failed", ""},
    {"out_of_memory_device_budget", "all memory that the heap may commit is granted",
     "raise the option capacity (ORCHARD_CAPACITY, --capacity), give a host_budget, or free memory earlier"},
    {"out_of_memory_virtual_range", "the heap's address range has no segment left",
     "raise the option range (ORCHARD_RANGE, --range), ask for smaller pieces, or free memory earlier"},
    {"fragmented", "enough segments are free, but no run of them is long enough",
     "ask for smaller pieces, free in larger ones, lower the option cached_segments, or raise the option capacity"},
    {"too_large", "the request is larger than the heap could ever grant",
     "ask for less at once, or raise the option capacity (ORCHARD_CAPACITY, --capacity)"},
    {"commit_blocked", "the service answers, but memory was not committed within the deadline",
     "call preload() for the kernels and reserve() before the launch, keep CUDA calls that wait for the kernel "
     "(cudaMalloc, cudaFree, pageable copies) off while it allocates, raise the option commit_ahead, or raise "
     "request_timeout"},
    {"service_not_responding", "the service gave no sign of life within the deadline",
     "see that the process is not stopped and its service thread gets a core (option service_core), or raise the "
     "option request_timeout"},
    {"closing", "the heap is being closed", "close the heap only after the kernels that use it have ended"},
    {"invalid_alignment", "the alignment is not a power of two up to 2 MiB", "ask for a power of two up to 2097152"},
    {"commit_failed", "the backing could not provide physical memory",
     "lower the option capacity (ORCHARD_CAPACITY, --capacity) to what the device has free (`orchard info`), or end "
     "what else uses its memory"},
    {"out_of_memory_host_budget", "all memory that the heap may commit is granted, on the host too",
     "raise the option host_budget (ORCHARD_HOST_BUDGET, --host-budget) or capacity, or free memory earlier"},
}};
static_assert(!reason_entries.back().name.empty(), "every reason has an entry");
// Outside the table, since its position would be a reason.
constexpr entry unknown{"unknown", "this reason is not known to this build",
                        "build device code and host code from the same version"};

/// Returns the entry of a reason; `unknown` for a number that this build does not know, which another version of the
/// device code may have written.
constexpr const entry& lookup(failure_reason reason) {
    const auto index = static_cast<std::uint32_t>(reason);
    return index < failure_reasons ? reason_entries[index] : unknown;
}

/// Returns the text as Abseil's own type, which may differ from the standard one.
absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }

/// The parts of a line: the size class, the memory levels (nothing if they are not known), and the number of failures
/// (nothing if this is the only one).
std::string describe_class(const failure& what) {
    return what.size_class >= chunk_class ? std::string("beyond the page classes")
                                          : absl::StrFormat("size class %d", what.size_class);
}

std::string describe(const memory_levels& now) {
    // The levels are not known: no text is better than zeros.
    if (now == memory_levels{}) {
        return "";
    }
    const std::string host =
        now.host_budget != 0 ? absl::StrFormat(" and %s on the host", format_bytes(now.host_budget)) : std::string();
    return absl::StrFormat("; now %s are in use of %s committed, the largest free piece %s %s, the budget %s%s",
                           format_bytes(now.in_use), format_bytes(now.committed),
                           now.is_late ? "was, when the service last said so," : "is", format_bytes(now.largest_free),
                           format_bytes(now.device_budget), host);
}

std::string describe_others(const failure& what) {
    if (what.count <= 1) {
        return "";
    }
    // If all failed for this reason, the second number says nothing new.
    const std::string so = what.of_reason != 0 && what.of_reason < what.count
                               ? absl::StrFormat(", %d of them for this reason", what.of_reason)
                               : std::string();
    return absl::StrFormat("; %d requests failed so far%s", what.count, so);
}

}  // namespace

std::string_view name_of(failure_reason reason) { return lookup(reason).name; }
std::string_view explain(failure_reason reason) { return lookup(reason).meaning; }
std::string_view remedy(failure_reason reason) { return lookup(reason).remedy; }

/// The order of the line: the request, its thread and time, the reason and its meaning, other failures, the memory
/// levels, the remedy.
std::string to_text(const failure& what) {
    const entry& reason = lookup(what.reason);
    if (what.reason == failure_reason::none) {
        return std::string(reason.meaning);
    }
    return absl::StrFormat(
        "a request of %d bytes (%s, %s) by block %d, thread %d failed at device time %d.%09d s: %s: %s%s%s; %s",
        what.bytes, format_bytes(what.bytes), describe_class(what), what.block, what.thread,
        what.time_ns / 1'000'000'000, what.time_ns % 1'000'000'000, view(reason.name), view(reason.meaning),
        describe_others(what), describe(what.now), view(reason.remedy));
}

}  // namespace orchard
