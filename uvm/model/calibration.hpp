// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The constants of the paging model: what things cost, and how much of the machine there is. Two machines by name, and
/// every constant by name=value.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace orchard::uvm_model {

/// What the driver and the GPU take, and the GPU's sizes. Times in nanoseconds. `constants()` says what each is.
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

    friend bool operator==(const calibration&, const calibration&) = default;
};

/// One constant: its name, where it is, what it may be and what it means.
struct constant {
    std::string_view name;
    std::variant<double calibration::*, std::uint32_t calibration::*> member;
    double least;
    double most;
    std::string_view help;
};

/// All constants, in the order of the struct.
[[nodiscard]] std::span<const constant> constants();

/// The machines that `calibration_of` knows: "titan_v", "h200".
[[nodiscard]] std::span<const std::string_view> calibration_names();

/// The calibration of that name. `InvalidArgument`, with the names that there are, where there is none.
[[nodiscard]] absl::StatusOr<calibration> calibration_of(std::string_view name);

/// A calibration from text: the name of one, or name=value for single constants, or first the one and then the others,
/// with commas, spaces or line ends between them. Without a name the constants change `base`.
///
///     h200                  titan_v, utlb_faults=32                  batch_ns=20000 block_ns=5000
///
/// `InvalidArgument`: no such machine or constant (the message lists what there is), a value that is no number, not
/// whole where it counts something, or out of range (the message says the range), or a machine's name after the first
/// word.
[[nodiscard]] absl::StatusOr<calibration> parse_calibration(std::string_view text, const calibration& base);
/// The same, on top of "h200".
[[nodiscard]] absl::StatusOr<calibration> parse_calibration(std::string_view text);

/// Every constant as a line name=value; `parse_calibration` reads it back to the same.
[[nodiscard]] std::string to_text(const calibration& c);

/// `InvalidArgument` names the first constant that is out of range, and the range.
[[nodiscard]] absl::Status check(const calibration& c);

}  // namespace orchard::uvm_model
