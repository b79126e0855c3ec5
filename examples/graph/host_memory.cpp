// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "examples/graph/host_memory.hpp"

#include <unistd.h>

#include <string>

#include <absl/strings/str_format.h>

namespace orchard::examples {

std::uint64_t host_memory_bytes() {
    return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

absl::Status check_host_memory(std::uint64_t bytes, std::string_view purpose) {
    const std::uint64_t have = host_memory_bytes();
    if (bytes <= have) {
        return absl::OkStatus();
    }
    constexpr double gib = 1024.0 * 1024.0 * 1024.0;
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s needs %.1f GiB of host memory and this machine has %.1f GiB; use a smaller graph",
                        std::string(purpose), static_cast<double>(bytes) / gib, static_cast<double>(have) / gib));
}

}  // namespace orchard::examples
