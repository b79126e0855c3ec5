// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernel of `spmv`: the rows of a sparse matrix times a vector.

#include <cstdint>

#include "profiling/uvm/applications/graph_view.cuh"

namespace orchard::applications::kernels::spmv {

/// The bits of a result that are kept as the next round's factor, so that sums stay small.
inline constexpr std::int32_t kept_bits = 15;

/// Thread t computes its rows `first` to `last` - 1. Lists of rows have different lengths, so that lanes leave the
/// inner loop one by one.
template <class Edge>
struct multiply_rows {
    graph_view<Edge> matrix;  // row r has elements in the columns of its list
    parts<number> values;     ///< [edges], of the matrix's elements
    parts<number> from;       ///< [vertices], the vector
    parts<number> to;         ///< [vertices], the product
    std::uint64_t threads;
    std::uint64_t each;   ///< rows of a thread
    std::uint64_t first;  ///< of each thread's rows of this launch
    std::uint64_t last;   ///< behind them

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        for (std::uint64_t row = t * each + first; t < threads && row < t * each + last; ++row) {
            std::int32_t sum = 0;
            const Edge end = matrix.begin[row + 1].get();
            for (Edge e = matrix.begin[row].get(); e < end; ++e) {
                // The column is read from the list first; then the vector's element, which may lie in any thread's
                // part.
                sum += values[e].get() * from[matrix.to[e].get()].get();
            }
            // The lanes meet, so that the write is one step of the warp.
            reconverge();
            to[row].set(sum & kept_bits);
        }
    }
};

}  // namespace orchard::applications::kernels::spmv
