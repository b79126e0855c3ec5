// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench unit_utilisation`: how full RW_malloc makes a heap, by its unit size. Source: Fig. 11 of M. Pham et
/// al., Dynamic Memory Management in Massively Parallel Systems: A Case on GPUs, ICS 2022. Requests are made until the
/// first null; utilisation is the total requested size until then, divided by the heap's capacity. The paper does not
/// say how many threads allocate at once. If many compete for the last free memory, a null comes early. Here all
/// threads stop at the first null.
///
///     unit             unit size in bytes: blocks are runs of whole units
///     bytes, bytes_to  sizes of the requests
///     threads          threads that allocate at the same time
///     capacity, requested, utilisation   bytes, and their ratio, at most 1
///
/// Nothing is timed. Each row has a heap of its own; one run a row. docs/random_walk.md discusses the results.

#include <string>

#include "device/published/published_ref.cuh"
#include "profiling/bench/bench.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/published_heap.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;
using simt::order;

/// The largest request, as in the paper.
constexpr std::uint32_t max_bytes = 8192;

/// Shared by all threads of a launch; added up when a thread ends.
struct fill_totals {
    simt::device_word<std::uint64_t> requested;  ///< bytes
    simt::device_word<std::uint64_t> blocks;     ///< requests with memory
    simt::device_word<std::uint64_t> nulls;      ///< not 0: all threads stop
};

/// Each thread repeatedly requests `least` to `most` bytes, until any thread gets null.
struct fill_units {
    published_ref<device::page_policy::rw_malloc> heap;
    std::uint32_t least;
    std::uint32_t most;
    std::uint32_t seed;
    fill_totals* totals;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        // Random numbers without memory: the seed and the thread's number, mixed again for each request.
        std::uint32_t random = device::mix(static_cast<std::uint32_t>(at.global_thread()) * 747'796'405u + seed);
        std::uint64_t requested = 0;
        std::uint64_t blocks = 0;
        // Relaxed: a hint to stop.
        while (totals->nulls.load<order::relaxed>() == 0) {
            random = device::mix(random + 0x9e3779b9u);
            const std::uint32_t bytes = least + random % (most - least + 1);
            if (heap.malloc(bytes) == nullptr) {
                totals->nulls.fetch_add<order::relaxed>(1);
                break;
            }
            requested += bytes;
            ++blocks;
        }
        totals->requested.fetch_add<order::relaxed>(requested);
        totals->blocks.fetch_add<order::relaxed>(blocks);
    }
};

/// The range of requested sizes.
struct size_range {
    std::uint32_t least;
    std::uint32_t most;
};

/// Fills a new heap and returns the row. Errors: those of the heap and of the launch; those of `validate` on the full
/// heap.
absl::StatusOr<ordered_json> fill(const settings& s, std::uint64_t unit, size_range sizes, simt::grid shape) {
    options values = s.heap;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    auto made = published_heaps::create(values, {device::page_policy::rw_malloc, unit});
    if (!made.ok()) {
        return made.status();
    }
    auto totals = device_array<fill_totals>::create(made->executor(), 1);
    if (!totals.ok()) {
        return totals.status();
    }
    const published_ref<device::page_policy::rw_malloc> ref(published_heaps::view(*made));
    const auto result =
        simt::launch(made->executor(), shape, fill_units{ref, sizes.least, sizes.most, 1, totals->data()});
    absl::Status status = result.ok ? made->validate() : to_status(result);
    std::vector<fill_totals> found(1);
    status.Update(totals->download(found));
    if (!status.ok()) {
        return status;
    }
    const std::uint64_t capacity = std::uint64_t{ref.view().segments} << segment_shift;
    const std::uint64_t requested = found[0].requested.load<order::relaxed>();
    return ordered_json{
        {"unit", unit},           {"bytes", sizes.least},
        {"bytes_to", sizes.most}, {"threads", std::uint64_t{shape.blocks} * shape.threads_per_block},
        {"capacity", capacity},   {"blocks", found[0].blocks.load<order::relaxed>()},
        {"requested", requested}, {"utilisation", static_cast<double>(requested) / static_cast<double>(capacity)}};
}

absl::StatusOr<ordered_json> run_unit_utilisation(const settings& s) {
    const bool large = s.device == simt::device_kind::cuda && !s.quick;
    settings chosen = s;
    // Small on the emulated device, since each of 40 rows fills a heap.
    if (!large) {
        chosen.heap.capacity = (s.quick ? 4 : 16) * segment_bytes;
    }
    const simt::grid shape = large ? simt::grid{256, 256} : simt::grid{2, 64};
    ordered_json rows = ordered_json::array();
    for (const std::uint64_t unit : {64u, 256u, 1024u, 8192u}) {
        // Sizes that are multiples of a unit, and sizes that are not.
        for (const size_range sizes : {size_range{64, 64},
                                       {200, 200},
                                       {520, 520},
                                       {1024, 1024},
                                       {1100, 1100},
                                       {2500, 2500},
                                       {4096, 4096},
                                       {5000, 5000},
                                       {max_bytes, max_bytes},
                                       {16, max_bytes}}) {
            auto row = fill(chosen, unit, sizes, shape);
            if (!row.ok()) {
                return row.status();
            }
            rows.push_back(*std::move(row));
        }
    }
    return rows;
}

const registrar unit_utilisation_registered{
    {"unit_utilisation", "how full RW_malloc makes a heap until the first null, by unit and request size",
     run_unit_utilisation}};

}  // namespace
}  // namespace orchard::bench
