// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernel of `stencil`: one sweep of a five-point stencil, where a thread has a row.

#include <cstdint>

#include "profiling/uvm/applications/parts.cuh"

namespace orchard::applications::kernels::stencil {

/// Returns the mean of a place, which counts four times, and its neighbours; at the border a place is its own
/// neighbour. `at(row, column)` is the grid.
template <class Grid>
ORCHARD_FN std::int32_t smoothed(const Grid& at, std::uint64_t row, std::uint64_t column, std::uint64_t rows,
                                 std::uint64_t columns) {
    const std::int32_t up = at(row == 0 ? row : row - 1, column);
    const std::int32_t down = at(row + 1 == rows ? row : row + 1, column);
    const std::int32_t left = at(row, column == 0 ? column : column - 1);
    const std::int32_t right = at(row, column + 1 == columns ? column : column + 1);
    return (4 * at(row, column) + up + down + left + right) / 8;
}

/// One sweep: thread t computes columns `first` to `last` - 1 of row t of the new grid.
struct sweep {
    parts<number> from;  ///< [rows][columns], the grid before the sweep
    parts<number> to;    ///< [rows][columns], the grid after it
    std::uint64_t rows;  ///< one for each thread
    std::uint64_t columns;
    std::uint64_t first;  ///< of the columns of this launch
    std::uint64_t last;   ///< behind them

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t row = at.global_thread();
        if (row >= rows) {
            return;
        }
        // Reads of the rows above and below go to the memory of other threads.
        const auto grid = [&](std::uint64_t r, std::uint64_t c) { return from[r * columns + c].get(); };
        for (std::uint64_t c = first; c < last; ++c) {
            to[row * columns + c].set(smoothed(grid, row, c, rows, columns));
        }
    }
};

}  // namespace orchard::applications::kernels::stencil
