// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The graph cases: Fig. 11f and g of Winter et al.

#include "profiling/arena/graph_kernels.cuh"
#include "profiling/arena/measure_requests.cuh"

namespace orchard::arena {

/// Returns the graph of a case.
inline graph_shape graph_of(const arena_case& c) { return {c.threads, c.rounds, c.pressure}; }

/// Measures the building of all rows (`graph_init`), or an update of them (`graph_update`). Values: microseconds of
/// that kernel. Every row is checked while it is freed.
template <class Owner>
void measure_graph(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    const graph_shape shape = graph_of(m.what());
    const bool update = m.what().what == kind::graph_update;
    auto table = m.array<graph_row>(shape.vertices);
    auto count = m.array<counts>(1);
    m.preload<graph_init_kernel<view>, graph_update_kernel<view>, graph_free_kernel<view>>();
    for (int i = 0; i < m.repeats() && m.going(); ++i) {
        c.empty_if_needed(m);
        const auto run = [&](auto kernel) { return m.time(kernel, shape.vertices); };
        const double built = run(graph_init_kernel<view>{c.owner.ref(), shape, table.data(), count.data()});
        const double updated =
            update ? run(graph_update_kernel<view>{c.owner.ref(), shape, table.data(), count.data()}) : 0;
        m.result.values.push_back(update ? updated : built);
        run(graph_free_kernel<view>{c.owner.ref(), shape, table.data(), count.data()});
    }
    m.note_counts(count);
}

}  // namespace orchard::arena
