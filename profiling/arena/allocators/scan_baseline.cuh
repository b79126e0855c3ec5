// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The baselines of a work generation (Winter et al., Fig. 11c to 11e): threads say how many bytes they need, an
/// exclusive prefix sum (CUB's on CUDA) gives each its place, and one array holds all. No allocator: it needs all sizes
/// before any block, and frees the array as a whole.
///
///     run_baseline    the outcome of a task, with an array that the caller makes
///     run_anew        the same, with an array of each repetition, made by the host from the sum that it reads

#include <numeric>
#include <utility>
#include <vector>

#include "profiling/arena/adapter.hpp"
#if ORCHARD_CUDA_SOURCE
#include <cub/device/device_scan.cuh>

#include "device/simt/event_pair.hpp"
#endif

namespace orchard::arena {

/// Thread i writes the bytes that it needs.
struct count_kernel {
    request what;
    std::uint64_t* bytes;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads) {
            bytes[i] = (what.bytes(i) + 15) / 16 * 16;
        }
    }
};

/// Thread i takes its place in the array.
struct place_kernel {
    const std::uint64_t* offsets;
    char* memory;
    void** out;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads) {
            out[i] = memory + offsets[i];
        }
    }
};

/// Replaces `bytes` by their exclusive prefix sums. Returns the microseconds.
inline double scan(measurement& m, device_array<std::uint64_t>& bytes, [[maybe_unused]] device_array<char>& scratch) {
    if (!m.going()) {
        return 0;
    }
#if ORCHARD_CUDA_SOURCE
    if (m.on().kind == simt::device_kind::cuda) {
        auto* const stream = static_cast<cudaStream_t>(m.on().stream);
        const auto count = static_cast<int>(bytes.size());
        std::size_t needed = 0;
        cudaError_t error = cub::DeviceScan::ExclusiveSum(nullptr, needed, bytes.data(), bytes.data(), count, stream);
        if (scratch.size() < needed) {
            scratch = m.array<char>(needed);
        }
        simt::event_pair events;
        events.begin(stream);
        if (error == cudaSuccess && m.going()) {
            error = cub::DeviceScan::ExclusiveSum(scratch.data(), needed, bytes.data(), bytes.data(), count, stream);
        }
        events.end(stream);
        events.wait();
        if (error != cudaSuccess || events.error() != cudaSuccess) {
            m.update(absl::InternalError(cudaGetErrorString(error != cudaSuccess ? error : events.error())));
        }
        return events.microseconds();
    }
#endif
    return microseconds_of([&] {
        std::vector<std::uint64_t> host(bytes.size());
        m.update(bytes.download(host));
        std::exclusive_scan(host.begin(), host.end(), host.begin(), std::uint64_t{0});
        m.update(bytes.upload(host));
    });
}

/// Returns true for the cases that baselines offer: they need all sizes before any block.
inline bool is_for_baselines(const task& t) { return t.what.what == kind::work; }

/// Runs a baseline. `repeat(m, step)` returns the microseconds of one repetition, in which it calls `step(memory_for)`:
/// this launches all, with the array that `memory_for(offsets)` returns, and returns the microseconds of the kernels.
template <class Repeat>
outcome run_baseline(const task& t, const Repeat& repeat) {
    measurement m(t);
    if (!is_for_baselines(t)) {
        m.result.ended = verdict::not_offered;
        return m.finish();
    }
    const std::uint64_t threads = t.what.threads;
    auto bytes = m.array<std::uint64_t>(threads);
    auto out = m.array<void*>(threads);
    device_array<char> scratch;
    m.preload<count_kernel, place_kernel, write_kernel>();
    const auto step = [&](const auto& memory_for) {
        double all = m.time(count_kernel{m.requests(), bytes.data(), threads}, threads);
        all += scan(m, bytes, scratch);
        all += m.time(place_kernel{bytes.data(), memory_for(bytes), out.data(), threads}, threads);
        if (t.what.write) {
            all += m.time(write_kernel{m.requests(), out.data(), threads}, threads);
        }
        return all;
    };
    for (int i = 0; i < t.repeats && m.going(); ++i) {
        m.result.values.push_back(repeat(m, step));
    }
    note(m.result, inspect(m.blocks_of(out, threads)));
    return m.finish();
}

/// Returns the outcome of a task whose array is made anew in each repetition, by the host's clock: the host reads the
/// sum, and then makes the array. That of the repetition before is freed outside the time.
/// @param host  `make(bytes)` returns memory of the device as absl::StatusOr<void*>, ordered on the task's stream;
///              `free(memory, bytes)` gives it back
template <class Host>
outcome run_anew(const task& t, Host host) {
    void* memory = nullptr;
    std::uint64_t bytes = 0;
    const auto release = [&] {
        if (memory != nullptr) {
            host.free(std::exchange(memory, nullptr), bytes);
        }
    };
    const auto make = [&](measurement& m, const device_array<std::uint64_t>& offsets) -> char* {
        std::uint64_t last[1] = {0};
        if (m.going()) {
            m.update(offsets.download(last, offsets.size() - 1));
        }
        if (!m.going()) {
            return nullptr;
        }
        bytes = last[0] + (m.requests().bytes(offsets.size() - 1) + 15) / 16 * 16;
        absl::StatusOr<void*> made = host.make(bytes);
        m.update(made.status());
        memory = made.value_or(nullptr);
        return static_cast<char*>(memory);
    };
    outcome found = run_baseline(t, [&](measurement& m, const auto& step) {
        release();
        return microseconds_of(
            [&] { step([&](const device_array<std::uint64_t>& offsets) { return make(m, offsets); }); });
    });
    release();
    return found;
}

}  // namespace orchard::arena
