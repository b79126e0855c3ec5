// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// One case of one allocator, as its worker measures it: launches with times and errors, and arrays on the device.

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profiling/arena/blocks.hpp"
#include "profiling/arena/kernels.cuh"
#include "profiling/arena/task.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/launch_status.hpp"

namespace orchard::arena {

/// Returns the requests of a case's threads.
inline request request_of(const arena_case& c) { return {c.least, c.most, c.lanes, c.powers, c.by_lane, c.of_first}; }

/// The measurements of one task. After an error later steps may still be called; they do nothing, and `finish` returns
/// a crash.
class measurement {
public:
    explicit measurement(const task& t) : task_{t} {}

    [[nodiscard]] const arena_case& what() const { return task_.what; }
    [[nodiscard]] const simt::executor& on() const { return task_.on; }
    [[nodiscard]] int repeats() const { return task_.repeats; }
    [[nodiscard]] std::uint64_t memory() const { return task_.memory; }
    [[nodiscard]] request requests() const { return request_of(what()); }
    [[nodiscard]] bool going() const { return status_.ok(); }
    void update(const absl::Status& s) { status_.Update(s); }

    /// Loads the kernels now, so that the first repetition has no part of it.
    template <class... Kernels>
    void preload() {
        (update(to_status(simt::preload<Kernels>(on()))), ...);
    }
    /// Returns the microseconds of one launch; 0 after an error.
    template <class Kernel>
    double time(const Kernel& kernel, std::uint64_t threads, std::uint32_t block = 256) {
        if (!going()) {
            return 0;
        }
        const simt::launch_result r = simt::launch(on(), simt::grid_for(threads, block), kernel);
        update(to_status(r));
        return r.microseconds;
    }
    /// Returns an array of zeros, empty after an error.
    template <class T>
    device_array<T> array(std::uint64_t count) {
        auto made = device_array<T>::create(on(), count);
        update(made.status());
        return made.ok() ? *std::move(made) : device_array<T>();
    }
    /// Returns the blocks of the threads that ask, as the host sees them.
    /// @param each  blocks of a thread, which lie side by side
    std::vector<block> blocks_of(const device_array<void*>& pointers, std::uint64_t count, std::uint32_t each = 1) {
        std::vector<void*> host(count);
        std::vector<block> all;
        if (going()) {
            update(pointers.download(host));
        }
        for (std::uint64_t i = 0; going() && i < count; ++i) {
            if (requests().asks(i / each)) {
                const auto round = static_cast<std::uint32_t>(i % each);
                all.push_back({reinterpret_cast<std::uintptr_t>(host[i]), requests().bytes(i / each, round)});
            }
        }
        return all;
    }
    /// Notes what kernels have counted.
    void note_counts(const device_array<counts>& from) {
        counts found[1];
        if (going()) {
            update(from.download(found));
        }
        if (!going()) {
            return;
        }
        const auto of = [](const auto& word) { return word.template load<order::relaxed>(); };
        if (const std::uint64_t n = of(found[0].wrong); n != 0) {
            result.fault(verdict::overlap, std::to_string(n) + " blocks lost what was written into them");
        }
        if (const std::uint64_t n = of(found[0].misaligned); n != 0) {
            result.fault(verdict::misaligned, std::to_string(n) + " blocks are not aligned to 16 B");
        }
        if (const std::uint64_t n = of(found[0].nulls); n != 0) {
            result.fault(verdict::null, std::to_string(n) + " requests gave null");
        }
    }
    /// Returns the result. An error of a launch or of a copy is a crash.
    outcome finish() {
        if (!going()) {
            result.fault(verdict::crash, std::string(status_.message()));
        }
        return std::move(result);
    }

    outcome result;

private:
    const task& task_;
    absl::Status status_;
};

/// Returns the microseconds that `act` takes, by the host's clock.
template <class Act>
double microseconds_of(Act act) {
    const auto began = std::chrono::steady_clock::now();
    act();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace orchard::arena
