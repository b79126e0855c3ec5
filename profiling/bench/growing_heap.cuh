// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Code that the parts of `orchard bench growth` share: a heap with a list of blocks, and a function for each kernel of
/// growth_kernels.cuh.

#include "absl/time/clock.h"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/growth_kernels.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::bench {

/// The size of each block; more than a page, so that blocks are chunks.
inline constexpr std::uint64_t block_bytes = 1 << 20;

/// Returns the thread blocks of a launch: two for each of 132 SMs, so that all warps of a launch are on the GPU at
/// once.
inline std::uint32_t grown_blocks_of(const settings& s) { return s.device == simt::device_kind::cuda ? 264 : 2; }

/// A heap, and blocks that kernels fill it with. All functions that launch return the microseconds of the kernel;
/// errors are those of the launch. Blocks of 1 MiB are allocated and freed by kernels; the destructor ends the heap
/// with them.
class growing_heap {
public:
    /// Returns a heap and a list for `bytes` of blocks. All kernels are loaded here: loading at the first launch would
    /// be part of the time, and could wait for running kernels. Errors: those of the heap and of `device_array`.
    /// @param blocks  thread blocks of a launch, of 256 threads each
    static absl::StatusOr<growing_heap> make(const options& values, std::uint64_t bytes, std::uint32_t blocks) {
        growing_heap g;
        auto h = heap::create(values);
        if (!h.ok()) {
            return h.status();
        }
        g.heap_ = std::make_unique<heap>(*std::move(h));
        g.on_ = g.heap_->executor();
        g.on_.timed = true;
        g.shape_ = {blocks, 256};
        auto list = device_array<std::uint64_t*>::create(g.on_, bytes / block_bytes);
        auto counts = device_array<growth_counts>::create(g.on_, 1);
        if (!list.ok() || !counts.ok()) {
            return list.ok() ? counts.status() : list.status();
        }
        g.blocks_ = *std::move(list);
        g.counts_ = *std::move(counts);
        absl::Status status =
            g.heap_->preload<take_and_write, warm_up, write_blocks, check_blocks, read_on, free_grown, ask_and_fail>();
        if (!status.ok()) {
            return status;
        }
        return g;
    }

    [[nodiscard]] heap& of() { return *heap_; }
    /// Lets warps allocate and write blocks until the list is full (`take_and_write`).
    /// @param together     lanes of each warp that allocate at once
    /// @param asks_beside  until the others are done, the last two warps time a request that needs no growth, and a
    ///     plain atomic
    absl::StatusOr<double> fill(std::uint32_t together, bool asks_beside = false) {
        return run(take_and_write{heap_->ref(), list(), counts_.data(), together, asks_beside});
    }
    /// Run one kernel each: allocate the memory of requests beside; write all blocks again; check all blocks.
    absl::StatusOr<double> warm() { return run(warm_up{heap_->ref()}, simt::grid{1, 32}); }
    absl::StatusOr<double> write() { return run(write_blocks{list()}); }
    absl::StatusOr<double> check() { return run(check_blocks{list(), counts_.data()}); }
    /// Reads the blocks until `*over`, or until a limit of seconds; on a stream, while other kernels run. `reading` has
    /// a word for each warp.
    absl::StatusOr<double> read_until(reader_signal* over, reader_signal* reading, std::uint32_t warps, void* stream,
                                      std::uint32_t seconds) {
        simt::executor beside = on_;
        beside.stream = stream;
        const read_on kernel{list(), over, reading, counts_.data(), std::uint64_t{seconds} * 1'000'000'000};
        const simt::launch_result result = simt::launch(beside, {warps, 32}, kernel);
        return result.ok ? absl::StatusOr<double>(result.microseconds) : to_status(result);
    }
    /// Frees all blocks.
    absl::StatusOr<double> empty() { return run(free_grown{heap_->ref(), list()}); }
    /// Makes `times` requests of `bytes`, expected to fail; `take_counts` says how long the longest took.
    absl::StatusOr<double> ask(std::uint64_t bytes, std::uint32_t times) {
        return run(ask_and_fail{heap_->ref(), bytes, times, counts_.data()}, simt::grid{1, 32});
    }
    /// The counts since the last call, as in `growth_counts`, in microseconds.
    struct numbers {
        std::uint64_t nulls;
        std::uint64_t wrong;
        double latest_us;
        double beside_us;
        std::uint64_t beside;
        std::uint64_t beside_late;
        double plain_us;
    };
    /// Returns the counts and sets them to 0. Errors: those of the copies.
    absl::StatusOr<numbers> take_counts() {
        growth_counts c;
        absl::Status status = copy_to_host(on_, &c, counts_.data(), sizeof(c));
        status.Update(counts_.zero());
        if (!status.ok()) {
            return status;
        }
        using simt::order;
        return numbers{.nulls = c.nulls.load<order::relaxed>(),
                       .wrong = c.wrong.load<order::relaxed>(),
                       .latest_us = static_cast<double>(c.latest_ns.load<order::relaxed>()) / 1000,
                       .beside_us = static_cast<double>(c.beside_ns.load<order::relaxed>()) / 1000,
                       .beside = c.beside.load<order::relaxed>(),
                       .beside_late = c.beside_late.load<order::relaxed>(),
                       .plain_us = static_cast<double>(c.plain_ns.load<order::relaxed>()) / 1000};
    }

private:
    growing_heap() = default;
    [[nodiscard]] block_list list() const {
        return {blocks_.data(), blocks_.size(), block_bytes / sizeof(std::uint64_t)};
    }
    /// Runs a kernel with the shape of this object, or with another one.
    template <class Kernel>
    absl::StatusOr<double> run(const Kernel& kernel, std::optional<simt::grid> shape = std::nullopt) {
        const simt::launch_result result = simt::launch(on_, shape.value_or(shape_), kernel);
        if (!result.ok) {
            return to_status(result);
        }
        return result.microseconds;
    }

    std::unique_ptr<heap> heap_;  ///< on the heap, so that this object can be moved
    simt::executor on_;
    simt::grid shape_{1, 32};              ///< of a launch
    device_array<std::uint64_t*> blocks_;  ///< [bytes / 1 MiB]
    device_array<growth_counts> counts_;   ///< one element
};

/// Returns the options of the command line, with an elastic backing.
inline options elastic(const settings& s) {
    options values = s.heap;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    values.backing = backing_option::elastic;
    return values;
}

/// Waits longer than the driver takes to clear released memory. The clearing would slow down the commits of the next
/// heap, and a row would depend on the heap before it.
inline void let_memory_rest(const settings& s) {
    if (s.device == simt::device_kind::cuda && !s.quick) {
        absl::SleepFor(absl::Milliseconds(1500));
    }
}

/// Adds the rows of growth while other warps read the spill tier of another heap. Errors: those of the heaps and
/// launches.
absl::Status time_growth_beside_readers(const settings& s, nlohmann::ordered_json& rows);

}  // namespace orchard::bench
