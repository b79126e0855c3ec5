// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The users of the heap in `orchard bench storm`: kernels, stream by stream, and the host. Both draw their actions
/// from generators with constant seeds; the order in which the actions meet depends on timing.

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

/// The amount of memory that the streams hold: much, so that the budgets are spent at times, or little.
enum class water : std::size_t { high, low };

/// The plan of the threads of a stream, by `water`.
using plans = std::array<soak::plan, 2>;

/// Returns the sum of both, count by count.
inline soak::counts operator+(soak::counts a, const soak::counts& b) {
    a.allocations += b.allocations;
    a.frees += b.frees;
    a.nulls += b.nulls;
    a.handed_over += b.handed_over;
    a.bytes += b.bytes;
    a.mismatches += b.mismatches;
    return a;
}

/// One stream: launches of random length, and occasionally one that frees everything. One thread. Blocks of high and of
/// low water are in tables of their own; both runners use the same heap.
class stream_side {
public:
    /// Returns a stream whose kernels run beside those of others. Errors: those of the driver and of `soak::runner`.
    static absl::StatusOr<stream_side> create(heap& h, const plans& p, simt::device_kind kind, std::uint64_t seed) {
        stream_side made(seed);
        // A driver of its own for its stream: launches of several streams then run side by side.
        auto driver = kind == simt::device_kind::cuda ? make_cuda_driver() : make_emulated_driver();
        if (!driver.ok()) {
            return driver.status();
        }
        made.driver_ = *std::move(driver);
        simt::executor on = h.executor();
        on.stream = made.driver_->stream();
        for (std::size_t i = 0; i < p.size(); ++i) {
            // A launch that hangs is ended by closing the heap.
            auto r = runner::create(on, h.ref(), p[i], [&h] { (void)h.close(); });
            if (!r.ok()) {
                return r.status();
            }
            made.runners_[i] = std::make_unique<runner>(*std::move(r));
        }
        return made;
    }

    /// Runs one launch, whose blocks are in the tables of `level`: in one of four cases it frees all of them, otherwise
    /// it makes 1 to 64 rounds. Frees nothing if no block is held. Errors: those of `soak::runner::run`.
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
    /// Return the counts of both runners, and the number of `turn`s.
    [[nodiscard]] soak::counts counted() const { return runners_[0]->counted() + runners_[1]->counted(); }
    [[nodiscard]] std::uint64_t launches() const { return launches_; }

private:
    using runner = soak::runner<heap_ref>;
    explicit stream_side(std::uint64_t seed) : random_{seed} {}

    std::unique_ptr<memory_driver> driver_;           ///< owns the stream
    std::array<std::unique_ptr<runner>, 2> runners_;  ///< by `water`
    std::mt19937_64 random_;
    std::uint64_t launches_ = 0;
    bool holds_ = false;  ///< whether the last `turn` may have left blocks
};

/// The host's use of the heap while kernels run: one random call after the other. One thread.
class host_side {
public:
    /// @param budget  limit of its reservations, in bytes
    host_side(heap& h, std::uint64_t budget) : heap_{h}, budget_{budget} {}

    /// Makes one call of the heap. Errors: the call's own; a shortage of memory is no error.
    absl::Status turn() {
        // Allocations are twice as likely as frees, so that the host holds blocks most of the time.
        switch (random_() % 6) {
            case 0: return trim();
            case 1: {
                ++reserves_;
                const absl::Status s = heap_.reserve(random_() % budget_);
                // Memory may be short: that is no error.
                return absl::IsResourceExhausted(s) ? absl::OkStatus() : s;
            }
            case 2: return heap_.stats().status();
            case 3:
            case 4: return allocate();
            default: return free_one();
        }
    }
    /// Trims the heap. Errors: those of `heap::trim`.
    absl::Status trim() {
        ++trims_;
        return heap_.trim();
    }
    /// Frees the host's blocks. Errors: those of `heap::free_on_host`.
    absl::Status free_all() {
        absl::Status s;
        while (!blocks_.empty() && s.ok()) {
            s.Update(free_one());
        }
        return s;
    }
    /// Return the number of calls so far; of `allocations`, those that gave a block.
    [[nodiscard]] std::uint64_t trims() const { return trims_; }
    [[nodiscard]] std::uint64_t reserves() const { return reserves_; }
    [[nodiscard]] std::uint64_t allocations() const { return allocations_; }

private:
    /// Allocates 1 B to 2 MiB, each power of two as likely. A shortage of memory is no error.
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
    /// Frees one of the host's blocks, at random; nothing if there is none.
    absl::Status free_one() {
        if (blocks_.empty()) {
            return absl::OkStatus();
        }
        // A random block moves to the end, where it is removed in constant time.
        std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
        const absl::Status s = heap_.free_on_host(blocks_.back());
        blocks_.pop_back();
        return s;
    }

    heap& heap_;
    std::uint64_t budget_;
    std::mt19937_64 random_{1};  ///< a constant seed
    std::vector<void*> blocks_;
    std::uint64_t trims_ = 0;
    std::uint64_t reserves_ = 0;
    std::uint64_t allocations_ = 0;
};

}  // namespace orchard::bench::storm
