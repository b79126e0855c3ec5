// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The graph cases: Fig. 11f and g of Winter et al.

#include "profiling/arena/graph_kernels.cuh"
#include "profiling/arena/measure_requests.cuh"

namespace orchard::arena {

/// Measures the building of all rows (`graph_init`), an update of them (`graph_update`), or as many as the case has
/// rounds (`graph_expand`). Values: microseconds of these kernels. Every row is checked while it is freed.
template <class Owner>
void measure_graph(measurement& m, const contestant<Owner>& c) {
    using view = decltype(c.owner.ref());
    const graph_shape shape = graph_of(m.what());
    const std::uint32_t updates = m.what().what == kind::graph_init     ? 0
                                  : m.what().what == kind::graph_update ? 1
                                                                        : m.what().rounds;
    auto table = m.array<graph_row>(shape.vertices);
    auto count = m.array<counts>(1);
    m.preload<graph_init_kernel<view>, graph_update_kernel<view>, graph_free_kernel<view>>();
    for (int i = 0; i < m.repeats() && m.going(); ++i) {
        c.empty_if_needed(m);
        const auto run = [&](auto kernel) { return m.time(kernel, shape.vertices); };
        const double built = run(graph_init_kernel<view>{c.owner.ref(), shape, table.data(), count.data()});
        double updated = 0;
        for (std::uint32_t k = 0; k < updates; ++k) {
            updated += run(graph_update_kernel<view>{c.owner.ref(), shape, table.data(), count.data()});
        }
        m.result.values.push_back(updates != 0 ? updated : built);
        run(graph_free_kernel<view>{c.owner.ref(), shape, table.data(), count.data()});
    }
    m.note_counts(count);
}

}  // namespace orchard::arena
