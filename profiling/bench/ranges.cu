// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench ranges`: reads of managed arrays of many sizes, all of them on the host. How does the time, and what
/// the UVM driver moves, depend on the range that a thread reads in, and on the layout?
///
///     threads, bytes_a_thread   1,024 of 512 B to 2 MiB, 128 of 1 to 16 MiB: at most 2 GiB in all; left out where
///                               that is above the limit of managed heaps
///     layout, pattern           linear, 64 KiB tiles (below that size: linear), 4 KiB tiles; a warp's lanes in step or
///                               each by itself
///     ms                        the kernel: 100 reads a thread, one after the other
///     moved_mb                  what has then left the host, counted page by page, in 10^6 B
///     used_64k, used_4k         share of it, in percent, in whose pages of 64 KiB, or 4 KiB, a thread has read; 0
///                               where nothing moves
///
/// Then arrays with tails, which end behind their last whole row of 2 MiB: 66, 132 and 520 KiB a thread, 64 KiB tiles.
///
///     tails                     where the heap puts them (option `tails`)
///     va_blocks                 the VA blocks (2 MiB) in which threads read
///     granted_over_asked        bytes of the segments that the host has granted, over the bytes asked for
///     prefetch_ms               one call that moves these segments from the host to the GPU
///
/// Medians after one launch that does not count; at most three launches, because each begins with moving everything
/// back to the host. The prefetch runs once.
///
/// Source: the paper's Fig. 12 and 13(b) (Zhang et al., AlignMalloc, TPDS 2025). docs/uvm_paper.md has its figures, and
/// those of the model, beside these.

#include "profiling/bench/bench.hpp"
#include "profiling/bench/layout_experiment.cuh"
#include "profiling/bench/repetitions.hpp"
#include "runtime/options/byte_size.hpp"
#include "uvm/geometry/layout_text.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// The threads of a figure, and the bytes of each one's array.
struct figure {
    std::uint64_t threads;
    std::vector<std::uint64_t> bytes;
};

/// Returns the share of what has moved that a page of a read covers, in percent.
double percent(double read_mb, double moved_mb) { return moved_mb > 0 ? 100 * read_mb / moved_mb : 0; }

/// Adds one row for each pattern, each with the keys of `axes` first.
void add_patterns(const ordered_json& axes, const std::vector<pattern_result>& results, ordered_json& rows) {
    for (const pattern_result& one : results) {
        const double moved = median_after(1, one.moved_mb);
        ordered_json row = axes;
        row["pattern"] = one.pattern;
        row["ms"] = median_after(1, one.ms);
        row["moved_mb"] = moved;
        row["used_64k"] = percent(one.read_64k_mb, moved);
        row["used_4k"] = percent(one.read_4k_mb, moved);
        add_repetitions(row, "", one.ms, "ms");
        rows.push_back(std::move(row));
    }
}

/// Adds the rows of one size, in one layout.
absl::Status add_rows(const settings& s, std::uint64_t threads, std::uint64_t bytes, layout how, ordered_json& rows) {
    // An eighth more for slabs of other sizes, if the limit leaves room for it. The arrays themselves fill whole
    // segments where they are large.
    const std::uint64_t all = threads * bytes;
    const std::uint64_t limit = s.heap.managed_limit;
    const std::uint64_t wished = std::max<std::uint64_t>(all + all / 8, 32 * mib);
    const std::uint64_t capacity = limit != 0 && wished > limit ? std::max(all, limit) : wished;
    const auto results =
        layout_experiment(s, threads, bytes, capacity, {places::same_in_warp, places::own}).run_by_heap(how);
    if (!results.ok()) {
        return results.status();
    }
    add_patterns({{"threads", threads}, {"bytes_a_thread", bytes}, {"layout", text_of(how)}}, *results, rows);
    return absl::OkStatus();
}

/// Adds the rows of arrays of one size with tails.
absl::Status add_tails(settings s, tail_policy tails, std::uint64_t threads, std::uint64_t bytes, ordered_json& rows) {
    const std::uint64_t asked = threads * bytes;
    // Of 66 KiB a thread, an adjacent tail takes as many VA blocks as the rest.
    const std::uint64_t capacity = 2 * asked + 32 * mib;
    if (s.heap.managed_limit != 0 && capacity > s.heap.managed_limit) {
        return absl::OkStatus();
    }
    s.heap.tails = tails;
    const layout how = layout::interleaved(tile::k64);
    memory_use use;
    const auto results =
        layout_experiment(s, threads, bytes, capacity, {places::same_in_warp, places::own}).run_by_heap(how, &use);
    if (!results.ok()) {
        return results.status();
    }
    const std::size_t first = rows.size();
    add_patterns({{"threads", threads},
                  {"bytes_a_thread", bytes},
                  {"layout", text_of(how)},
                  {"tails", tails == tail_policy::pooled ? "pooled" : "adjacent"}},
                 *results, rows);
    for (std::size_t i = 0; i < results->size(); ++i) {
        ordered_json& row = rows[first + i];
        row["va_blocks"] = (*results)[i].va_blocks;
        row["granted_over_asked"] = static_cast<double>(use.granted_bytes) / static_cast<double>(asked);
        row["prefetch_ms"] = use.prefetch_ms;
    }
    return absl::OkStatus();
}

absl::StatusOr<ordered_json> run_ranges(const settings& s) {
    settings few = s;
    few.repeats = std::min(s.repeats, 3);
    const bool small = s.quick || s.device != simt::device_kind::cuda;
    const std::vector<figure> figures =
        small ? std::vector<figure>{{64, {512, 4 * kib, 64 * kib}}, {32, {128 * kib}}}
              : std::vector<figure>{{1024, {512, 4 * kib, 16 * kib, 64 * kib, 512 * kib, 2 * mib}},
                                    {128, {1 * mib, 4 * mib, 8 * mib, 16 * mib}}};
    ordered_json rows = ordered_json::array();
    for (const figure& f : figures) {
        for (const std::uint64_t bytes : f.bytes) {
            if (s.heap.managed_limit != 0 && f.threads * bytes > s.heap.managed_limit) {
                continue;
            }
            for (const layout how : {layout::linear(), layout::interleaved(tile::k64), layout::interleaved(tile::k4)}) {
                if (absl::Status status = add_rows(few, f.threads, bytes, how, rows); !status.ok()) {
                    return status;
                }
            }
        }
    }
    for (const std::uint64_t bytes : {66 * kib, 132 * kib, 520 * kib}) {
        for (const tail_policy tails : {tail_policy::adjacent, tail_policy::pooled}) {
            if (absl::Status status = add_tails(few, tails, small ? 64 : 1024, bytes, rows); !status.ok()) {
                return status;
            }
        }
    }
    return rows;
}

const registrar ranges_registered{{"ranges", "reads of arrays of 512 B to 16 MiB where the UVM driver moves memory",
                                   run_ranges,
                                   "ms is the median after one launch that does not count; first and third are those "
                                   "launches, counted from the first on, settled is the median of the last half; "
                                   "prefetch_ms is one call"}};

}  // namespace
}  // namespace orchard::bench
