// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The texts of failures. `to_text` gives, for a request of 3 MiB in a heap of 4 MiB:
///
///     a request of 3145728 bytes (3 MiB, beyond the page classes) by block 0, thread 5
///     failed at device time 12.000000345 s
///     : out_of_memory_device_budget: all memory that the heap may commit is granted
///     ; 7 requests failed so far, 2 of them for this reason
///     ; at this query, 2 MiB are in use of 4 MiB committed, the largest free piece is 2 MiB; the budget is 4 MiB
///     ; memory was freed after the request failed
///     ; raise the option capacity ...
///
/// It is one line; the breaks above are between its parts. The figures are those of the query, which comes after the
/// failure: where they do not look like the reason, a part behind them says why (`relation`).

#include "runtime/heap/failure.hpp"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/options/byte_size.hpp"
#include "uvm/geometry/geometry.hpp"

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
    {"out_of_memory_device_budget", "all memory that the heap may commit was granted",
     "raise the option capacity (ORCHARD_CAPACITY, --capacity), give a host_budget (ORCHARD_HOST_BUDGET, "
     "--host-budget), or free memory earlier"},
    {"out_of_memory_virtual_range", "the heap's address range had no segment left",
     "raise the option range (ORCHARD_RANGE, --range), ask for smaller pieces, or free memory earlier"},
    {"fragmented", "enough segments were free, but no run of them was long enough",
     "ask for smaller pieces, free in larger ones, lower the option cached_segments (ORCHARD_CACHED_SEGMENTS, "
     "--cached-segments), or raise the option capacity (ORCHARD_CAPACITY, --capacity)"},
    {"too_large", "the request is larger than the heap could ever grant",
     "ask for less at once, or raise the option capacity (ORCHARD_CAPACITY, --capacity)"},
    {"commit_blocked",
     "the service answered, but the driver's call that commits memory did not return within the deadline",
     "call preload() for the kernels and reserve() before the launch, keep CUDA calls that wait for the kernel "
     "(cudaMalloc, cudaFree, pageable copies) off while it allocates, raise the option commit_ahead "
     "(ORCHARD_COMMIT_AHEAD, --commit-ahead), or raise request_timeout (ORCHARD_REQUEST_TIMEOUT, --request-timeout)"},
    {"service_not_responding", "the service gave no sign of life within the deadline",
     "see that the process is not stopped and its service thread gets a core (option service_core: "
     "ORCHARD_SERVICE_CORE, --service-core), or raise the option request_timeout (ORCHARD_REQUEST_TIMEOUT, "
     "--request-timeout)"},
    {"closing", "the heap was being closed", "close the heap only after the kernels that use it have ended"},
    {"invalid_alignment", "the alignment is not a power of two up to 2 MiB", "ask for a power of two up to 2097152"},
    {"commit_failed", "the driver had no physical memory left, although the heap's budget allows more",
     "lower the option capacity (ORCHARD_CAPACITY, --capacity) to what the device has free (`orchard info`), or end "
     "what else uses its memory"},
    {"out_of_memory_host_budget", "all memory that the heap may commit was granted, on the host too",
     "raise the option host_budget (ORCHARD_HOST_BUDGET, --host-budget) or capacity (ORCHARD_CAPACITY, --capacity), or "
     "free memory earlier"},
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

/// Returns the request: "3145728 bytes (3 MiB, beyond the page classes)".
std::string describe_request(const failure& what) {
    // A product of `calloc`, or of a number of elements, that overflowed is recorded as the greatest number.
    if (what.bytes == ~std::uint64_t{0}) {
        return "more bytes than 64 bits can count (a product that overflowed)";
    }
    return absl::StrFormat("%d %s (%s, %s)", what.bytes, what.bytes == 1 ? "byte" : "bytes", format_bytes(what.bytes),
                           what.size_class >= chunk_class ? std::string("beyond the page classes")
                                                          : absl::StrFormat("size class %d", what.size_class));
}

