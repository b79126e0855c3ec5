// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A part of `orchard bench growth`: kernels that read the spill tier read host memory, which makes commits slower. It
/// measures this effect by the number of reading warps and by the size of extents. Responses of the mailbox also come
/// from host memory, so the same is measured with all memory committed before.
///
///     what         growing, or committed before, beside readers of the spill tier
///     extent_mib   size of every commit; 0: the default
///     readers      warps that read host memory meanwhile; 0: the reference
///     ms           the kernel that fills 16 GiB; gb_per_s: those bytes by this time
///     latest_us    the longest request
///
/// One measurement a row, on a new heap. The readers run on another stream, on another heap, whose 512 MiB of host
/// memory they read again and again; they start before the timed kernel and end after it.

#include <algorithm>
#include <span>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "profiling/bench/growing_heap.cuh"
#include "uvm/memory/memory_driver.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::uint32_t max_seconds = 20;  ///< a limit for readers, and for waiting for them
constexpr std::uint32_t max_warps = 1056;  ///< 8 for each of 132 SMs

/// The heap whose spill tier is read, and the kernels that read it.
struct spilled_heap {
    growing_heap filled;
    void* stream;                      ///< of the kernels that read
    std::span<reader_signal> signals;  ///< [1 + warps]: the first ends the kernel
};

/// Warps that read a heap's blocks, from construction to destruction. A host thread launches them, because a launch
/// returns only when its kernel has ended.
class readers_beside {
public:
    /// @param warps  1 to `max_warps`; 0: none, for the reference
    readers_beside(spilled_heap& spilled, std::uint32_t warps)
        : spilled_{spilled}, reading_{spilled.signals.subspan(1, warps)} {
        // All signals are set to 0 before the thread starts: none of the last readers is left.
        for (reader_signal& signal : spilled_.signals) {
            signal.store<simt::order::relaxed>(0);
        }
        thread_ = std::thread([this, warps] {
            if (warps != 0) {
                status_.Update(
                    spilled_.filled
                        .read_until(spilled_.signals.data(), reading_.data(), warps, spilled_.stream, max_seconds)
                        .status());
            }
        });
    }
    readers_beside(const readers_beside&) = delete;
    readers_beside& operator=(const readers_beside&) = delete;
    ~readers_beside() { (void)stop(); }

    /// Waits until all warps read. Errors: DeadlineExceeded if some have not begun after `max_seconds`, for example
    /// because they found no room on the GPU.
    absl::Status await() const {
        const absl::Time deadline = absl::Now() + absl::Seconds(max_seconds);
        const auto reads = [](const reader_signal& r) { return r.load<simt::order::relaxed>() != 0; };
        while (!std::all_of(reading_.begin(), reading_.end(), reads)) {
            if (absl::Now() > deadline) {
                return absl::DeadlineExceededError(absl::StrCat("of ", reading_.size(), " warps not all came to read"));
            }
            absl::SleepFor(absl::Microseconds(100));
        }
        return absl::OkStatus();
    }
    /// Ends the kernel and waits for the thread. Returns the first error of the readers. A second call does nothing
    /// more.
    absl::Status stop() {
        if (thread_.joinable()) {
            spilled_.signals.front().store<simt::order::relaxed>(1);
            thread_.join();
            // The counts are reset for the next readers.
            status_.Update(spilled_.filled.take_counts().status());
        }
        return status_;
    }

private:
    spilled_heap& spilled_;
    std::span<reader_signal> reading_;
    absl::Status status_;
    std::thread thread_;  ///< last, since it uses the other members
};

/// The way in which a heap gets its memory while the readers run.
struct manner {
    std::uint64_t extent = 0;  ///< 0: the default
    bool reserved = false;     ///< all of it is committed before
};

/// Returns whether the full sizes are measured.
bool is_large(const settings& s) { return s.device == simt::device_kind::cuda && !s.quick; }

