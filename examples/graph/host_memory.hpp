// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <string_view>

#include <absl/status/status.h>

namespace orchard::examples {

/// Bytes of memory that this machine has.
std::uint64_t host_memory_bytes();

/// `ResourceExhausted` where `bytes` for `purpose` are more than this machine's memory: asked before large arrays are
/// made, since an operating system that overcommits would kill the program instead of refusing.
absl::Status check_host_memory(std::uint64_t bytes, std::string_view purpose);

}  // namespace orchard::examples
