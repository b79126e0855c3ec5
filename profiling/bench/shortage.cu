// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench shortage`: the cost of a failed request. A heap is filled until even the smallest block fails; then
/// many threads request one block each. A null must come soon, however many threads ask: no request may wait for memory
/// that nobody frees.
///
///     bytes_from, bytes_to   sizes of the requests
///     launch_us              the kernel's time, by CUDA events
///     latest_us              the longest request that ended in null, by the GPU's clock
///     nulls                  such requests; fewer than `threads` if a block was found after all
///     groups, searches, ...  the paths that the requests took (path_counts.hpp)
///
/// Nothing is freed. Values are those of the first launch of each row; `_third`, `_tenth` and `_settled` are later
/// ones.

#include "device/heap_ref.cuh"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/blocks.cuh"
#include "profiling/bench/path_counts.hpp"
#include "profiling/bench/repetitions.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// The failed requests of a launch.
struct rejections {
    simt::device_word<std::uint64_t> nulls;
    simt::device_word<std::uint64_t> latest_ns;  ///< the longest time of a null
};

/// Each thread makes one request, or requests until it gets null. Nothing is freed. The time of each request that fails
/// is taken on the device, around `malloc`.
struct ask_in_shortage {
    heap_ref heap;
    size_range bytes;
    bool until_null;
    rejections* counts;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t n = bytes(at.global_thread());
        for (;;) {
            const std::uint64_t began = simt::clock_ns();
            if (heap.malloc(n) == nullptr) {
                counts->nulls.fetch_add<simt::order::relaxed>(1);
                counts->latest_ns.raise<simt::order::relaxed>(simt::clock_ns() - began);
                return;
            }
            if (!until_null) {
                return;
            }
        }
    }
};

/// Fills a heap, and then makes requests to it. The heap must stay full: blocks that a later request finds are not
/// freed.
class full_heap {
public:
    /// Returns a full heap. Blocks of 4 MiB first, then ever smaller ones down to 16 B, each until all threads got
    /// null: what is too short for one size is taken by a smaller one. Errors: those of the heap and of launches.
    /// @param fillers  threads that allocate at the same time
    static absl::StatusOr<full_heap> make(const options& values, std::uint32_t fillers) {
        auto h = heap::create(values);
        if (!h.ok()) {
            return h.status();
        }
        auto counts = device_array<rejections>::create(h->executor(), 1);
        if (!counts.ok()) {
            return counts.status();
        }
        full_heap made(*std::move(h), *std::move(counts));
        for (std::uint64_t bytes = 4 * mib; bytes >= 16; bytes /= 4) {
            if (const auto row = made.ask({bytes, bytes}, fillers, true); !row.ok()) {
                return row.status();
            }
        }
        return made;
    }

    /// Lets `threads` threads request, and returns a row with the launch's times and counts. Errors: those of launches
    /// and copies. A null is no error.
    absl::StatusOr<ordered_json> ask(size_range bytes, std::uint32_t threads, bool until_null) {
        simt::executor on = heap_.executor();
        on.timed = true;
        const simt::launch_result done = simt::launch(on, simt::grid_for(threads, std::min(threads, 256u)),
                                                      ask_in_shortage{heap_.ref(), bytes, until_null, counts_.data()});
        absl::Status status = to_status(done);
        rejections seen;
        status.Update(copy_to_host(on, &seen, counts_.data(), sizeof(seen)));
        status.Update(counts_.zero());
        ordered_json row{
            {"bytes_from", bytes.least},
            {"bytes_to", std::max(bytes.least, bytes.below)},
            {"threads", threads},
            {"launch_us", done.microseconds},
            {"latest_us", static_cast<double>(seen.latest_ns.load<simt::order::relaxed>()) / 1000},
            {"nulls", seen.nulls.load<simt::order::relaxed>()},
        };
        status.Update(path_.add_to(row, heap_));
        return status.ok() ? absl::StatusOr<ordered_json>(row) : status;
    }
    /// Checks the full heap (`heap::validate`).
    absl::Status validate() { return heap_.validate(); }

private:
    full_heap(heap h, device_array<rejections> counts) : heap_{std::move(h)}, counts_{std::move(counts)} {}

    heap heap_;
    device_array<rejections> counts_;
    path_counts path_;  ///< so that a row has the counts of its own launch alone
};

/// One row, and the times of its launches.
struct asked {
    ordered_json row;  ///< of the first launch
    std::vector<double> launch_us;
    std::vector<double> latest_us;
};

/// Makes one launch of a row, and adds its times to `all`.
absl::Status ask_again(full_heap& full, size_range bytes, std::uint32_t threads, asked& all) {
    auto row = full.ask(bytes, threads, false);
    if (!row.ok()) {
        return row.status();
    }
    all.launch_us.push_back((*row)["launch_us"]);
    all.latest_us.push_back((*row)["latest_us"]);
    if (all.row.is_null()) {
        all.row = *std::move(row);
    }
    return absl::OkStatus();
}

absl::StatusOr<ordered_json> run_shortage(const settings& s) {
    const bool cuda = s.device == simt::device_kind::cuda && !s.quick;
    options values = s.heap;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    // Small, so that it is full soon.
    values.capacity = cuda ? 2048 * mib : 32 * mib;
    auto full = full_heap::make(values, cuda ? 1024 : 32);
    if (!full.ok()) {
        return full.status();
    }
    // Up to 131,072 threads: half of what is on the GPU at once.
    const std::vector<std::uint32_t> counts =
        cuda ? std::vector<std::uint32_t>{32, 4'096, 131'072} : std::vector<std::uint32_t>{32, 64};
    // All rows once, then all of them again. The first launch of each row then finds the heap as without repetition.
    std::vector<asked> all(4 * counts.size());
    for (int i = 0; i < s.repeats; ++i) {
        auto one = all.begin();
        for (const size_range bytes :
             {size_range{64, 64}, size_range{16, 8192}, size_range{64 << 10, 512 << 10}, size_range{mib, 8 * mib}}) {
            for (const std::uint32_t threads : counts) {
                if (absl::Status status = ask_again(*full, bytes, threads, *one++); !status.ok()) {
                    return status;
                }
            }
        }
    }
    ordered_json rows = ordered_json::array();
    for (asked& one : all) {
        add_repetitions(one.row, "launch", one.launch_us);
        add_repetitions(one.row, "latest", one.latest_us);
        rows.push_back(std::move(one.row));
    }
    const absl::Status valid = full->validate();
    return valid.ok() ? absl::StatusOr<ordered_json>(rows) : valid;
}

const registrar shortage_registered{
    {"shortage", "requests of a heap that has nothing left", run_shortage,
     "launch_us, latest_us, nulls and all counts are of the first launch; _first, _third and "
     "_tenth are those launches, _settled is the median of the last half"}};

}  // namespace
}  // namespace orchard::bench
