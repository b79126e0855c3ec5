// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernel of `gemm`: C = A B, where a thread has a row of A and of C.

#include <cstdint>

#include "profiling/uvm/applications/parts.cuh"

namespace orchard::applications::kernels::gemm {

inline constexpr std::uint64_t columns = 8;  ///< of B and C

/// Thread t adds to row t of C the products of columns `first` to `last` - 1 of A, in registers until the end. A launch
/// whose `first` is 0 begins with zeros.
struct multiply {
    parts<number> a;      ///< [rows][inner]
    parts<number> b;      ///< [inner][columns]
    parts<number> c;      ///< [rows][columns]
    std::uint64_t rows;   ///< of A and C: one for each thread
    std::uint64_t inner;  ///< columns of A, rows of B
    std::uint64_t first;  ///< of the columns of this launch
    std::uint64_t last;   ///< behind them

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t row = at.global_thread();
        if (row >= rows) {
            return;
        }
        // All columns at once, so that A is read once.
        std::int32_t sums[columns] = {};
        for (std::uint64_t j = 0; first != 0 && j < columns; ++j) {
            sums[j] = c[row * columns + j].get();
        }
        for (std::uint64_t k = first; k < last; ++k) {
            const std::int32_t factor = a[row * inner + k].get();
            for (std::uint64_t j = 0; j < columns; ++j) {
                sums[j] += factor * b[k * columns + j].get();
            }
        }
        for (std::uint64_t j = 0; j < columns; ++j) {
            c[row * columns + j].set(sums[j]);
        }
    }
};

}  // namespace orchard::applications::kernels::gemm
