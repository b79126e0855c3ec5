// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench first`: the times of the first repetitions of plain kernels whose sizes differ in each repetition and
/// thread. New heaps that grow (elastic, default options) are compared with heaps that have all memory from the start
/// (fixed). Each block is stamped and checked between the timed launches, so that an overlap of any two is detected.
///
///     what                      rows
///     loading                   loading_ms: loading a kernel, by the host's clock; not part of any other time
///     repetitions               every thread asks: one row for each range of sizes and backing
///     one lane of a warp        the first lane of each warp asks for 16 MiB
///     divergent lists           first_lists.cu
///     a kernel is loaded ...    first_loading.cu
///
///     allocate_*_us, free_*_us  kernels of repetition 1, 3, 10, the settled ones, and the sum of 3 to 10
///     of_fixed                  that sum of an elastic heap by that of a fixed one: what growth costs later on
///     first_wall_us             the first allocation as the host sees it, launch and wait included
///     first_less_settled_ms     what the first allocation takes more than a settled one
///     committed_mib             physical memory of the heap after the last repetition
///     segments_in_use           segments granted and not in the segment cache at that time, when all is freed
///     nulls, wrong_stamps       summed over all heaps; 0 unless something is wrong
///
/// Kernel times are between CUDA events. Each time is the median over heaps. The creation of the heap is not timed.

#include <utility>

#include "absl/strings/str_format.h"
#include "profiling/bench/first.hpp"
#include "profiling/bench/first_launch.cuh"
#include "runtime/heap/device_memory.hpp"

namespace orchard::bench::first {
namespace {

using nlohmann::ordered_json;
using simt::order;

/// The sizes that the threads of a repetition request: the same function on each call, so that the kernels that stamp,
/// check and free need no stored sizes.
struct requests {
    std::uint32_t threads;
    std::uint32_t least;           ///< bytes
    std::uint32_t most;            ///< bytes, included
    bool one_lane;                 ///< one lane of each warp
    std::uint32_t repetition = 0;  ///< other sizes in each

    [[nodiscard]] ORCHARD_INLINE bool asks(std::uint64_t i) const {
        return i < threads && (!one_lane || i % simt::warp_size == 0);
    }
    [[nodiscard]] ORCHARD_INLINE std::uint32_t bytes(std::uint64_t i) const {
        return least + device::mix(static_cast<std::uint32_t>(i) + device::mix(repetition)) % (most - least + 1);
    }
};

/// The errors that were found by the threads of all repetitions.
struct faults {
    simt::device_word<std::uint64_t> nulls;  ///< requests without a block
    simt::device_word<std::uint64_t> wrong;  ///< blocks with a stamp of another thread
};

/// The timed kernels: allocation, and free of the same threads' blocks.
struct allocate_all {
    heap_ref heap;
    requests what;
    std::uint64_t** blocks;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (what.asks(i)) {
            blocks[i] = static_cast<std::uint64_t*>(heap.malloc(what.bytes(i)));
        }
    }
};

struct free_all {
    heap_ref heap;
    requests what;
    std::uint64_t** blocks;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (what.asks(i)) {
            heap.free(blocks[i]);
        }
    }
};

/// Writes the thread's number to the first and the last whole word of its block, or checks that it is there.
struct stamp_all {
    requests what;
    std::uint64_t** blocks;
    faults* found;
    bool writes;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (!what.asks(i)) {
            return;
        }
        std::uint64_t* const words = blocks[i];
        const std::uint64_t last = what.bytes(i) / sizeof(std::uint64_t) - 1;
        if (words == nullptr) {
            // Counted once: the kernel that checks comes to the same null again.
            found->nulls.fetch_add<order::relaxed>(writes ? 1 : 0);
        } else if (writes) {
            words[0] = words[last] = i;
        } else if (words[0] != i || words[last] != i) {
            found->wrong.fetch_add<order::relaxed>(1);
        }
    }
};

