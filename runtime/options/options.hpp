// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The options of a heap. One table, runtime/options/options.def, generates the struct, the variables `ORCHARD_<NAME>`,
/// the flags `--<name>` (runtime/cli/options_cli.hpp), their help and docs/options.md.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "host/events/event_mode.hpp"
#include "runtime/options/byte_size.hpp"
#include "uvm/geometry/access_pattern.hpp"
#include "uvm/geometry/hardening.hpp"
#include "uvm/geometry/lane_order.hpp"
#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/portion.hpp"
#include "uvm/memory/managed_memory.hpp"

namespace orchard {

/// The requested device. In text: `auto`, `cuda`, `emulated`.
enum class device_option : int { automatic, cuda, emulated };

/// The requested source of memory. In text: `auto`, `elastic`, `fixed`, `managed`.
enum class backing_option : int { automatic, elastic, fixed, managed };

/// The kind of host memory in which the mailbox lies. In text: `pinned`, `managed`.
enum class mailbox_memory_option : int { pinned, managed };

// The type of a field of each kind in options.def.
namespace detail::option_type {
using device = device_option;
using memory = backing_option;
using mailbox = mailbox_memory_option;
using advice = managed_advice;
using bytes = std::uint64_t;
using count = int;
using duration = absl::Duration;
using flag = bool;
using portions = orchard::portion_policy;
using tails = orchard::tail_policy;
using arrays = orchard::layout;
using order = orchard::lane_order;
using guards = orchard::hardening;
using fill = orchard::block_fill;
using pattern = orchard::access_pattern;
using text = std::string;
using recording = orchard::event_mode;
}  // namespace detail::option_type

/// The options with which a heap is created. A default-constructed value is valid. runtime/options/options.def and
/// docs/options.md describe the fields, their ranges and their meaning.
struct options {
#define ORCHARD_OPTION(kind, name, default_value, minimum, maximum, rule, unit, help)                                  \
    detail::option_type::kind name = default_value;
#include "runtime/options/options.def"
#undef ORCHARD_OPTION

    /// Returns the defaults, changed by the environment: `apply_environment` on a default-constructed value, with the
    /// same `foreign`.
    static absl::StatusOr<options> from_environment(std::vector<std::string>* foreign = nullptr);

    friend bool operator==(const options&, const options&) = default;
};

/// Checks each field against its range and its rule.
///
/// Errors: OutOfRange for the first field that violates them, with its value and the allowed values.
absl::Status validate(const options& values);

/// Sets the field `name` (`request_timeout`, or `request-timeout` as in the flag) from text; unchanged on error.
///
/// Bytes: see `parse_bytes`. Durations: a number and a unit as `absl::ParseDuration` reads them ("500ms", "10s").
/// Switches: true, false, yes, no, 1, 0.
///
/// Errors: NotFound for an unknown name, with the nearest known one, if any is near; InvalidArgument if the text is no
/// value of the field's type; OutOfRange if `validate` would reject the value. Each message quotes the text and lists
/// the allowed values.
absl::Status set(options& values, std::string_view name, std::string_view text);

/// Sets each field whose variable `ORCHARD_<NAME>` (upper case) is in the process's environment; unchanged on error. No
/// other thread may change the environment during this call. In a program with more rights than its caller (AT_SECURE:
/// set-user-ID, set-group-ID, file capabilities) it does nothing.
///
/// Errors: InvalidArgument and OutOfRange as `set`, naming the variable.
/// @param foreign  if not null, gets a message about each other variable that starts with `ORCHARD_`, with that of the
///     nearest option, if any is near: the variable may be misspelt, or another program's. Messages are appended, also
///     those before an error. None is about the variables that build systems, the launcher, the default heap and
///     the Python package use:
///     `ORCHARD_HAS_CUDA`, `ORCHARD_SOURCE_DIR`, `ORCHARD_CHECKED`, `ORCHARD_CUDA_ARCHITECTURES`,
///     `ORCHARD_NO_PACKAGES`, `ORCHARD_INIT`, `ORCHARD_LIBRARY`; nor those that `orchard profile` sets, which begin
///     with `ORCHARD_PROFILE_`.
absl::Status apply_environment(options& values, std::vector<std::string>* foreign = nullptr);

/// One line of the table of options, as text.
struct option_info {
    std::string name;      ///< the field of `options`: "request_timeout"
    std::string variable;  ///< "ORCHARD_REQUEST_TIMEOUT"
    std::string flag;      ///< "--request-timeout"
    std::string value;     ///< the default: "10s"
    std::string allowed;   ///< "1ms to 1h"
    std::string unit;      ///< the unit of a number: "time"
    std::string help;
    bool is_switch = false;  ///< the flag takes an optional value
};

/// Returns all options, in the order of the struct; `value` is that of `values`.
std::vector<option_info> option_table(const options& values = {});

/// Returns the values as lines "name = value", in the order of the struct. `set` reads each value back.
std::string to_text(const options& values);

/// Returns the text of docs/options.md.
std::string options_markdown();

}  // namespace orchard
