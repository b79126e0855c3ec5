// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The memory that the process may use, asked before large arrays are made.

#include <cstdint>
#include <string>
#include <string_view>

#include <absl/status/status.h>

namespace orchard::examples {

/// Returns the bytes of memory that this process may use: the machine's, or the lowest limit of its control group, of
/// those that contain it, and of the process itself (`ulimit -v`).
/// @param cgroups  the folder of all control groups
/// @param own      the file that names this process's own group
std::uint64_t host_memory_bytes(const std::string& cgroups = "/sys/fs/cgroup",
                                const std::string& own = "/proc/self/cgroup");

/// Returns the bytes of memory that this process can take now: those available on the machine, at most
/// `host_memory_bytes()`. What other processes of its control group have is not subtracted.
/// @param meminfo  the file that describes the machine's memory (proc(5))
std::uint64_t available_host_bytes(const std::string& meminfo = "/proc/meminfo");

/// Returns `ResourceExhausted`, which ends with `remedy`, if `bytes` for `purpose` exceed `have`. Call it before
/// creating large arrays, because an operating system that overcommits memory would kill the program instead of failing
/// the request.
absl::Status check_host_memory(std::uint64_t bytes, std::string_view purpose, std::uint64_t have = host_memory_bytes(),
                               std::string_view remedy = "use a smaller graph");

}  // namespace orchard::examples
