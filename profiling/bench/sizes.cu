// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench sizes`: 16,384 threads ask for 2^n to 2^(n+1) bytes each from one heap. Every block is stamped over
/// its length and read back by another kernel, so that an overlap of any two is seen.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "device/heap_ref.cuh"
#include "profiling/bench/bench.hpp"
#include "runtime/device_memory.hpp"
#include "runtime/heap.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// Bytes between two stamps.
constexpr std::uint64_t stamp_step = 4096;

/// What thread `i` asks for: between `low` and twice that, the same in every launch.
ORCHARD_FN std::uint64_t size_of(std::uint64_t low, std::uint64_t i) {
    return low + device::mix(static_cast<std::uint32_t>(i)) % low;
}

struct allocate_kernel {
    heap_ref heap;
    void** blocks;
    std::uint64_t low;
    std::uint64_t threads;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads) {
            blocks[i] = heap.malloc(size_of(low, i));
        }
    }
};

struct free_kernel {
    heap_ref heap;
    void** blocks;
    std::uint64_t threads;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads) {
            heap.free(blocks[i]);
        }
    }
};

/// Writes (or checks) the thread's number at every step and in the last word of its block.
struct stamp_kernel {
    void** blocks;
    std::uint64_t low;
    std::uint64_t threads;
    simt::device_word<std::uint64_t>* wrong;  ///< null: write
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= threads || blocks[i] == nullptr) {
            return;
        }
        auto* words = static_cast<std::uint64_t*>(blocks[i]);
        const std::uint64_t last = size_of(low, i) / 8 - 1;
        std::uint64_t bad = 0;
        for (std::uint64_t w = 0; w <= last; w = w < last && w + stamp_step / 8 > last ? last : w + stamp_step / 8) {
            if (wrong == nullptr) {
                words[w] = i;
            } else {
                bad += words[w] != i;
            }
        }
        if (bad != 0) {
            wrong->fetch_add<simt::order::relaxed>(bad);
        }
    }
};

/// Whether any two of the blocks overlap, by their addresses.
bool overlap(const std::vector<void*>& blocks, std::uint64_t low) {
    std::vector<std::pair<std::uintptr_t, std::uintptr_t>> spans;
    for (std::uint64_t i = 0; i < blocks.size(); ++i) {
        const auto begin = reinterpret_cast<std::uintptr_t>(blocks[i]);
        spans.emplace_back(begin, begin + size_of(low, i));
    }
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) {
        if (spans[i].first < spans[i - 1].second) {
            return true;
        }
    }
    return false;
}

absl::StatusOr<ordered_json> measure(heap& h, const settings& s, std::uint64_t low, std::uint64_t threads) {
    simt::executor on = h.executor();
    on.timed = true;
    auto blocks = device_array<void*>::create(on, threads);
    auto wrong = device_array<simt::device_word<std::uint64_t>>::create(on, 1);
    if (!blocks.ok() || !wrong.ok()) {
        return blocks.ok() ? wrong.status() : blocks.status();
    }
    const simt::grid shape = simt::grid_for(threads);
    std::vector<double> allocate_us;
    std::vector<double> free_us;
    std::uint64_t nulls = 0;
    std::uint64_t bad = 0;
    bool overlaps = false;
    for (int i = -1; i < std::min(s.repeats, 10); ++i) {
        auto result = simt::launch(on, shape, allocate_kernel{h.ref(), blocks->data(), low, threads});
        const double allocated = result.microseconds;
        if (!result.ok) {
            return absl::InternalError(result.error);
        }
        if (i <= 0) {
            simt::launch(on, shape, stamp_kernel{blocks->data(), low, threads, nullptr});
            simt::launch(on, shape, stamp_kernel{blocks->data(), low, threads, wrong->data()});
            std::vector<void*> host(threads);
            std::uint64_t bad_now = 0;
            absl::Status status = blocks->download(host);
            status.Update(copy_to_host(on, &bad_now, wrong->data(), sizeof(bad_now)));
            if (!status.ok()) {
                return status;
            }
            bad += bad_now;
            nulls += static_cast<std::uint64_t>(std::count(host.begin(), host.end(), nullptr));
            overlaps = overlaps || (nulls == 0 && overlap(host, low));
            if (absl::Status v = h.validate(); !v.ok()) {
                return v;
            }
        }
        result = simt::launch(on, shape, free_kernel{h.ref(), blocks->data(), threads});
        const double freed = result.microseconds;
        if (!result.ok) {
            return absl::InternalError(result.error);
        }
        if (i >= 0) {
            allocate_us.push_back(allocated);
            free_us.push_back(freed);
        }
    }
    absl::Status status = h.trim();
    status.Update(h.validate());
    if (!status.ok()) {
        return status;
    }
    return ordered_json{{"bytes_from", low},          {"bytes_to", 2 * low},
                        {"threads", threads},         {"allocate_us", median(allocate_us)},
                        {"free_us", median(free_us)}, {"nulls", nulls},
                        {"wrong_stamps", bad},        {"overlap", overlaps}};
}

absl::StatusOr<ordered_json> run(const settings& s) {
    options values = s.heap;
    const bool cuda = s.device == simt::device_kind::cuda;
    values.device = cuda ? device_option::cuda : device_option::emulated;
    const std::uint64_t threads = cuda && !s.quick ? 16384 : 256;
    values.capacity = std::max<std::uint64_t>(values.capacity, threads * (2ull << 20) * 5 / 4 + (256ull << 20));
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    ordered_json rows = ordered_json::array();
    for (std::uint64_t low = 4096; low <= (1u << 20); low *= 2) {
        auto row = measure(*h, s, low, threads);
        if (!row.ok()) {
            return row.status();
        }
        rows.push_back(*std::move(row));
    }
    return rows;
}

const registrar registered{{"sizes", "threads that each ask for 4 KiB to 2 MiB, checked for overlap", run}};

}  // namespace
}  // namespace orchard::bench