/// Returns true if the memory that the heap holds has nothing to do with the reason.
bool is_without_levels(failure_reason reason) {
    return reason == failure_reason::closing || reason == failure_reason::invalid_alignment;
}

/// Returns the part with the memory levels; empty if they are not known, or say nothing about the reason.
std::string describe(const failure& what) {
    const memory_levels& now = what.now;
    if (now == memory_levels{} || is_without_levels(what.reason)) {
        return "";
    }
    const std::string host =
        now.host_budget != 0 ? absl::StrFormat(" and %s on the host", format_bytes(now.host_budget)) : std::string();
    return absl::StrFormat("; %s %s %s in use of %s committed, the largest free piece %s %s; the budget is %s%s",
                           now.is_late ? "the service does not answer this query; when it last did," : "at this query,",
                           format_bytes(now.in_use), now.is_late ? "were" : "are", format_bytes(now.committed),
                           now.is_late ? "was" : "is", format_bytes(now.largest_free), format_bytes(now.device_budget),
                           host);
}

/// Returns what the memory levels mean beside the reason, where a reader could take the two for a contradiction; empty
/// otherwise. The levels are of the query, and the reason of the failure before it.
std::string relation(const failure& what) {
    const memory_levels& now = what.now;
    if (now == memory_levels{} || is_without_levels(what.reason)) {
        return "";
    }
    const std::uint64_t most = now.device_budget + now.host_budget;
    // A page is missing because a segment for a new slab is.
    const std::uint64_t needed = what.size_class < chunk_class ? segment_bytes : what.bytes;
    const bool fits = now.largest_free >= needed;
    const bool has_room = most > now.in_use && most - now.in_use >= needed;
    switch (what.reason) {
        case failure_reason::out_of_memory_device_budget:
        case failure_reason::out_of_memory_host_budget:
            return fits || has_room ? "; memory was freed after the request failed" : "";
        case failure_reason::out_of_memory_virtual_range:
            return fits ? "; memory was freed after the request failed"
                        : "; the budget is larger than the heap's addresses, so that it cannot be used up";
        case failure_reason::fragmented:
            return fits ? "; a piece that is long enough became free after the request failed"
                   : now.committed > now.in_use
                       ? absl::StrFormat("; the free pieces have %s together", format_bytes(now.committed - now.in_use))
                       : "";
        case failure_reason::too_large:
            return what.bytes > most
                       ? absl::StrFormat("; %s is the most that the heap may commit in all", format_bytes(most))
                       : "; what its group asked for together, in whole segments, is more than the heap has";
        case failure_reason::commit_blocked:
            return fits ? "; this memory came after the deadline: the driver's call had to wait until a kernel ended, "
                          "until a kernel was loaded (lazy loading), or for another CUDA call of the program"
                        : "; the driver's call may still wait until a kernel ends, until a kernel is loaded (lazy "
                          "loading), or for another CUDA call of the program";
        case failure_reason::service_not_responding: return now.is_late ? "" : "; the service answers again";
        case failure_reason::commit_failed:
            return fits ? "; memory became free after the request failed"
                        : "; a budget is a limit, not memory that is set aside: the rest of it is used by others, or "
                          "was "
                          "never there";
        default: return "";
    }
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
/// levels, what these mean beside the reason, the remedy.
std::string to_text(const failure& what) {
    const entry& reason = lookup(what.reason);
    if (what.reason == failure_reason::none) {
        return std::string(reason.meaning);
    }
    return absl::StrFormat("a request of %s by block %d, thread %d failed at device time %d.%09d s: %s: %s%s%s%s; %s",
                           describe_request(what), what.block, what.thread, what.time_ns / 1'000'000'000,
                           what.time_ns % 1'000'000'000, view(reason.name), view(reason.meaning), describe_others(what),
                           describe(what), relation(what), view(reason.remedy));
}

}  // namespace orchard
