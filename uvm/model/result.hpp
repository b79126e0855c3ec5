// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The counts of the paging model.
///
///     one page of managed memory        counted as
///     a lane misses it                  accesses; raw_faults for each entry, distinct_faults once in a batch
///     it comes to the GPU with data     demand_pages, or prefetched_pages if the prefetcher added it
///     it comes without data             populated_pages: first touch, or discarded before
///     it leaves with data               written_back_pages
///     it leaves without data            dropped_pages
///     it has left, or the run ends      brought_pages; brought_used_pages if a lane accessed it meanwhile

#include <cstdint>
#include <string>

#include "uvm/geometry/geometry.hpp"

namespace orchard::uvm_model {

/// Counts since the last run ended (or since the model was created), including the calls between runs and the next run.
/// Pages are OS pages, 4 KiB. All counts of one run are the same each time.
struct result {
    // accesses, of lanes
    std::uint64_t accesses = 0;         ///< all; each ends on GPU memory or on host memory
    std::uint64_t hits = 0;             ///< those that succeeded at once
    std::uint64_t remote_accesses = 0;  ///< those that ended on host memory
    std::uint64_t remote_bytes = 0;     ///< bytes moved by these accesses
    std::uint64_t steps = 0;            ///< of warps

    // faults
    std::uint64_t raw_faults = 0;       ///< entries that the driver fetched
    std::uint64_t distinct_faults = 0;  ///< of these, pages that differ within their batch
    std::uint64_t stale_faults = 0;     ///< distinct faults that required no work any more
    std::uint64_t flushed_faults = 0;   ///< entries dropped by flushes, which fault again
    std::uint64_t batches = 0;
    std::uint64_t block_services = 0;  ///< VA blocks serviced, counted once for each batch

    // pages that came to the GPU, and left it
    std::uint64_t demand_pages = 0;        ///< moved because they faulted
    std::uint64_t prefetched_pages = 0;    ///< moved by the driver's prefetcher
    std::uint64_t explicit_pages = 0;      ///< moved by `prefetch`
    std::uint64_t populated_pages = 0;     ///< placed for the first time, or after a discard: no data moved
    std::uint64_t written_back_pages = 0;  ///< moved to the CPU: by eviction, or by `prefetch`
    std::uint64_t copied_out_pages = 0;    ///< of these, pages that also stayed on the GPU (read-mostly)
    std::uint64_t dropped_pages = 0;       ///< left without being moved: discarded, or a copy of the CPU's page
    std::uint64_t copies_in = 0;           ///< runs of consecutive pages moved to the GPU
    std::uint64_t copies_out = 0;          ///< runs of consecutive pages moved to the CPU
    std::uint64_t evictions = 0;           ///< 2 MiB chunks

    // use of pages that came by a fault or its prefetching (moved or populated), counted when they leave or at the end
    std::uint64_t brought_pages = 0;
    std::uint64_t brought_used_pages = 0;  ///< accessed while they were on the GPU
    std::uint64_t brought_big_pages = 0;   ///< big pages (64 KiB) of which any page was brought, once for each stay
    std::uint64_t brought_used_big_pages = 0;
    std::uint64_t tree_pages = 0;       ///< of `brought_pages`, pages that the prefetcher brought
    std::uint64_t tree_used_pages = 0;  ///< of these, accessed

    // at the end
    std::uint64_t active_blocks = 0;       ///< VA blocks with memory on the GPU
    std::uint64_t peak_active_blocks = 0;  ///< the most at any time since the model was made
    std::uint64_t touched_blocks = 0;      ///< VA blocks with an access since the model was made
    std::uint64_t touched_pages = 0;       ///< pages likewise
    std::uint64_t resident_pages = 0;      ///< on the GPU
    std::uint64_t chunks_used = 0;         ///< of GPU memory, 2 MiB each

    double seconds = 0;  ///< modelled time

    /// Returns the bytes moved to the GPU, for any reason.
    [[nodiscard]] std::uint64_t bytes_in() const {
        return (demand_pages + prefetched_pages + explicit_pages) * os_page_bytes;
    }
    /// Returns the bytes moved to the CPU.
    [[nodiscard]] std::uint64_t bytes_out() const { return written_back_pages * os_page_bytes; }
    /// Returns the share of the brought pages that was used, counted in OS pages; 1 if none was brought.
    [[nodiscard]] double useful_pages() const { return share(brought_used_pages, brought_pages); }
    /// Returns the same share, counted in big pages.
    [[nodiscard]] double useful_big_pages() const { return share(brought_used_big_pages, brought_big_pages); }
    /// Returns the share of the prefetched pages that was used; 1 if none was prefetched.
    [[nodiscard]] double useful_prefetches() const { return share(tree_used_pages, tree_pages); }

    friend bool operator==(const result&, const result&) = default;

private:
    [[nodiscard]] static double share(std::uint64_t part, std::uint64_t all) {
        return all == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(all);
    }
};

/// Returns every count as a line name=value, with the derived ones.
[[nodiscard]] std::string to_text(const result& r);

}  // namespace orchard::uvm_model
