// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The text form of a result: every count by the name of its member, in the order of the struct, and then the derived
/// values.

#include "uvm/model/result.hpp"

#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"

namespace orchard::uvm_model {

std::string to_text(const result& r) {
    const std::pair<std::string_view, std::uint64_t> counts[] = {
        {"accesses", r.accesses},
        {"hits", r.hits},
        {"remote_accesses", r.remote_accesses},
        {"remote_bytes", r.remote_bytes},
        {"steps", r.steps},
        {"raw_faults", r.raw_faults},
        {"distinct_faults", r.distinct_faults},
        {"stale_faults", r.stale_faults},
        {"flushed_faults", r.flushed_faults},
        {"batches", r.batches},
        {"block_services", r.block_services},
        {"demand_pages", r.demand_pages},
        {"prefetched_pages", r.prefetched_pages},
        {"explicit_pages", r.explicit_pages},
        {"populated_pages", r.populated_pages},
        {"written_back_pages", r.written_back_pages},
        {"copied_out_pages", r.copied_out_pages},
        {"dropped_pages", r.dropped_pages},
        {"copies_in", r.copies_in},
        {"copies_out", r.copies_out},
        {"evictions", r.evictions},
        {"brought_pages", r.brought_pages},
        {"brought_used_pages", r.brought_used_pages},
        {"brought_big_pages", r.brought_big_pages},
        {"brought_used_big_pages", r.brought_used_big_pages},
        {"tree_pages", r.tree_pages},
        {"tree_used_pages", r.tree_used_pages},
        {"active_blocks", r.active_blocks},
        {"peak_active_blocks", r.peak_active_blocks},
        {"touched_blocks", r.touched_blocks},
        {"touched_pages", r.touched_pages},
        {"resident_pages", r.resident_pages},
        {"chunks_used", r.chunks_used},
        {"bytes_in", r.bytes_in()},
        {"bytes_out", r.bytes_out()},
    };
    std::string text;
    for (const auto& [name, value] : counts) {
        absl::StrAppendFormat(&text, "%s=%u\n", name, value);
    }
    absl::StrAppendFormat(&text, "useful_pages=%.6f\nuseful_big_pages=%.6f\nuseful_prefetches=%.6f\nseconds=%.9f\n",
                          r.useful_pages(), r.useful_big_pages(), r.useful_prefetches(), r.seconds);
    return text;
}

}  // namespace orchard::uvm_model