/// The observations of one row on its heaps.
struct record {
    times_of_heaps allocate_us;
    times_of_heaps free_us;
    std::vector<double> first_wall_us;  ///< [heap], as the other two
    std::vector<double> committed_mib;  ///< [heap], after the last repetition
    std::vector<double> segments_in_use;
    std::uint64_t nulls = 0;  ///< of all heaps
    std::uint64_t wrong = 0;
};

/// Adds the memory that is committed and in use after all was freed. Errors: InternalError if a block is still in use.
absl::Status add_levels(heap& h, record& all) {
    const auto stats = h.stats();
    if (!stats.ok()) {
        return stats.status();
    }
    if (stats->pages_in_use != 0 || stats->live_chunks != 0) {
        return absl::InternalError(absl::StrFormat("%d pages and %d chunks are in use when all was freed",
                                                   stats->pages_in_use, stats->live_chunks));
    }
    all.committed_mib.push_back(static_cast<double>(stats->committed_bytes) / mib);
    all.segments_in_use.push_back(static_cast<double>(stats->segments_granted - stats->segments_in_cache));
    return absl::OkStatus();
}

/// Creates a heap and adds the times of its repetitions, each of which allocates, stamps, checks and frees. The first
/// repetition starts with an empty heap: no segment on the device, and none committed if the heap is elastic, unless
/// the options say otherwise.
absl::Status use_fresh_heap(launcher& on, const options& values, requests what, std::uint32_t repetitions,
                            record& all) {
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    auto blocks = device_array<std::uint64_t*>::create(h->executor(), what.threads);
    auto found = device_array<faults>::create(h->executor(), 1);
    if (!blocks.ok() || !found.ok()) {
        return blocks.ok() ? found.status() : blocks.status();
    }
    std::vector<double>& allocate_us = all.allocate_us.emplace_back();
    std::vector<double>& free_us = all.free_us.emplace_back();
    for (what.repetition = 0; what.repetition < repetitions; ++what.repetition) {
        const auto allocated = on.run(allocate_all{h->ref(), what, blocks->data()}, what.threads);
        const auto stamped = on.run(stamp_all{what, blocks->data(), found->data(), true}, what.threads);
        const auto looked = on.run(stamp_all{what, blocks->data(), found->data(), false}, what.threads);
        const auto freed = on.run(free_all{h->ref(), what, blocks->data()}, what.threads);
        for (const auto* one : {&allocated, &stamped, &looked, &freed}) {
            if (!one->ok()) {
                return one->status();
            }
        }
        allocate_us.push_back(allocated->kernel_us);
        free_us.push_back(freed->kernel_us);
        if (what.repetition == 0) {
            all.first_wall_us.push_back(allocated->wall_us);
        }
    }
    faults counted{};
    absl::Status status = found->download({&counted, 1});
    all.nulls += counted.nulls.load<order::relaxed>();
    all.wrong += counted.wrong.load<order::relaxed>();
    status.Update(add_levels(*h, all));
    return status;
}

/// Returns the row of one range of sizes and one backing.
ordered_json row_of(const char* what, const char* backing, const requests& asked, std::uint32_t repetitions,
                    const record& all) {
    ordered_json row{{"what", what},
                     {"backing", backing},
                     {"threads", asked.threads},
                     {"bytes", asked.least},
                     {"bytes_to", asked.most},
                     {"heaps", all.allocate_us.size()},
                     {"repetitions", repetitions},
                     {"settled_of", repetitions - settled_from(repetitions)}};
    add_times(row, "allocate", all.allocate_us);
    row["first_wall_us"] = median(all.first_wall_us);
    row["first_less_settled_ms"] = first_less_settled_ms(all.allocate_us);
    add_times(row, "free", all.free_us);
    row["nulls"] = all.nulls;
    row["wrong_stamps"] = all.wrong;
    row["committed_mib"] = median(all.committed_mib);
    row["segments_in_use"] = median(all.segments_in_use);
    return row;
}

