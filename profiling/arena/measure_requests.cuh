// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Cases of one request a thread: Figures 9, 10 and 11 a, c, d, e of Winter et al. A repetition is a kernel that
/// allocates and a kernel that frees. The checks are repetitions of their own behind the timed ones.

#include "profiling/arena/measurement.hpp"

namespace orchard::arena {

/// An allocator under test: its owner, and whether its `free` gives memory back. One that frees nothing is emptied
/// before each repetition.
template <class Owner>
struct contestant {
    Owner& owner;
    bool frees;

    /// Returns true if the allocator could be emptied; false if it has no way to.
    bool empty(measurement& m) const {
        if (!m.going()) {
            return false;
        }
        const absl::Status s = owner.initialise();
        if (!absl::IsUnimplemented(s)) {
            m.update(s);
        }
        return s.ok();
    }
    void empty_if_needed(measurement& m) const {
        if (!frees) {
            empty(m);
        }
    }
};

/// Allocates once more, and checks the blocks: by their addresses on the host, and by what kernels write into them.
template <class Owner>
void check_requests(measurement& m, const contestant<Owner>& c, device_array<void*>& out) {
    using view = decltype(c.owner.ref());
    c.empty_if_needed(m);
    const std::uint64_t threads = m.what().threads;
    auto count = m.array<counts>(1);
    m.time(allocate_kernel<view>{c.owner.ref(), m.requests(), out.data(), threads}, threads);
    const findings found = inspect(m.blocks_of(out, threads));
    note(m.result, found);
    if (m.result.ended == verdict::ok || m.result.ended == verdict::null) {  // other blocks may not be written
        m.time(write_kernel{m.requests(), out.data(), threads}, threads);
        m.time(verify_kernel{m.requests(), out.data(), threads, count.data()}, threads);
        m.note_counts(count);
    }
    if (m.what().what == kind::range && m.going() && found.bytes != 0) {
        m.result.values.push_back(static_cast<double>(found.span) / static_cast<double>(found.bytes));
    }
    m.time(free_kernel<view>{c.owner.ref(), out.data(), threads}, threads);
}

/// Measures a request and a free of each thread: `malloc_time`, `free_time`, `range`, `work`. Values: microseconds of
/// the kernel; of `range` the bytes between the lowest and the highest block over those asked for, at least 1.
template <class Owner>
void measure_requests(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    const std::uint64_t threads = m.what().threads;
    auto out = m.array<void*>(threads);
    m.preload<allocate_kernel<view>, free_kernel<view>, write_kernel>();
    const bool timed = m.what().what != kind::range;
    for (int i = 0; i < m.repeats() && m.going() && timed; ++i) {
        c.empty_if_needed(m);
        if (m.what().fresh && c.frees && !c.empty(m) && m.going()) {
            m.result.values.clear();
            m.result.ended = verdict::not_offered;
            return;
        }
        double asked = m.time(allocate_kernel<view>{c.owner.ref(), m.requests(), out.data(), threads}, threads);
        if (m.what().write) {
            asked += m.time(write_kernel{m.requests(), out.data(), threads}, threads);
        }
        const double freed = m.time(free_kernel<view>{c.owner.ref(), out.data(), threads}, threads);
        m.result.values.push_back(m.what().what == kind::free_time ? freed : asked);
    }
    if (!timed) {
        m.result.unit = "ratio";
        for (int i = 0; i < m.repeats() && m.going(); ++i) {
            check_requests(m, c, out);
        }
        return;
    }
    check_requests(m, c, out);  // settled
    if (c.empty(m)) {
        check_requests(m, c, out);
    }
}

}  // namespace orchard::arena
