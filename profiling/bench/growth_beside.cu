// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A part of `orchard bench growth`: who reads the spill tier reads memory of the host, beside which commits are
/// slower. How much, by the number of warps that read and by the size of extents.

#include <algorithm>
#include <span>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "profiling/bench/growing_heap.cuh"
#include "uvm/memory_driver.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::uint32_t most_seconds = 20;
constexpr std::uint32_t most_warps = 1056;

/// The heap whose spill tier is read, and with what.
struct spilled_heap {
    growing_heap filled;
    void* stream;
    std::span<reader_signal> signals;  ///< [1 + warps]: the first is that it is over
};

/// Warps that read a heap's blocks, from construction to destruction.
class readers_beside {
public:
    readers_beside(spilled_heap& spilled, std::uint32_t warps)
        : spilled_{spilled}, reading_{spilled.signals.subspan(1, warps)} {
        for (reader_signal& signal : spilled_.signals) {
            set(signal, 0);
        }
        thread_ = std::thread([this, warps] {
            if (warps != 0) {
                status_.Update(
                    spilled_.filled
                        .read_until(spilled_.signals.data(), reading_.data(), warps, spilled_.stream, most_seconds)
                        .status());
            }
        });
    }
    readers_beside(const readers_beside&) = delete;
    readers_beside& operator=(const readers_beside&) = delete;
    ~readers_beside() { (void)stop(); }

    /// Waits until all of them read.
    absl::Status await() const {
        const absl::Time deadline = absl::Now() + absl::Seconds(most_seconds);
        const auto reads = [](const reader_signal& r) { return r.word.load<simt::order::relaxed>() != 0; };
        while (!std::all_of(reading_.begin(), reading_.end(), reads)) {
            if (absl::Now() > deadline) {
                return absl::DeadlineExceededError(absl::StrCat("of ", reading_.size(), " warps not all came to read"));
            }
            absl::SleepFor(absl::Microseconds(100));
        }
        return absl::OkStatus();
    }
    absl::Status stop() {
        if (thread_.joinable()) {
            set(spilled_.signals.front(), 1);
            thread_.join();
            status_.Update(spilled_.filled.take_counts().status());
        }
        return status_;
    }

private:
    static void set(reader_signal& signal, std::uint64_t value) { signal.word.store<simt::order::relaxed>(value); }

    spilled_heap& spilled_;
    std::span<reader_signal> reading_;
    absl::Status status_;
    std::thread thread_;
};

absl::StatusOr<ordered_json> time_beside(spilled_heap& spilled, const settings& s, const options& values,
                                         std::uint64_t bytes, std::uint32_t warps) {
    let_memory_rest(s);
    auto g = growing_heap::make(values, bytes, blocks_of(s));
    if (!g.ok()) {
        return g.status();
    }
    readers_beside readers(spilled, warps);
    absl::Status status = readers.await();
    const auto us = status.ok() ? g->fill(8) : status;
    status.Update(readers.stop());
    const auto counts = g->take_counts();
    const auto freed = g->empty();
    for (const absl::Status& one : {us.status(), counts.status(), freed.status()}) {
        status.Update(one);
    }
    if (!status.ok()) {
        return status;
    }
    return ordered_json{{"what", "growing beside readers of the spill tier"},
                        {"bytes_gib", static_cast<double>(bytes) / gib},
                        {"extent_mib", values.extent == values.most_extent ? values.extent / mib : 0},
                        {"readers", warps},
                        {"ms", *us / 1000},
                        {"gb_per_s", static_cast<double>(bytes) / *us / 1000},
                        {"latest_us", counts->latest_us}};
}

}  // namespace

absl::Status time_growth_beside_readers(const settings& s, ordered_json& rows) {
    const bool cuda = s.device == simt::device_kind::cuda && !s.quick;
    const std::uint64_t bytes = cuda ? 16 * gib : 32 * mib;
    const std::uint64_t spilled_bytes = cuda ? 512 * mib : 16 * mib;
    auto driver = s.device == simt::device_kind::cuda ? make_cuda_driver() : make_emulated_driver();
    if (!driver.ok()) {
        return driver.status();
    }
    options values = elastic(s);
    values.capacity = 64 * mib;
    values.host_budget = spilled_bytes;
    auto full = growing_heap::make(values, 64 * mib + spilled_bytes - 2 * mib, blocks_of(s));
    const auto signals = (*driver)->allocate_host_visible((1 + most_warps) * sizeof(reader_signal));
    if (!full.ok() || !signals.ok()) {
        return full.ok() ? signals.status() : full.status();
    }
    spilled_heap spilled{
        *std::move(full), (*driver)->stream(), {static_cast<reader_signal*>(*signals), 1 + most_warps}};
    for (const auto& done : {spilled.filled.fill(8), spilled.filled.check()}) {
        if (!done.ok()) {
            return done.status();
        }
    }
    if (const auto counts = spilled.filled.take_counts(); !counts.ok()) {
        return counts.status();
    }
    values = elastic(s);
    values.capacity = bytes * 5 / 4 + 64 * mib;
    for (const std::uint64_t extent : {std::uint64_t{0}, 64 * mib}) {
        if (extent != 0) {
            values.extent = values.most_extent = extent;
        }
        for (const std::uint32_t warps : cuda ? std::vector{0u, 132u, most_warps} : std::vector{0u, 2u}) {
            auto row = time_beside(spilled, s, values, bytes, warps);
            if (!row.ok()) {
                return row.status();
            }
            rows.push_back(*std::move(row));
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard::bench
