// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A five-point stencil over a grid, with one row for each thread: each sweep reads the thread's row and its
/// neighbours' rows and writes another grid.

#include <cstdint>
#include <utility>
#include <vector>

#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/stencil.cuh"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

constexpr std::uint64_t columns_of_scale = 256;  ///< columns for scale 1
constexpr int sweeps = 4;                        ///< launches; the grids change places in between

using namespace kernels::stencil;

}  // namespace

/// Runs the sweeps, and compares the last grid with the same sweeps on the host.
absl::StatusOr<uvm_model::trace> stencil(const parameters& p) {
    const std::uint64_t columns = columns_of_scale * p.scale;
    const std::uint64_t size = p.threads * columns;
    const auto initial = [&](std::uint64_t i) { return value(p, 1, i, 1000); };
    return run_session(p, 8 * size, [&](session& s) {
        auto from = s.array<number>(size, columns, initial);
        auto to = s.array<number>(size, columns, [](std::uint64_t) { return 0; });
        std::vector<std::int64_t> right(size);
        for (std::uint64_t i = 0; i < size; ++i) {
            right[i] = initial(i);
        }
        for (int i = 0; i < sweeps; ++i) {
            s.launch(sweep{from.view(), to.view(), p.threads, columns, 0, columns});
            std::swap(from, to);
            // The same function on the host, on a copy of the grid.
            const std::vector<std::int64_t> before = right;
            const auto grid = [&](std::uint64_t r, std::uint64_t c) {
                return static_cast<std::int32_t>(before[r * columns + c]);
            };
            for (std::uint64_t at = 0; at < size; ++at) {
                right[at] = smoothed(grid, at / columns, at % columns, p.threads, columns);
            }
        }
        s.expect("stencil", s.contents(from, size), right);
    });
}

}  // namespace orchard::applications
