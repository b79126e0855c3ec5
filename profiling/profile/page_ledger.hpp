// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Follows pages through the records of unified memory, and finds records that must be missing. CUPTI loses such
/// records without a word (docs/uvm.md, section 6): its count of dropped records does not have them.
///
///     records, by time           the page is then     what it says
///     to_device                  on the device
///     to_device, again           on the device        the record of the way back is missing
///     to_host                    on the host
///     to_host, again             on the host          the record of the way to the device is missing
///
/// This is a lower bound: a page of which both ways are missing is not found. Read-mostly memory, of which the host
/// keeps a copy, and memory that is freed and allocated again at the same address look like a loss, too.

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "profiling/profile/record_format.hpp"

namespace orchard::profiling {

/// What the ledger has found, in bytes unless it says otherwise.
struct ledger_findings {
    std::uint64_t missing_to_host = 0;    ///< came to a device without having left it
    std::uint64_t missing_to_device = 0;  ///< came to the host without having left it
    std::uint64_t not_checked = 0;        ///< records, not bytes: larger than any that the driver makes
    std::uint64_t on_device_at_end = 0;   ///< by the records
};

/// Returns what the records of one process leave open. They need not be in the order of time. Cost: a look at each page
/// of 4 KiB of each record.
ledger_findings check_pages(std::span<const unified_record> records);

}  // namespace orchard::profiling
