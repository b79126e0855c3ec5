// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The table of the paging model's constants, the two machines, and the text form of a calibration; see
/// calibration.hpp.
///
///     text      "titan_v, utlb_faults=32"
///     words     titan_v            the first word may name a machine: all constants
///               utlb_faults=32     one constant, checked against the table's range

#include "uvm/model/calibration.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"

namespace orchard::uvm_model {
namespace {

using c = calibration;
// Limits that no machine reaches: a thousand seconds, and a petabyte a second.
constexpr double max_ns = 1e12;
constexpr double max_rate = 1e15;

/// The constants: name, member, least and greatest value, meaning. Rates begin at 1, because the model divides by them.
constexpr constant table[] = {
    {"batch_ns", &c::batch_ns, 0, max_ns, "a fault batch, whatever is in it: fetch, sort, flush, replay"},
    {"block_ns", &c::block_ns, 0, max_ns, "each VA block that a batch services"},
    {"page_ns", &c::page_ns, 0, max_ns, "each distinct OS page among a block's faults"},
    {"copy_ns", &c::copy_ns, 0, max_ns, "each run of consecutive pages that is copied, beside its bytes"},
    {"eviction_ns", &c::eviction_ns, 0, max_ns, "each 2 MiB chunk evicted, beside the bytes written back"},
    {"wake_ns", &c::wake_ns, 0, max_ns, "from the first fault to the driver's fetch, where the driver slept"},
    {"refetch_ns", &c::refetch_ns, 0, max_ns, "from a replay to the driver's next look into the fault buffer"},
    {"in_bytes_per_s", &c::in_bytes_per_s, 1, max_rate, "migration to the GPU"},
    {"out_bytes_per_s", &c::out_bytes_per_s, 1, max_rate, "migration to the CPU"},
    {"batch_entries", &c::batch_entries, 1, 1e6, "most raw faults in a batch (uvm_perf_fault_batch_count)"},
    {"update_put_percent", &c::update_put_percent, 0, 100,
     "duplicates in a batch above which the flush takes all that has arrived (uvm_perf_fault_replay_update_put_ratio)"},
    {"fault_ns", &c::fault_ns, 0, max_ns, "from a miss, or a replay, to its entry in the fault buffer"},
    {"fault_gap_ns", &c::fault_gap_ns, 0, max_ns, "between two entries of one micro-TLB"},
    {"step_ns", &c::step_ns, 0, max_ns, "a warp's step whose accesses all hit"},
    {"remote_ns", &c::remote_ns, 0, max_ns, "a step with an access to host memory, beside its bytes"},
    {"remote_bytes_per_s", &c::remote_bytes_per_s, 1, max_rate, "accesses to host memory, all warps together"},
    {"remote_access_bytes", &c::remote_access_bytes, 1, 4096, "what one lane's access to host memory moves"},
    {"utlbs", &c::utlbs, 1, 65536, "micro-TLBs"},
    {"utlb_faults", &c::utlb_faults, 1, 1e6, "faults that one micro-TLB can have outstanding"},
    {"sms", &c::sms, 1, 65536, "streaming multiprocessors"},
    {"sm_warps", &c::sm_warps, 1, 4096, "warps resident on an SM at once"},
    {"block_warps", &c::block_warps, 1, 32, "warps of a thread block, which share an SM"},
    {"throttle_batches", &c::throttle_batches, 1, 1e6,
     "throttling_fetch: batches after which SMs are throttled or freed"},
    {"throttle_percent", &c::throttle_percent, 0, 100,
     "throttling_fetch: services that bring an evicted VA block back, of all, above which SMs are throttled"},
    {"compression", &c::compression, 1, 1000, "throttling_fetch: bytes of pages for a byte that a copy moves"},
    {"adapt_services", &c::adapt_services, 1, 1e6,
     "early_adaptor: services of VA blocks, for each chunk of GPU memory, after which thresholds change"},
    {"adapt_percent", &c::adapt_percent, 0, 100,
     "early_adaptor: prefetch threshold of a VA block that faults more than the average"},
    {"monitor_ns", &c::monitor_ns, 0, max_ns, "early_adaptor: each VA block that a batch services, for its history"},
    {"act_threshold", &c::act_threshold, 1, 1e4,
     "dynamic_act: accesses to 64 KiB of host memory that bring them, as GPU memory becomes full"},
    {"act_penalty", &c::act_penalty, 1, 1e5, "dynamic_act: factor of that number once GPU memory is full"},
};

/// docs/uvm.md section 2: costs read off published plots, 56 faults a micro-TLB. 80 SMs, two to a micro-TLB.
constexpr calibration titan_v = {
    .batch_ns = 17'000,
    .block_ns = 13'000,
    .page_ns = 700,
    .copy_ns = 0,  // included in page_ns, as plotted
    .eviction_ns = 20'000,
    .wake_ns = 10'000,
    .refetch_ns = 2'000,
    .in_bytes_per_s = 11.5e9,
    .out_bytes_per_s = 11.5e9,
    .batch_entries = 256,
    .update_put_percent = 50,
    .fault_ns = 1'000,
    .fault_gap_ns = 10,
    .step_ns = 600,
    .remote_ns = 1'500,
    .remote_bytes_per_s = 11.5e9,
    .remote_access_bytes = 32,
    .utlbs = 40,
    .utlb_faults = 56,
    .sms = 80,
    .sm_warps = 64,
    .block_warps = 8,
};

/// Measured by `orchard bench paging` and `orchard bench managed`; docs/uvm_model.md gives the measurement behind each
/// constant.
constexpr calibration h200 = {
    .batch_ns = 1'000,
    .block_ns = 8'300,
    .page_ns = 250,
    .copy_ns = 5'600,
    .eviction_ns = 20'000,
    .wake_ns = 11'000,
    .refetch_ns = 2'000,
    .in_bytes_per_s = 32.5e9,
    .out_bytes_per_s = 32.5e9,
    .batch_entries = 256,
    .update_put_percent = 50,
    .fault_ns = 1'000,
    .fault_gap_ns = 10,
    .step_ns = 600,
    .remote_ns = 1'500,
    .remote_bytes_per_s = 51e9,
    .remote_access_bytes = 32,
    .utlbs = 132,
    .utlb_faults = 8,
    .sms = 132,
    .sm_warps = 64,
    .block_warps = 8,
};

// In the order of `calibration_of`.
constexpr std::array<std::string_view, 2> names = {"titan_v", "h200"};
constexpr std::string_view separators = ", \t\r\n";

/// Returns the table's row of that name; null if there is none.
const constant* find(std::string_view name) {
    for (const constant& entry : table) {
        if (entry.name == name) {
            return &entry;
        }
    }
    return nullptr;
}

/// Returns a list with one more name, separated by a comma.
std::string listed(std::string list, std::string_view name) {
    return list.empty() ? std::string(name) : list.append(", ").append(name);
}

/// Return the names of all constants, and of all machines, for error messages.
std::string known_constants() {
    std::string list;
    for (const constant& entry : table) {
        list = listed(std::move(list), entry.name);
    }
    return list;
}

std::string known_machines() {
    std::string list;
    for (const std::string_view name : names) {
        list = listed(std::move(list), name);
    }
    return list;
}

/// Returns the value of a constant as a `double`, which holds every count of 32 bits exactly.
double value_of(const calibration& from, const constant& entry) {
    return std::visit([&](auto member) { return static_cast<double>(from.*member); }, entry.member);
}

/// Checks a value against the range of its constant, and counts for being whole.
absl::Status in_range(const constant& entry, double value) {
    // Written so that NaN also fails.
    if (!(value >= entry.least && value <= entry.most)) {
        return absl::InvalidArgumentError(absl::StrFormat("paging model: %s = %g is out of range: give %g to %g (%s)",
                                                          entry.name, value, entry.least, entry.most, entry.help));
    }
    if (std::holds_alternative<std::uint32_t calibration::*>(entry.member) && value != std::floor(value)) {
        return absl::InvalidArgumentError(
            absl::StrFormat("paging model: %s = %g counts something: give a whole number", entry.name, value));
    }
    return absl::OkStatus();
}

/// Sets one constant from the text of its value. Changes nothing after an error.
absl::Status set(calibration& to, std::string_view name, std::string_view text) {
    const constant* entry = find(name);
    if (entry == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrFormat("paging model: there is no constant '%s'; there are: %s", name, known_constants()));
    }
    double value = 0;
    // Independent of the locale, unlike `strtod`: "1.5" is the same number everywhere.
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return absl::InvalidArgumentError(absl::StrFormat("paging model: %s = '%s' is not a number: give %g to %g (%s)",
                                                          name, text, entry->least, entry->most, entry->help));
    }
    if (const absl::Status status = in_range(*entry, value); !status.ok()) {
        return status;
    }
    std::visit([&](auto member) { to.*member = static_cast<std::remove_reference_t<decltype(to.*member)>>(value); },
               entry->member);
    return absl::OkStatus();
}

}  // namespace

