// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Managed memory of which benchmarks look where its pages are. What the driver's own counters say is often too little
/// (docs/uvm.md, section 6); what the host has mapped of its memory is exact: a page that moves to the GPU is unmapped.

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace orchard::bench {

/// For each page of 4 KiB of [at, at + bytes) whether this process has it mapped. `at` and `bytes` are multiples of
/// 4096. Errors: Unavailable where the system does not say it (`/proc/self/pagemap`). Cost: 8 B read for each page.
absl::StatusOr<std::vector<bool>> pages_mapped(const void* at, std::uint64_t bytes);

/// Has the host map [at, at + bytes), all of which is there: `bring_home` moves it, then each page is read. Errors:
/// those of `bring_home`; Internal where pages are still missing.
absl::Status map_on_host(const void* at, std::uint64_t bytes, const std::function<absl::Status()>& bring_home);

/// How many bytes of [at, at + bytes) the host has not mapped: where it had all, what has moved to the GPU since.
absl::StatusOr<std::uint64_t> bytes_moved_away(const void* at, std::uint64_t bytes);

}  // namespace orchard::bench
