// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Processes and the names of their pages; see live_process.hpp.

#include "runtime/live/live_process.hpp"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace orchard::live {
namespace {

// Abseil's type may differ from the standard one.
absl::string_view abseil(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

/// The name of the program is in brackets, and may have brackets and blanks itself: the fields are counted from the
/// last one.
///
///     1234 (my (odd) name) S 1 ...     the first word behind the last bracket is field 3, the state
std::optional<std::uint64_t> start_ticks_in(std::string_view stat) {
    const std::size_t bracket = stat.rfind(')');
    if (bracket == std::string_view::npos) {
        return std::nullopt;
    }
    const std::vector<absl::string_view> fields =
        absl::StrSplit(abseil(stat.substr(bracket + 1)), ' ', absl::SkipEmpty());
    constexpr std::size_t state = 0;
    constexpr std::size_t start = 22 - 3;
    std::uint64_t ticks = 0;
    if (fields.size() <= start || fields[state] == "Z" || fields[state] == "X" ||
        !absl::SimpleAtoi(fields[start], &ticks)) {
        return std::nullopt;
    }
    return ticks;
}

/// A process that ends between the opening and the reading makes the reading fail. `getline` then leaves the text
/// empty; an iterator over the file's buffer would throw.
std::optional<std::uint64_t> start_ticks_of(pid_t pid) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
    std::string stat;
    std::getline(file, stat, '\0');
    return start_ticks_in(stat);
}

std::string page_name::text() const { return absl::StrCat("orchard.", pid, ".", heap); }

/// Takes only what `text` makes: "orchard.007.1" is another program's file.
std::optional<page_name> page_name::from(std::string_view file) {
    const std::vector<absl::string_view> parts = absl::StrSplit(abseil(file), '.');
    page_name name;
    if (parts.size() != 3 || parts[0] != "orchard" || !absl::SimpleAtoi(parts[1], &name.pid) ||
        !absl::SimpleAtoi(parts[2], &name.heap) || name.pid <= 0 || name.text() != file) {
        return std::nullopt;
    }
    return name;
}

}  // namespace orchard::live
