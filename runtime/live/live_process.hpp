// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Which process a live page belongs to, and whether it still runs.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orchard::live {

/// Returns when a process began, in clock ticks since the start of the machine; nothing if there is no such process, or
/// if it has ended and waits for its parent. With the number of the process, the time tells it from every other one.
std::optional<std::uint64_t> start_ticks_of(pid_t pid);

/// Returns the same from the text of /proc/PID/stat.
std::optional<std::uint64_t> start_ticks_in(std::string_view stat);

/// The name of a page: "orchard.<pid>.<heap>".
struct page_name {
    pid_t pid = 0;
    std::uint32_t heap = 0;

    [[nodiscard]] std::string text() const;
    /// Returns the name that a file in /dev/shm has; nothing if it is none of a page.
    static std::optional<page_name> from(std::string_view file);

    friend bool operator==(const page_name&, const page_name&) = default;
};

}  // namespace orchard::live
