// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <string_view>

#include <absl/status/status.h>

namespace orchard::examples {

/// Returns the bytes of memory that this machine has.
std::uint64_t host_memory_bytes();

/// Returns `ResourceExhausted` if `bytes` for `purpose` exceed this machine's memory. Call it before creating large
/// arrays, because an operating system that overcommits memory would kill the program instead of failing the request.
absl::Status check_host_memory(std::uint64_t bytes, std::string_view purpose);

}  // namespace orchard::examples