/// Adds a row for each backing. Heaps of both take turns, so that a change of the machine affects both.
absl::Status measure_requests(launcher& on, const settings& s, const char* what, const requests& asked,
                              ordered_json& rows) {
    // 40 GiB: the largest row has 1,024 blocks of 16 MiB.
    constexpr std::uint64_t capacity = std::uint64_t{40} << 30;
    const std::uint32_t repetitions = s.quick ? 24 : 100;
    record elastic;
    record fixed;
    for (int i = 0; i < heaps_of(s, 10); ++i) {
        for (const auto& [backing, all] :
             {std::pair{backing_option::elastic, &elastic}, std::pair{backing_option::fixed, &fixed}}) {
            if (absl::Status status = use_fresh_heap(on, options_of(s, backing, capacity), asked, repetitions, *all);
                !status.ok()) {
                return status;
            }
            let_memory_rest(s);
        }
    }
    rows.push_back(row_of(what, "elastic", asked, repetitions, elastic));
    rows.back()["of_fixed"] =
        median_over(elastic.allocate_us, &third_to_tenth) / median_over(fixed.allocate_us, &third_to_tenth);
    rows.push_back(row_of(what, "fixed", asked, repetitions, fixed));
    return absl::OkStatus();
}

/// Loads the kernels before the first repetition, because CUDA loads a kernel at its first launch and that time would
/// be part of the first repetition. The time of loading has rows of its own.
absl::Status load_kernels(launcher& on, ordered_json& rows) {
    if (!on.is_cuda()) {
        return absl::OkStatus();
    }
    const auto allocate_ms = on.load<allocate_all>();
    const auto free_ms = on.load<free_all>();
    const auto stamp_ms = on.load<stamp_all>();
    for (const auto* one : {&allocate_ms, &free_ms, &stamp_ms}) {
        if (!one->ok()) {
            return one->status();
        }
    }
    rows.push_back({{"what", "loading"}, {"kernel", "allocates, with its module"}, {"loading_ms", *allocate_ms}});
    rows.push_back({{"what", "loading"}, {"kernel", "frees"}, {"loading_ms", *free_ms}});
    return absl::OkStatus();
}

/// Returns all rows. Sizes up to 512 KiB are pages: of many classes at once (16 B to 8 KiB, 1 to 256 KiB) or of few. 16
/// MiB are chunks.
absl::StatusOr<ordered_json> run_first(const settings& s) {
    ordered_json rows = ordered_json::array();
    simt::executor device;
    device.kind = s.device;
    device.workers = static_cast<unsigned>(s.heap.emulated_workers);
    launcher on(device);
    absl::Status status = load_kernels(on, rows);
    const std::uint32_t less = divisor(s);
    for (const requests& asked : {requests{100'000 / less, 16, 8 << 10, false},
                                  {1'000'000 / less, 16, 512, false},
                                  {16'384 / less, 4 << 10, 8 << 10, false},
                                  {16'384 / less, 256 << 10, 512 << 10, false},
                                  {16'384 / less, 1 << 10, 256 << 10, false}}) {
        if (status.ok()) {
            status.Update(measure_requests(on, s, "repetitions", asked, rows));
        }
    }
    const std::uint32_t warps = std::max(1024 / less, 1u);
    const requests one_lane{warps * simt::warp_size, 16 << 20, 16 << 20, true};
    if (status.ok()) {
        status.Update(measure_requests(on, s, "one lane of a warp", one_lane, rows));
    }
    if (status.ok()) {
        status.Update(measure_lists(s, rows));
    }
    if (status.ok()) {
        status.Update(measure_loading_beside(s, rows));
    }
    return status.ok() ? absl::StatusOr<ordered_json>(std::move(rows)) : status;
}

const registrar first_registered{
    {"first", "first repetitions of fresh heaps, in plain kernels, and loading beside them", run_first}};

}  // namespace
}  // namespace orchard::bench::first
