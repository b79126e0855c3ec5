// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Cases of blocks that stay while others are allocated, of several streams, and of what has no time.

#include <thread>

#include "profiling/arena/measure_memory.cuh"
#if ORCHARD_CUDA_SOURCE
#include <cuda_runtime_api.h>
#endif

namespace orchard::arena {

/// Measures several blocks of a thread that stay (`keep`). Values: microseconds of the kernel.
template <class Owner>
void measure_keep(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    const std::uint64_t threads = m.what().threads;
    const std::uint32_t each = m.what().rounds;
    auto out = m.array<void*>(threads * each);
    m.preload<keep_kernel<view>, free_kernel<view>>();
    for (int i = 0; i < m.repeats() && m.going(); ++i) {
        c.empty_if_needed(m);
        m.result.values.push_back(
            m.time(keep_kernel<view>{c.owner.ref(), m.requests(), each, out.data(), threads}, threads));
        if (i + 1 == m.repeats()) {
            note(m.result, inspect(m.blocks_of(out, out.size(), each)));
        }
        m.time(free_kernel<view>{c.owner.ref(), out.data(), out.size()}, out.size());
    }
}

/// Fills the memory, frees a random share of the blocks, and measures requests of that size (`nearly_full`); they are
/// freed before the next repetition. Values: microseconds of the kernel that allocates.
template <class Owner>
void measure_nearly_full(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    if (!c.frees) {
        m.result.ended = verdict::not_offered;
        return;
    }
    const std::uint64_t threads = m.what().threads;
    auto held = m.array<void*>(m.memory() / m.what().least + 1);
    auto out = m.array<void*>(threads);
    m.preload<allocate_kernel<view>, free_kernel<view>, free_share_kernel<view>>();
    const std::uint64_t blocks = fill(m, c, held);
    m.time(free_share_kernel<view>{c.owner.ref(), held.data(), blocks, m.what().free_per_mille}, blocks);
    for (int i = 0; i < m.repeats() && m.going(); ++i) {
        m.result.values.push_back(
            m.time(allocate_kernel<view>{c.owner.ref(), m.requests(), out.data(), threads}, threads));
        if (i + 1 == m.repeats()) {
            std::vector<block> all = m.blocks_of(out, threads);
            note(m.result, inspect(all));
            // With those that were there before: the ones that are null were freed.
            std::vector<block> before = m.blocks_of(held, blocks);
            std::erase_if(before, [](const block& b) { return b.address == 0; });
            all.insert(all.end(), before.begin(), before.end());
            note(m.result, inspect(std::move(all)));
        }
        m.time(free_kernel<view>{c.owner.ref(), out.data(), threads}, threads);
    }
    m.time(free_kernel<view>{c.owner.ref(), held.data(), blocks}, blocks);
}

/// Measures threads that fill or empty one of their slots at random (`turn_over`), a launch a repetition; about half of
/// the slots are full. Values: microseconds of the kernel. Blocks are checked when they are freed.
template <class Owner>
void measure_turn_over(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    if (!c.frees) {
        m.result.ended = verdict::not_offered;
        return;
    }
    const std::uint64_t threads = m.what().threads;
    const std::uint32_t slots = m.what().rounds;
    auto out = m.array<void*>(threads * slots);
    auto count = m.array<counts>(1);
    m.preload<turn_over_kernel<view>, free_kernel<view>>();
    for (int i = 0; i < m.repeats() && m.going(); ++i) {
        const auto round = static_cast<std::uint32_t>(i);
        m.result.values.push_back(
            m.time(turn_over_kernel<view>{c.owner.ref(), m.requests(), slots, round, out.data(), threads, count.data()},
                   threads));
    }
    m.time(free_kernel<view>{c.owner.ref(), out.data(), out.size()}, out.size());
    m.note_counts(count);
}

/// An executor with a stream of its own; on the emulated device the executor alone.
class own_stream {
public:
    explicit own_stream(measurement& m) : on_{m.on()} {
#if ORCHARD_CUDA_SOURCE
        if (on_.kind == simt::device_kind::cuda && m.going()) {
            cudaStream_t made = nullptr;
            const cudaError_t error = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
            if (error != cudaSuccess) {
                m.update(absl::InternalError(cudaGetErrorString(error)));
            }
            stream_ = made;
            on_.stream = made;
        }
#endif
    }
    own_stream(const own_stream&) = delete;
    own_stream& operator=(const own_stream&) = delete;
    ~own_stream() {
#if ORCHARD_CUDA_SOURCE
        if (stream_ != nullptr) {
            cudaStreamDestroy(static_cast<cudaStream_t>(stream_));
        }
#endif
    }
    [[nodiscard]] const simt::executor& on() const { return on_; }

private:
    simt::executor on_;
    void* stream_ = nullptr;
};

/// Measures two kernels of half the threads each, on two streams at once (`streams`). Values: microseconds of the
/// longer one.
template <class Owner>
void measure_streams(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    const std::uint64_t threads = m.what().threads;
    const std::uint64_t half = threads / 2;
    auto out = m.array<void*>(half * 2);
    const own_stream streams[2] = {own_stream(m), own_stream(m)};
    m.preload<allocate_kernel<view>, free_kernel<view>>();
    for (int i = 0; i < m.repeats() && m.going(); ++i) {
        c.empty_if_needed(m);
        simt::launch_result ended[2];
        const auto run = [&](int k) {
            ended[k] = simt::launch(streams[k].on(), simt::grid_for(half),
                                    allocate_kernel<view>{c.owner.ref(), m.requests(), out.data() + k * half, half});
        };
        std::thread other(run, 1);
        run(0);
        other.join();
        m.update(to_status(ended[0]));
        m.update(to_status(ended[1]));
        m.result.values.push_back(std::max(ended[0].microseconds, ended[1].microseconds));
        if (i + 1 == m.repeats()) {
            note(m.result, inspect(m.blocks_of(out, half * 2)));
        }
        m.time(free_kernel<view>{c.owner.ref(), out.data(), half * 2}, half * 2);
    }
}

/// Notes the registers of a thread of `Kernel`; not offered on the emulated device, which has none.
template <class Kernel>
void note_registers(measurement& m) {
    m.result.unit = "registers";
#if ORCHARD_CUDA_SOURCE
    if (m.on().kind == simt::device_kind::cuda) {
        cudaFuncAttributes found{};
        const cudaError_t error = cudaFuncGetAttributes(&found, simt::detail::entry_of<Kernel>());
        if (error != cudaSuccess) {
            m.update(absl::InternalError(cudaGetErrorString(error)));
            return;
        }
        m.result.values.push_back(found.numRegs);
        return;
    }
#endif
    m.result.ended = verdict::not_offered;
}

/// Measures additions to one word (`atomics`). Values: microseconds of the kernel.
inline void measure_atomics(measurement& m) {
    const std::uint64_t threads = m.what().threads;
    auto word = m.array<simt::device_word<std::uint64_t>>(1);
    auto out = m.array<std::uint64_t>(threads);
    m.preload<add_kernel>();
    for (int i = 0; i < m.repeats() && m.going(); ++i) {
        m.result.values.push_back(m.time(add_kernel{word.data(), out.data(), threads}, threads));
    }
}

}  // namespace orchard::arena
