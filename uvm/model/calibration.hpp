// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The constants of the paging model: the costs, and the sizes of the machine. Two machines have names, and every
/// constant can be set by name=value.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace orchard::uvm_model {

/// The times of the driver and the GPU, in nanoseconds, the GPU's sizes, and the parameters of policies. The table in
/// calibration.cpp, which `constants()` returns, describes each member and gives its range; docs/uvm_model.md says
/// where the values come from.
///
/// A calibration that was only default-constructed is no machine: sizes and rates must be at least 1, so that `check`
/// rejects it.
struct calibration {
    // the driver
    double batch_ns = 0;
    double block_ns = 0;
    double page_ns = 0;
    double copy_ns = 0;
    double eviction_ns = 0;
    double wake_ns = 0;
    double refetch_ns = 0;
    double in_bytes_per_s = 0;
    double out_bytes_per_s = 0;
    std::uint32_t batch_entries = 0;
    std::uint32_t update_put_percent = 0;
    // the GPU
    double fault_ns = 0;
    double fault_gap_ns = 0;
    double step_ns = 0;
    double remote_ns = 0;
    double remote_bytes_per_s = 0;
    std::uint32_t remote_access_bytes = 0;
    std::uint32_t utlbs = 0;
    std::uint32_t utlb_faults = 0;
    std::uint32_t sms = 0;
    std::uint32_t sm_warps = 0;
    std::uint32_t block_warps = 0;
    // the stand-ins for published policies (paging_policy.hpp); the same for all machines, and not used by the driver
    std::uint32_t throttle_batches = 16;
    std::uint32_t throttle_percent = 25;
    double compression = 1.5;
    std::uint32_t adapt_services = 2;
    std::uint32_t adapt_percent = 25;
    double monitor_ns = 2'000;
    std::uint32_t act_threshold = 8;
    std::uint32_t act_penalty = 8;

    friend bool operator==(const calibration&, const calibration&) = default;
};

/// One constant: its name, its member, its range and its meaning. The table of all constants drives the parser, the
/// range checks and `to_text`.
struct constant {
    /// The member's name, as in `batch_ns=20000`.
    std::string_view name;
    /// A time or a rate is a `double`; a count is a `std::uint32_t`, and only whole numbers are accepted for it.
    std::variant<double calibration::*, std::uint32_t calibration::*> member;
    double least;           ///< the smallest value allowed
    double most;            ///< the largest value allowed
    std::string_view help;  ///< one line, for lists and error messages
};

/// Returns all constants, in the order of the struct.
[[nodiscard]] std::span<const constant> constants();

/// Returns the machines that `calibration_of` knows: "titan_v", "h200".
[[nodiscard]] std::span<const std::string_view> calibration_names();

/// Returns the calibration of that name. Errors: `InvalidArgument`, with the known names, if there is none.
[[nodiscard]] absl::StatusOr<calibration> calibration_of(std::string_view name);

/// Returns a calibration from text: the name of a machine, or name=value for single constants, or first a name and then
/// constants, with commas, spaces or line ends between them. Without a name the constants change `base`.
///
///     h200                  titan_v, utlb_faults=32                  batch_ns=20000 block_ns=5000
///
/// Errors: `InvalidArgument` for an unknown machine or constant (the message lists the known ones), a value that is no
/// number, not whole although it is a count, or out of range (the message has the range), or a machine's name after the
/// first word.
[[nodiscard]] absl::StatusOr<calibration> parse_calibration(std::string_view text, const calibration& base);
/// Returns a calibration from text, based on "h200".
[[nodiscard]] absl::StatusOr<calibration> parse_calibration(std::string_view text);

/// Returns every constant as a line name=value; `parse_calibration` reads it back to the same.
[[nodiscard]] std::string to_text(const calibration& c);

/// Checks all constants. Errors: `InvalidArgument` names the first constant that is out of range, and the range.
[[nodiscard]] absl::Status check(const calibration& c);

}  // namespace orchard::uvm_model
