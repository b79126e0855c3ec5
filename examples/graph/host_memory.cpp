// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "examples/graph/host_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include <absl/strings/str_format.h>

namespace orchard::examples {

std::uint64_t host_memory_bytes(const std::string& cgroup) {
    std::uint64_t least =
        static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
    // The files of versions 2 and 1. Without a limit, they say "max" or a number above all memory.
    for (const char* name : {"/memory.max", "/memory/memory.limit_in_bytes"}) {
        std::uint64_t limit = 0;
        if (std::ifstream(cgroup + name) >> limit) {
            least = std::min(least, limit);
        }
    }
    return least;
}

absl::Status check_host_memory(std::uint64_t bytes, std::string_view purpose, std::uint64_t have) {
    if (bytes <= have) {
        return absl::OkStatus();
    }
    constexpr double gib = 1024.0 * 1024.0 * 1024.0;
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s needs %.1f GiB of host memory and this process may use %.1f GiB; use a smaller graph",
                        std::string(purpose), static_cast<double>(bytes) / gib, static_cast<double>(have) / gib));
}

}  // namespace orchard::examples
