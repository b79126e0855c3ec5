// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Cases of several requests a thread: churn, lists, realloc, and blocks that another thread frees.

#include "profiling/arena/measure_requests.cuh"

namespace orchard::arena {

/// Measures rounds of malloc, write and free in one kernel. Values: microseconds of the kernel.
template <class Owner>
void measure_churn(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    const std::uint64_t threads = m.what().threads;
    auto count = m.array<counts>(1);
    m.preload<churn_kernel<view>>();
    const auto kernel = [&](bool check) {
        return churn_kernel<view>{c.owner.ref(), m.requests(), m.what().rounds, threads, check, count.data()};
    };
    for (int i = 0; i < m.repeats() && m.going(); ++i) {
        c.empty_if_needed(m);
        m.result.values.push_back(m.time(kernel(false), threads));
    }
    c.empty_if_needed(m);
    m.time(kernel(true), threads);
    m.note_counts(count);
}

/// Measures the building of lists. Values: microseconds of that kernel. Every list is checked while it is freed.
template <class Owner>
void measure_lists(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    const std::uint64_t threads = m.what().threads;
    const std::uint32_t longest = m.what().rounds;
    auto out = m.array<void*>(threads);
    auto count = m.array<counts>(1);
    m.preload<build_lists_kernel<view>, free_lists_kernel<view>>();
    for (int i = 0; i < m.repeats() && m.going(); ++i) {
        c.empty_if_needed(m);
        m.result.values.push_back(
            m.time(build_lists_kernel<view>{c.owner.ref(), m.requests(), longest, out.data(), threads, count.data()},
                   threads));
        m.time(free_lists_kernel<view>{c.owner.ref(), longest, out.data(), threads, count.data()}, threads);
    }
    m.note_counts(count);
}

/// Measures blocks that double by realloc. Values: microseconds of that kernel. Not offered by views without realloc.
template <class Owner>
void measure_grow(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    if constexpr (requires(const view v, void* p) { v.realloc(p, std::uint64_t{1}); }) {
        const std::uint64_t threads = m.what().threads;
        auto out = m.array<void*>(threads);
        auto count = m.array<counts>(1);
        m.preload<grow_kernel<view>, free_kernel<view>>();
        for (int i = 0; i < m.repeats() && m.going(); ++i) {
            c.empty_if_needed(m);
            m.result.values.push_back(m.time(
                grow_kernel<view>{c.owner.ref(), m.what().least, m.what().rounds, out.data(), threads, count.data()},
                threads));
            m.time(free_kernel<view>{c.owner.ref(), out.data(), threads}, threads);
        }
        m.note_counts(count);
    } else {
        m.result.ended = verdict::not_offered;
    }
}

/// Measures blocks that one warp allocates and another one frees. Values: microseconds of the kernel.
template <class Owner>
void measure_handover(measurement& m, const contestant<Owner>& c) {
    using kernel = handover_kernel<decltype(c.owner.ref())>;
    const std::uint64_t threads =
        (m.what().threads + kernel::block_threads - 1) / kernel::block_threads * std::uint64_t{kernel::block_threads};
    auto slots = m.array<simt::device_word<std::uint64_t>>(threads / 2);
    auto count = m.array<counts>(1);
    m.preload<kernel>();
    for (int i = 0; i < m.repeats() && m.going(); ++i) {
        c.empty_if_needed(m);
        m.result.values.push_back(
            m.time(kernel{c.owner.ref(), m.requests(), m.what().rounds, slots.data(), count.data()}, threads,
                   kernel::block_threads));
    }
    m.note_counts(count);
}

}  // namespace orchard::arena
