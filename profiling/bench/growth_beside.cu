// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A part of `orchard bench growth`: who reads the spill tier reads memory of the host, beside which commits are
/// slower. How much, by the number of warps that read and by the size of extents.

#include <thread>

#include "absl/time/clock.h"
#include "profiling/bench/growing_heap.cuh"
#include "uvm/memory_driver.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::uint32_t most_seconds = 20;

/// Warps that read a heap's blocks, from construction to destruction.
class readers_beside {
public:
    readers_beside(growing_heap& spilled, void* stream, std::uint32_t warps)
        : spilled_{spilled}, warps_{warps}, thread_{[this, stream] {
              if (warps_ != 0) {
                  status_.Update(spilled_.read_until_stopped(warps_, stream, most_seconds).status());
              }
          }} {}
    readers_beside(const readers_beside&) = delete;
    readers_beside& operator=(const readers_beside&) = delete;
    ~readers_beside() { (void)stop(); }

    /// Waits until all of them read.
    absl::Status await() {
        for (std::uint64_t reading = 0; reading < warps_;) {
            const auto now = spilled_.readers();
            if (!now.ok()) {
                return now.status();
            }
            reading = *now;
            absl::SleepFor(absl::Microseconds(100));
        }
        return absl::OkStatus();
    }
    absl::Status stop() {
        if (thread_.joinable()) {
            const absl::Status stopped = spilled_.stop_reading();
            thread_.join();
            status_.Update(stopped);
            status_.Update(spilled_.take_counts().status());
        }
        return status_;
    }

private:
    growing_heap& spilled_;
    std::uint32_t warps_;
    absl::Status status_;
    std::thread thread_;
};

absl::StatusOr<ordered_json> time_beside(growing_heap& spilled, void* stream, const settings& s, const options& values,
                                         std::uint64_t bytes, std::uint32_t warps) {
    let_memory_rest(s);
    auto g = growing_heap::make(values, bytes, blocks_of(s));
    if (!g.ok()) {
        return g.status();
    }
    readers_beside readers(spilled, stream, warps);
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
    auto spilled = growing_heap::make(values, 64 * mib + spilled_bytes - 2 * mib, blocks_of(s));
    if (!spilled.ok()) {
        return spilled.status();
    }
    for (const auto& done : {spilled->fill(8), spilled->check()}) {
        if (!done.ok()) {
            return done.status();
        }
    }
    if (const auto counts = spilled->take_counts(); !counts.ok()) {
        return counts.status();
    }
    values = elastic(s);
    values.capacity = bytes * 5 / 4 + 64 * mib;
    for (const std::uint64_t extent : {std::uint64_t{0}, 64 * mib}) {
        if (extent != 0) {
            values.extent = values.most_extent = extent;
        }
        for (const std::uint32_t warps : cuda ? std::vector{0u, 132u, 1056u} : std::vector{0u, 2u}) {
            auto row = time_beside(*spilled, (*driver)->stream(), s, values, bytes, warps);
            if (!row.ok()) {
                return row.status();
            }
            rows.push_back(*std::move(row));
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard::bench
