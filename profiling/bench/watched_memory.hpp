// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Managed memory for which benchmarks query the location of pages. The driver's own counters are often too low
/// (docs/uvm.md, section 6). The host's mappings are exact, because a page that moves to the GPU is unmapped on the
/// host.

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace orchard::bench {

/// Returns, for each page of 4 KiB of [at, at + bytes), whether this process has mapped it. `at` and `bytes` are
/// multiples of 4096. Errors: Unavailable if the system does not provide it (`/proc/self/pagemap`). Cost: 8 B read for
/// each page.
absl::StatusOr<std::vector<bool>> pages_mapped(const void* at, std::uint64_t bytes);

/// Lets the host map all of [at, at + bytes), so that a later move to the GPU can be seen: `bring_home` moves it, then
/// each page is read, because the host maps a page only when it touches it. Errors: those of `bring_home`; Internal if
/// pages are still missing.
absl::Status map_on_host(const void* at, std::uint64_t bytes, const std::function<absl::Status()>& bring_home);

/// Returns the bytes of [at, at + bytes) that the host has not mapped. If the host had all of them, these have moved to
/// the GPU.
absl::StatusOr<std::uint64_t> bytes_moved_away(const void* at, std::uint64_t bytes);

}  // namespace orchard::bench