std::span<const constant> constants() { return table; }

std::span<const std::string_view> calibration_names() { return names; }

absl::StatusOr<calibration> calibration_of(std::string_view name) {
    if (name == names[0]) {
        return titan_v;
    }
    if (name == names[1]) {
        return h200;
    }
    return absl::InvalidArgumentError(
        absl::StrFormat("paging model: there is no calibration '%s'; there are: %s", name, known_machines()));
}

absl::StatusOr<calibration> parse_calibration(std::string_view text, const calibration& base) {
    calibration result = base;
    bool first = true;
    while (true) {
        text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
        if (text.empty()) {
            return result;
        }
        const std::string_view word = text.substr(0, text.find_first_of(separators));
        text.remove_prefix(word.size());
        const std::size_t equals = word.find('=');
        if (equals != std::string_view::npos) {
            if (const absl::Status status = set(result, word.substr(0, equals), word.substr(equals + 1));
                !status.ok()) {
                return status;
            }
        } else if (first) {
            const absl::StatusOr<calibration> named = calibration_of(word);
            if (!named.ok()) {
                return named.status();
            }
            result = *named;
        } else {
            return absl::InvalidArgumentError(absl::StrFormat(
                "paging model: '%s' is no name=value: a machine's name can only be the first word", word));
        }
        first = false;
    }
}

absl::StatusOr<calibration> parse_calibration(std::string_view text) { return parse_calibration(text, h200); }

std::string to_text(const calibration& of) {
    std::string text;
    for (const constant& entry : table) {
        // 17 digits name a `double` exactly, so that the text is read back to the same value.
        absl::StrAppendFormat(&text, "%s=%.17g\n", entry.name, value_of(of, entry));
    }
    return text;
}

absl::Status check(const calibration& of) {
    for (const constant& entry : table) {
        if (const absl::Status status = in_range(entry, value_of(of, entry)); !status.ok()) {
            return status;
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard::uvm_model
