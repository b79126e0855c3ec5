// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench growth`: the cost of a heap that begins without memory and grows while kernels run, with extents of
/// several sizes, on the device and in the spill tier.
///
///     creation                         ms: creating a heap with a range of 1 TiB; device_mib: the GPU memory it takes
///     growing                          warps take and write blocks of 1 MiB until 64 GiB are in use
///     committed before                 the same, all memory committed by `reserve`: the reference
///     growing, memory just given back  the same, right after the heap before has ended
///     growing, extents of one size     the same; every commit has `extent_mib`
///     spill: ...                       24 GiB in a heap with 8 GiB on the device and 17 GiB on the host
///     both budgets spent: nulls        requests for which no memory is left: latest_us until null
///     ... beside readers ...           growth_beside.cu
///
///     lanes_at_once          lanes of a warp that allocate together; their blocks are one chunk
///     to_committed_before    time by that of the reference: what growth costs; 1: nothing
///     committed_to_in_use    committed memory by the bytes in use, when all blocks are live
///     metadata_to_committed  metadata by committed memory, then
///     trimmed_mib            committed after all was freed and `trim`
///     latest_us              the longest request of any lane, by the GPU's clock
///     beside_us, plain_us    longest request that needs no growth, and longest plain atomic, meanwhile
///     host_gb_per_s          spilled bytes by the time of the whole kernel
///
/// Each time is that of one kernel, the first one of a new heap, as growth happens only once; the creation of the heap
/// is not part of it, except in `creation`, which is timed by the host's clock. At most three heaps a row.

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "profiling/bench/growing_heap.cuh"
#include "profiling/bench/repetitions.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// The sizes of the measurements, in bytes.
struct amounts {
    std::uint64_t in_use;     ///< bytes in blocks at the end
    std::uint64_t budget;     ///< budget of the device, for a heap with a host tier
    std::uint64_t beyond;     ///< budget of the host
    std::uint64_t requested;  ///< requested bytes in that heap
};

/// Returns the memory of the GPU that is in use, by any process; 0 if the driver cannot say.
std::uint64_t device_bytes_in_use(const settings& s) {
    auto driver = s.device == simt::device_kind::cuda ? make_cuda_driver() : make_emulated_driver();
    const auto memory = driver.ok() ? (*driver)->device_memory() : driver.status();
    return memory.ok() ? memory->total - memory->free : 0;
}

/// Measures the cost of a heap with a large range before the first request: time, and memory of the device, which the
/// metadata of addresses takes. One heap is the warm-up.
absl::Status time_creation(const settings& s, ordered_json& rows) {
    options values = elastic(s);
    values.range = s.device == simt::device_kind::cuda ? 1024 * gib : 16 * gib;
    // 0: the share of the GPU's free memory that the option `capacity_share` gives.
    values.capacity = s.device == simt::device_kind::cuda ? 0 : 4 * gib;
    std::vector<double> times;
    std::uint64_t bytes = 0;
    for (int i = -1; i < s.repeats; ++i) {
        const std::uint64_t before = device_bytes_in_use(s);
        const absl::Time began = absl::Now();
        auto h = heap::create(values);
        const double ms = absl::ToDoubleMilliseconds(absl::Now() - began);
        if (!h.ok()) {
            return h.status();
        }
        times.push_back(ms);
        if (i >= 0) {
            bytes = std::max(bytes, device_bytes_in_use(s) - before);
        }
    }
    rows.push_back({{"what", "creation"},
                    {"range_gib", values.range / gib},
                    {"ms", median_after(1, times)},
                    {"device_mib", static_cast<double>(bytes) / mib}});
    add_repetitions(rows.back(), "", times, "ms");
    return absl::OkStatus();
}