/// Returns the row of one manner beside `warps` readers. Errors: those of the heap, of launches and of the readers.
absl::StatusOr<ordered_json> time_beside(spilled_heap& spilled, const settings& s, const manner& how,
                                         std::uint32_t warps) {
    const std::uint64_t bytes = is_large(s) ? 16 * gib : 32 * mib;
    const std::uint64_t committed = bytes * 5 / 4;  // so much that no memory is committed ahead of demand meanwhile
    options values = elastic(s);
    values.capacity = committed + 64 * mib;
    if (how.extent != 0) {
        values.extent = values.max_extent = how.extent;
    }
    let_memory_rest(s);
    auto g = growing_heap::make(values, bytes, grown_blocks_of(s));
    if (!g.ok()) {
        return g.status();
    }
    if (absl::Status reserved = how.reserved ? g->of().reserve(committed) : absl::OkStatus(); !reserved.ok()) {
        return reserved;
    }
    // The readers start after the heap was made: its creation makes calls that could wait for a running kernel.
    readers_beside readers(spilled, warps);
    absl::Status status = readers.await();
    // Eight lanes at a time, the default of growth.cu.
    const auto us = status.ok() ? g->fill(8) : status;
    // Ended as soon as the heap is full: nothing below needs them.
    status.Update(readers.stop());
    const auto counts = g->take_counts();
    const auto freed = g->empty();
    for (const absl::Status& one : {us.status(), counts.status(), freed.status()}) {
        status.Update(one);
    }
    if (!status.ok()) {
        return status;
    }
    if (counts->nulls != 0 || counts->wrong != 0) {
        return absl::InternalError(
            absl::StrFormat("%d blocks were null, %d words wrong", counts->nulls, counts->wrong));
    }
    return ordered_json{{"what", how.reserved ? "committed before, beside readers of the spill tier"
                                              : "growing beside readers of the spill tier"},
                        {"bytes_gib", static_cast<double>(bytes) / gib},
                        {"extent_mib", how.extent / mib},
                        {"readers", warps},
                        {"ms", *us / 1000},
                        {"gb_per_s", static_cast<double>(bytes) / *us / 1000},
                        {"latest_us", counts->latest_us}};
}

/// Adds a row for each manner with each number of reading warps.
absl::Status time_each(spilled_heap& spilled, const settings& s, ordered_json& rows) {
    std::vector<manner> manners{{.reserved = true}, {}, {.extent = 64 * mib}};
    std::vector<std::uint32_t> numbers{0, 2};
    if (is_large(s)) {
        manners.push_back({.extent = 512 * mib});
        manners.push_back({.extent = 2 * gib});
        // None, then one warp and eight for each of 132 SMs.
        numbers = {0, 132, max_warps};
    }
    for (const manner& how : manners) {
        for (const std::uint32_t warps : numbers) {
            auto row = time_beside(spilled, s, how, warps);
            if (!row.ok()) {
                return row.status();
            }
            rows.push_back(*std::move(row));
        }
    }
    return absl::OkStatus();
}

}  // namespace

absl::Status time_growth_beside_readers(const settings& s, ordered_json& rows) {
    const std::uint64_t spilled_bytes = is_large(s) ? 512 * mib : 16 * mib;
    auto driver = s.device == simt::device_kind::cuda ? make_cuda_driver() : make_emulated_driver();
    if (!driver.ok()) {
        return driver.status();
    }
    options values = elastic(s);
    // A small budget of the device: the blocks beyond 64 MiB lie on the host.
    values.capacity = 64 * mib;
    values.host_budget = spilled_bytes;
    // One segment less than both budgets.
    auto full = growing_heap::make(values, 64 * mib + spilled_bytes - 2 * mib, grown_blocks_of(s));
    const auto signals = (*driver)->allocate_host_visible((1 + max_warps) * sizeof(reader_signal));
    if (!full.ok() || !signals.ok()) {
        return full.ok() ? signals.status() : full.status();
    }
    spilled_heap spilled{*std::move(full), (*driver)->stream(), {static_cast<reader_signal*>(*signals), 1 + max_warps}};
    // Not timed: the blocks are made, and read once.
    for (const auto& done : {spilled.filled.fill(8), spilled.filled.check()}) {
        if (!done.ok()) {
            return done.status();
        }
    }
    if (const auto counts = spilled.filled.take_counts(); !counts.ok()) {
        return counts.status();
    }
    return time_each(spilled, s, rows);
}

}  // namespace orchard::bench
