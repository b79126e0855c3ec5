// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <absl/status/status.h>

namespace orchard::examples {

/// Returns the bytes of memory that this process may use: the machine's, or the limit of its control group if that is
/// lower.
/// @param cgroup  the folder that shows the process its own control group
std::uint64_t host_memory_bytes(const std::string& cgroup = "/sys/fs/cgroup");

/// Returns `ResourceExhausted` if `bytes` for `purpose` exceed `have`. Call it before creating large arrays, because an
/// operating system that overcommits memory would kill the program instead of failing the request.
absl::Status check_host_memory(std::uint64_t bytes, std::string_view purpose, std::uint64_t have = host_memory_bytes());

}  // namespace orchard::examples
