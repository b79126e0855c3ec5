// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A sweep of the five-point stencil on real memory: a row of each of two grids a thread. A pass computes the first
/// columns of the second grid from the first one, which stays as it is.
///
/// Check: places of the second grid, from the seed.

#include "profiling/uvm/applications/stencil.cuh"

#include "profiling/apps/app_run.cuh"

namespace orchard::apps {
namespace of_stencil {
namespace {

using namespace applications::kernels::stencil;

struct is_smoothed {
    parts<number> to;
    below initial;
    std::uint64_t rows;
    std::uint64_t columns;
    std::uint64_t last;  ///< columns that were computed

    ORCHARD_FN bool operator()(std::uint64_t result) const {
        const std::uint64_t row = result / last;
        const std::uint64_t column = result % last;
        const below first = initial;
        const std::uint64_t width = columns;
        const auto grid = [first, width](std::uint64_t r, std::uint64_t c) { return first(r * width + c); };
        return to[row * columns + column].get() == smoothed(grid, row, column, rows, columns);
    }
};

}  // namespace
}  // namespace of_stencil

void run_stencil(app_run& s) {
    using namespace of_stencil;
    const std::uint64_t rows = s.threads();
    const std::uint64_t columns = s.at_least_one(s.what().bytes / (8 * rows), "columns of the grid");
    const below initial{s.seed(), 1, 1000};
    const auto from = s.array<number>(rows * columns, columns, initial);
    const auto to = s.array<number>(rows * columns, columns, constant{});
    const double accesses = 6;  // five are read
    const std::uint64_t last = s.passes({columns, accesses, 4 * accesses}, [&](item_range r) {
        s.timed(sweep{from, to, rows, columns, r.first, r.last});
    });
    s.check(to, rows * last, is_smoothed{to, initial, rows, columns, last});
}

}  // namespace orchard::apps
