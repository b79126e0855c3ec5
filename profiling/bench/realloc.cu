// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench realloc`: each thread grows an array by `realloc`, from 16 B to 64 KiB by doubling, and to 64 KiB or
/// 4 MiB by steps of one size. Every element is written when it is added, and read at the end.
///
///     grow_us      the kernel that grows all arrays
///     free_us      the kernel that checks and frees them
///     copied_gib   bytes that the reallocs copied, as the sizes give them; a copy reads and writes each byte
///     moves        reallocs that moved a block, of one launch
///     nulls, wrong of all launches
///
/// The heap is elastic with default options, so that the first launch commits the memory.

#include <algorithm>

#include "profiling/bench/bench.hpp"
#include "profiling/bench/repetitions.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;
using simt::order;

/// The growth of one array, in bytes.
struct growth_plan {
    std::uint64_t from;
    std::uint64_t to;
    std::uint64_t step;  ///< bytes added each time; 0: the array is doubled
    std::uint64_t threads;

    [[nodiscard]] ORCHARD_INLINE std::uint64_t next(std::uint64_t bytes) const {
        return step != 0 ? bytes + step : 2 * bytes;
    }
};

struct growth_faults {
    simt::device_word<std::uint64_t> nulls;
    simt::device_word<std::uint64_t> wrong;
};

/// Each thread grows its array, and writes the last word of each part that is added. After a null it frees the array,
/// since `free_arrays` reads all parts.
struct grow_arrays {
    heap_ref heap;
    growth_plan plan;
    std::uint64_t** arrays;
    growth_faults* found;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= plan.threads) {
            return;
        }
        std::uint64_t* array = nullptr;
        for (std::uint64_t bytes = plan.from; bytes <= plan.to; bytes = plan.next(bytes)) {
            auto* const more = static_cast<std::uint64_t*>(heap.realloc(array, bytes));
            if (more == nullptr) {
                found->nulls.fetch_add<order::relaxed>(1);
                heap.free(array);
                array = nullptr;
                break;
            }
            array = more;
            array[bytes / sizeof(std::uint64_t) - 1] = i ^ bytes;
        }
        arrays[i] = array;
    }
};

struct free_arrays {
    heap_ref heap;
    growth_plan plan;
    std::uint64_t** arrays;
    growth_faults* found;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= plan.threads) {
            return;
        }
        for (std::uint64_t bytes = plan.from; bytes <= plan.to && arrays[i] != nullptr; bytes = plan.next(bytes)) {
            if (arrays[i][bytes / sizeof(std::uint64_t) - 1] != (i ^ bytes)) {
                found->wrong.fetch_add<order::relaxed>(1);
            }
        }
        heap.free(arrays[i]);
    }
};

/// Returns the bytes that one array's reallocs copy if each of them moves the array.
std::uint64_t copied_bytes(const growth_plan& plan) {
    std::uint64_t sum = 0;
    for (std::uint64_t bytes = plan.from; plan.next(bytes) <= plan.to; bytes = plan.next(bytes)) {
        sum += bytes;
    }
    return sum;
}

absl::StatusOr<ordered_json> measure(heap& h, const growth_plan& plan, int repeats) {
    auto arrays = device_array<std::uint64_t*>::create(h.executor(), plan.threads);
    auto found = device_array<growth_faults>::create(h.executor(), 1);
    absl::Status status = arrays.status();
    status.Update(found.status());
    if (!status.ok()) {
        return status;
    }
    status.Update(found->zero());
    simt::executor on = h.executor();
    on.timed = true;
    std::vector<double> grow_us;
    std::vector<double> free_us;
    std::uint64_t moves = 0;
    for (int i = 0; i < repeats && status.ok(); ++i) {
        const auto before = h.stats();
        const auto grown =
            simt::launch(on, simt::grid_for(plan.threads), grow_arrays{h.ref(), plan, arrays->data(), found->data()});
        const auto after = h.stats();
        const auto freed =
            simt::launch(on, simt::grid_for(plan.threads), free_arrays{h.ref(), plan, arrays->data(), found->data()});
        status.Update(before.status());
        status.Update(after.status());
        if (!grown.ok || !freed.ok) {
            return absl::InternalError(grown.error + freed.error);
        }
        moves = status.ok() ? after->reallocs_moved - before->reallocs_moved : 0;
        grow_us.push_back(grown.microseconds);
        free_us.push_back(freed.microseconds);
    }
    growth_faults faults;
    status.Update(copy_to_host(on, &faults, found->data(), sizeof(faults)));
    status.Update(h.trim());
    status.Update(h.validate());
    if (!status.ok()) {
        return status;
    }
    const double copied = static_cast<double>(copied_bytes(plan) * plan.threads) / (1 << 30);
    ordered_json row{{"threads", plan.threads},
                     {"bytes_from", plan.from},
                     {"bytes_to", plan.to},
                     {"step", plan.step},
                     {"grow_us", median_after(1, grow_us)},
                     {"free_us", median_after(1, free_us)},
                     {"copied_gib", copied},
                     {"moves", moves},
                     {"nulls", faults.nulls.load<order::relaxed>()},
                     {"wrong", faults.wrong.load<order::relaxed>()}};
    add_repetitions(row, "grow", grow_us);
    return row;
}

absl::StatusOr<ordered_json> run_realloc(const settings& s) {
    options values = s.heap;
    const bool cuda = s.device == simt::device_kind::cuda;
    values.device = cuda ? device_option::cuda : device_option::emulated;
    const bool large = cuda && !s.quick;
    ordered_json rows = ordered_json::array();
    for (const growth_plan& plan :
         {growth_plan{16, 64 << 10, 0, large ? 100'000u : 64u}, growth_plan{16, 1024, 16, large ? 100'000u : 64u},
          growth_plan{1 << 20, 8 << 20, 1 << 20, large ? 512u : 4u}}) {
        auto h = heap::create(values);
        if (!h.ok()) {
            return h.status();
        }
        auto row = measure(*h, plan, std::min(s.repeats, 10));
        if (!row.ok()) {
            return row.status();
        }
        rows.push_back(*std::move(row));
    }
    return rows;
}

const registrar realloc_registered{
    {"realloc", "arrays that grow by realloc, by doubling and by steps", run_realloc,
     "times are medians after one round that does not count; _first, _third and _tenth are those launches, counted "
     "from the first on, _settled the median of the last half"}};

}  // namespace
}  // namespace orchard::bench
