// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The users of the heap in `orchard bench storm`: kernels, stream by stream, and the host.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/heap_ref.cuh"
#include "profiling/bench/soak_runner.cuh"
#include "runtime/heap/heap.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard::bench::storm {

/// The amount of memory that the streams hold.
enum class water : std::size_t { high, low };

/// The plan of the threads of a stream, by `water`.
using plans = std::array<soak::plan, 2>;

inline soak::counts operator+(soak::counts a, const soak::counts& b) {
    a.allocations += b.allocations;
    a.frees += b.frees;
    a.nulls += b.nulls;
    a.handed_over += b.handed_over;
    a.bytes += b.bytes;
    a.mismatches += b.mismatches;
    return a;
}

/// One stream: launches of random length, and occasionally one that frees everything. One thread.
class stream_side {
public:
    /// Errors: those of the driver and of `soak::runner`.
    static absl::StatusOr<stream_side> create(heap& h, const plans& p, simt::device_kind kind, std::uint64_t seed) {
        stream_side made(seed);
        auto driver = kind == simt::device_kind::cuda ? make_cuda_driver() : make_emulated_driver();
        if (!driver.ok()) {
            return driver.status();
        }
        made.driver_ = *std::move(driver);
        simt::executor on = h.executor();
        on.stream = made.driver_->stream();
        for (std::size_t i = 0; i < p.size(); ++i) {
            auto r = runner::create(on, h.ref(), p[i], [&h] { (void)h.close(); });
            if (!r.ok()) {
                return r.status();
            }
            made.runners_[i] = std::make_unique<runner>(*std::move(r));
        }
        return made;
    }

    /// Runs one launch, whose blocks are in the tables of `level`. Frees nothing if no block is held. Errors: those of
    /// `soak::runner::run`.
    absl::Status turn(water level) {
        ++launches_;
        runner& r = *runners_[static_cast<std::size_t>(level)];
        if (holds_ && random_() % 4 == 0) {
            holds_ = false;
            return r.drain();
        }
        holds_ = true;
        return r.run(1 + static_cast<std::uint32_t>(random_() % 64)).status();
    }
    /// Frees all blocks. Errors: those of `turn`.
    absl::Status free_all() {
        absl::Status status;
        for (const auto& r : runners_) {
            status.Update(r->drain());
        }
        holds_ = false;
        return status;
    }
    [[nodiscard]] soak::counts counted() const { return runners_[0]->counted() + runners_[1]->counted(); }
    [[nodiscard]] std::uint64_t launches() const { return launches_; }

private:
    using runner = soak::runner<heap_ref>;
    explicit stream_side(std::uint64_t seed) : random_{seed} {}

    std::unique_ptr<memory_driver> driver_;  ///< owns the stream
    std::array<std::unique_ptr<runner>, 2> runners_;
    std::mt19937_64 random_;
    std::uint64_t launches_ = 0;
    bool holds_ = false;
};

/// The host's use of the heap while kernels run. One thread.
class host_side {
public:
    /// @param budget  limit of its reservations, in bytes
    host_side(heap& h, std::uint64_t budget) : heap_{h}, budget_{budget} {}

    /// Makes one call of the heap. Errors: the call's own; a shortage of memory is no error.
    absl::Status turn() {
        switch (random_() % 6) {
            case 0: return trim();
            case 1: {
                ++reserves_;
                const absl::Status s = heap_.reserve(random_() % budget_);
                return absl::IsResourceExhausted(s) ? absl::OkStatus() : s;
            }
            case 2: return heap_.stats().status();
            case 3:
            case 4: return allocate();
            default: return free_one();
        }
    }
    absl::Status trim() {
        ++trims_;
        return heap_.trim();
    }
    absl::Status free_all() {
        absl::Status s;
        while (!blocks_.empty() && s.ok()) {
            s.Update(free_one());
        }
        return s;
    }
    [[nodiscard]] std::uint64_t trims() const { return trims_; }
    [[nodiscard]] std::uint64_t reserves() const { return reserves_; }
    [[nodiscard]] std::uint64_t allocations() const { return allocations_; }

private:
    absl::Status allocate() {
        const auto p = heap_.allocate_on_host(std::uint64_t{1} << random_() % 22);
        if (absl::IsResourceExhausted(p.status())) {
            return absl::OkStatus();
        }
        if (p.ok()) {
            ++allocations_;
            blocks_.push_back(*p);
        }
        return p.status();
    }
    absl::Status free_one() {
        if (blocks_.empty()) {
            return absl::OkStatus();
        }
        std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
        const absl::Status s = heap_.free_on_host(blocks_.back());
        blocks_.pop_back();
        return s;
    }

    heap& heap_;
    std::uint64_t budget_;
    std::mt19937_64 random_{1};
    std::vector<void*> blocks_;
    std::uint64_t trims_ = 0;
    std::uint64_t reserves_ = 0;
    std::uint64_t allocations_ = 0;
};

}  // namespace orchard::bench::storm
