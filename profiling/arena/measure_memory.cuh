// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Cases of the memory as a whole: until it is used up (Winter et al., Fig. 11b), the same while half of the blocks are
/// freed (Ouroboros, Fig. 3), and how long it takes to prepare (Sec. 4.1).

#include "profiling/arena/measure_requests.cuh"

namespace orchard::arena {

/// Allocates blocks, a launch at a time, until a launch is refused one. Returns how many there are; they are the first
/// ones of `out`.
template <class Owner>
std::uint64_t fill(measurement& m, const contestant<Owner>& c, device_array<void*>& out) {
    using view = decltype(c.owner.ref());
    const std::uint64_t step = m.what().threads;
    std::vector<void*> host(step);
    std::uint64_t held = 0;
    while (m.going() && held < out.size()) {
        const std::uint64_t threads = std::min(step, out.size() - held);
        m.time(allocate_kernel<view>{c.owner.ref(), m.requests(), out.data() + held, threads}, threads);
        host.resize(threads);
        if (m.going()) {
            m.update(out.download(host, held));
        }
        const auto nulls = std::stable_partition(host.begin(), host.end(), [](const void* p) { return p != nullptr; });
        const auto more = static_cast<std::uint64_t>(nulls - host.begin());
        if (more == threads) {
            held += more;
            continue;
        }
        // The blocks of the last launch lie together, so that all that are held can be freed.
        if (m.going()) {
            m.update(out.upload(host, held));
        }
        return held + more;
    }
    return held;
}

/// Fills the memory, frees all, and fills it again. Value: the percentage of the memory that was asked for. A leak: the
/// second time less than 95 % of the blocks of the first.
template <class Owner>
void measure_fill(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    m.result.unit = "percent";
    const std::uint64_t bytes = m.what().least;
    // An allocator that gives more than there is overlaps, and ends here, too.
    auto out = m.array<void*>(m.memory() / bytes + 1);
    m.preload<allocate_kernel<view>, free_kernel<view>>();
    const std::uint64_t first = fill(m, c, out);
    note(m.result, inspect(m.blocks_of(out, first)));
    m.result.values.push_back(100.0 * static_cast<double>(first * bytes) / static_cast<double>(m.memory()));
    m.time(free_kernel<view>{c.owner.ref(), out.data(), first}, first);
    c.empty_if_needed(m);
    const std::uint64_t second = fill(m, c, out);
    if (m.going() && second < first - first / 20) {
        m.result.fault(verdict::leak, "after all blocks were freed, " + std::to_string(second) + " blocks of " +
                                          std::to_string(first) + " can be had");
    }
    m.time(free_kernel<view>{c.owner.ref(), out.data(), second}, second);
}

/// Allocates `threads` blocks and frees every second one, until a launch is refused a block. Value: the blocks that
/// were left before that launch, as the percentage of the memory that was asked for in them; Ouroboros's paper counts
/// these launches. Not offered where `free` gives nothing back. Blocks that stay are not looked at again: those of the
/// first and of each hundredth launch are checked by themselves, and more bytes than there are is an overlap.
template <class Owner>
void measure_growth(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    if (!c.frees) {
        m.result.ended = verdict::not_offered;
        return;
    }
    m.result.unit = "percent";
    const std::uint64_t threads = m.what().threads;
    const std::uint64_t left_bytes = threads / 2 * m.what().least;
    auto out = m.array<void*>(threads);
    auto count = m.array<counts>(1);
    counts found[1];
    m.preload<allocate_kernel<view>, free_half_kernel<view>>();
    std::uint64_t held = 0;
    while (m.going() && held <= m.memory()) {
        m.time(allocate_kernel<view>{c.owner.ref(), m.requests(), out.data(), threads}, threads);
        m.time(free_half_kernel<view>{c.owner.ref(), out.data(), threads, count.data()}, threads);
        if (m.going()) {
            m.update(count.download(found));
        }
        if (!m.going() || found[0].nulls.load<order::relaxed>() != 0) {
            break;
        }
        held += left_bytes;
        // The check sorts, which takes longer than the kernels.
        if (held / left_bytes % 100 == 1) {
            note(m.result, inspect(m.blocks_of(out, threads)));
        }
    }
    if (held == 0) {
        m.result.fault(verdict::null, "requests gave null where all memory is free");
    }
    if (held > m.memory()) {
        m.result.fault(verdict::overlap, "more blocks are in use than the memory has room for");
    }
    m.result.values.push_back(100.0 * static_cast<double>(held) / static_cast<double>(m.memory()));
}

/// Measures `initialise()`, by the host's clock; not offered where it is unimplemented.
template <class Owner>
void measure_initialise(measurement& m, const contestant<Owner>& c) {
    for (int i = 0; i < m.repeats() && m.going(); ++i) {
        bool done = false;
        m.result.values.push_back(microseconds_of([&] { done = c.empty(m); }));
        if (!done) {
            m.result.values.clear();
            m.result.ended = verdict::not_offered;
            return;
        }
    }
}

}  // namespace orchard::arena