double ratio(std::uint64_t a, std::uint64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

/// The way in which a heap is filled: one row.
struct filling {
    const char* what;
    std::uint64_t extent = 0;    ///< 0: the default
    bool reserved = false;       ///< all of it is committed before
    std::uint32_t together = 8;  ///< lanes of each warp that allocate at once
    bool rested = true;          ///< the memory was not released just before; else the driver is still clearing it
};

/// Returns the row of one way: the median time of the kernel that fills a new heap until `bytes` are in use; the other
/// columns are those of the last heap. What was written is checked, and the heap must be empty at the end. Errors:
/// those of the heap and of launches; Internal if a block was null or written over.
absl::StatusOr<ordered_json> time_growth(const settings& s, std::uint64_t bytes, const options& values,
                                         const filling& how) {
    std::vector<double> times;
    ordered_json row;
    for (int i = 0; i < s.repeats; ++i) {
        if (how.rested) {
            let_memory_rest(s);
        }
        auto g = growing_heap::make(values, bytes, grown_blocks_of(s));
        if (!g.ok()) {
            return g.status();
        }
        // A thirty-second more than the blocks, so that the fill needs no commit.
        if (absl::Status status = how.reserved ? g->of().reserve(bytes + bytes / 32) : absl::OkStatus(); !status.ok()) {
            return status;
        }
        // The only timed step. Everything below it is bookkeeping, which must run in this order: the blocks are checked
        // and counted before they are freed.
        const auto us = g->fill(how.together);
        const auto full = g->of().stats();
        const auto checked = g->check();
        const auto counts = g->take_counts();
        const auto freed = g->empty();
        absl::Status status = us.ok() ? g->of().trim() : us.status();
        const auto trimmed = g->of().stats();
        for (const absl::Status& one :
             {full.status(), checked.status(), counts.status(), freed.status(), trimmed.status()}) {
            status.Update(one);
        }
        if (!status.ok()) {
            return status;
        }
        if (counts->nulls != 0 || counts->wrong != 0) {
            const auto why = g->of().last_failure();
            return absl::InternalError(absl::StrFormat("%d blocks were null, %d words wrong; %s", counts->nulls,
                                                       counts->wrong, why ? to_text(*why) : "no request failed"));
        }
        times.push_back(*us / 1000);
        row = {{"committed_to_in_use", ratio(full->committed_bytes, bytes)},
               {"metadata_to_committed", ratio(full->metadata_bytes, full->committed_bytes)},
               {"trimmed_mib", static_cast<double>(trimmed->committed_bytes) / mib},
               {"latest_us", counts->latest_us}};
    }
    row["ms"] = median(times);
    // Bytes by milliseconds, by 10^6: GB/s.
    row["gb_per_s"] = static_cast<double>(bytes) / median(times) / 1e6;
    add_repetitions(row, "", times, "ms");
    return row;
}

/// Adds to each row the ratio of its time to that of the row whose memory was all committed before, with as many lanes
/// at once. Rows of creation have no lanes and get none.
void add_ratios(ordered_json& rows) {
    for (ordered_json& row : rows) {
        for (const ordered_json& before : rows) {
            if (row.contains("lanes_at_once") && before["what"] == "committed before" &&
                before["lanes_at_once"] == row["lanes_at_once"]) {
                row["to_committed_before"] = row["ms"].get<double>() / before["ms"].get<double>();
            }
        }
    }
}

/// Adds the rows of heaps that fill `bytes` of device memory, in all ways. `capacity` is a quarter more than what is in
/// use, unless the command line gives one.
absl::Status time_extents(const settings& s, std::uint64_t bytes, ordered_json& rows) {
    options values = elastic(s);
    if (values.capacity == 0) {
        values.capacity = bytes * 5 / 4 + 64 * mib;
    }
    std::vector<filling> ways;
    for (const std::uint32_t together : {32u, 8u, 1u}) {
        ways.push_back({.what = "growing", .together = together});
        // Its memory need not rest: commits are not timed here.
        ways.push_back({.what = "committed before", .reserved = true, .together = together, .rested = false});
    }
    ways.push_back({.what = "growing, memory just given back", .rested = false});
    for (std::uint64_t extent = 2 * mib; extent <= (s.quick ? 8 : 4096) * mib; extent *= s.quick ? 4 : 2) {
        ways.push_back({.what = "growing, extents of one size", .extent = extent});
    }
    for (const filling& how : ways) {
        options one = values;
        if (how.extent != 0) {
            one.extent = one.max_extent = how.extent;
        }
        auto row = time_growth(s, bytes, one, how);
        if (!row.ok()) {
            return row.status();
        }
        ordered_json all{{"what", how.what},
                         {"bytes_gib", ratio(bytes, gib)},
                         {"extent_mib", how.extent / mib},
                         {"lanes_at_once", how.together}};
        all.update(*row);
        rows.push_back(all);
    }
    add_ratios(rows);
    return absl::OkStatus();
}

/// Measures requests for more than the device's budget, and then for more than both budgets. While the heap spills, one
/// warp makes requests that need no growth: they must not wait for commits of others. Another warp times plain atomics,
/// which shows what of such a time is the machine's.
absl::Status time_spill(const settings& s, const amounts& a, ordered_json& rows) {
    options values = elastic(s);
    values.capacity = a.budget;
    values.host_budget = a.beyond;
    auto g = growing_heap::make(values, a.requested, grown_blocks_of(s));
    if (!g.ok()) {
        return g.status();
    }
    // The memory of the requests beside is taken before any time is measured.
    const auto warmed = g->warm();
    const auto filled = g->fill(32, true);
    const auto full = g->of().stats();
    // Both memories are written and read again, now without growth.
    const auto written = g->write();
    const auto checked = g->check();
    const auto counts = g->take_counts();
    // More than is left of both budgets: each request must end with a null, and soon.
    const auto asked = g->ask(a.budget / 2, 10);
    const auto failures = g->take_counts();
    const auto why = g->of().last_failure();
    absl::Status status = warmed.status();
    for (const absl::Status& one : {filled.status(), full.status(), written.status(), checked.status(), counts.status(),
                                    asked.status(), failures.status(), g->of().validate()}) {
        status.Update(one);
    }
    if (!status.ok()) {
        return status;
    }
    rows.push_back({{"what", "spill: written as it grows"},
                    {"bytes_gib", ratio(a.requested, gib)},
                    {"host_gib", ratio(full->host_bytes, gib)},
                    {"ms", *filled / 1000},
                    {"nulls", counts->nulls},
                    {"wrong", counts->wrong},
                    {"latest_us", counts->latest_us},
                    {"beside_us", counts->beside_us},
                    {"beside", counts->beside},
                    {"beside_late", counts->beside_late},
                    {"plain_us", counts->plain_us}});
    // Spilled bytes by the time of all blocks, those on the device included.
    for (const auto& [what, us] : {std::pair{"spill: written again", *written}, std::pair{"spill: read", *checked}}) {
        rows.push_back({{"what", what},
                        {"bytes_gib", ratio(a.requested, gib)},
                        {"host_gib", ratio(full->host_bytes, gib)},
                        {"ms", us / 1000},
                        {"host_gb_per_s", static_cast<double>(full->host_bytes) / us / 1000}});
    }
    rows.push_back({{"what", "both budgets spent: nulls"},
                    {"nulls", failures->nulls},
                    {"latest_us", failures->latest_us},
                    {"reason", why ? std::string(name_of(why->reason)) : "none"}});
    return absl::OkStatus();
}

/// Returns the rows of all parts; the first error ends it.
absl::StatusOr<ordered_json> run_growth(const settings& s) {
    const bool cuda = s.device == simt::device_kind::cuda && !s.quick;
    // Room for two slabs of the requests beside: a reclaim that is interrupted while it tries to retire one makes them
    // open another.
    const amounts a =
        cuda ? amounts{64 * gib, 8 * gib, 17 * gib, 24 * gib} : amounts{64 * mib, 16 * mib, 36 * mib, 48 * mib};
    // Few repetitions, since each one fills tens of GiB and waits for the driver to clear them.
    settings few = s;
    few.repeats = std::min(s.repeats, 3);
    ordered_json rows = ordered_json::array();
    absl::Status status = time_creation(few, rows);
    if (status.ok()) {
        status.Update(time_extents(few, a.in_use, rows));
    }
    if (status.ok()) {
        status.Update(time_spill(few, a, rows));
    }
    if (status.ok()) {
        status.Update(time_growth_beside_readers(few, rows));
    }
    return status.ok() ? absl::StatusOr<ordered_json>(rows) : status;
}

const registrar growth_registered{
    {"growth", "kernels that fill a heap which begins with nothing, and spill to the host", run_growth,
     "each launch is the first of a heap of its own; ms is their median (creation: after one that does not count), of "
     "spill and beside readers the only one; first, third and tenth are those heaps, settled is the median of the last "
     "half"}};

}  // namespace
}  // namespace orchard::bench
