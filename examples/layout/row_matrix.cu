// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A matrix whose rows belong to threads; each row is as long as its thread requires. Threads fill and add up their own
/// rows in pieces that are contiguous in memory. Then one thread for each column reads from all rows.
///
///     row 0    | . |                        1 element          2,200 rows, up to 250 columns
///     row 1    | . . . ... |               14 elements
///     row 2    | . . . ... . . |           27 elements
///
///     kernel 1    fill_rows: thread r makes row r, by tiles
///     kernel 2    add_columns: thread c reads element c of every row that is long enough
///     kernel 3    free_rows
///
/// A `lane_array` is an address, a length and the layout: it is copied to other threads like a pointer.

#include <cstdint>
#include <orchard/device.cuh>
#include <orchard/heap.hpp>
#include <vector>

#include "absl/strings/str_format.h"
#include "examples/layout/examples.hpp"
#include "runtime/cli/program_heap.hpp"

namespace orchard::examples {
namespace {

// Neither is a multiple of a warp or of a block: the last warp is not full, and some threads have no row.
constexpr std::uint64_t matrix_rows = 2'200;
constexpr std::uint64_t matrix_columns = 250;

/// Return the number of elements of row `r`, 1 to `matrix_columns`, and the value in column `c` of row `r`.
ORCHARD_FN constexpr std::uint64_t row_length(std::uint64_t r) { return 1 + r * 13 % matrix_columns; }
ORCHARD_FN constexpr std::uint32_t value_of(std::uint64_t r, std::uint64_t c) {
    return static_cast<std::uint32_t>(r * 1'000 + c);
}

using row = lane_array<std::uint32_t>;

/// Thread r makes and fills row r, and adds it up. With tiles of 16 B each piece but the last has four elements.
struct fill_rows {
    heap_ref heap;
    row* rows;
    std::uint64_t* row_sums;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t r = at.global_thread();
        if (r >= matrix_rows) {
            return;
        }
        // Lanes ask for different lengths; those without memory get an empty array, over which the loops below do
        // nothing.
        const row mine = heap.allocate_array<std::uint32_t>(row_length(r), layout::interleaved(tile::b16));
        mine.for_each_tile([r](tile_span<std::uint32_t> piece) {
            for (std::uint64_t n = 0; n < piece.size(); ++n) {
                piece[n] = value_of(r, piece.first + n);
            }
        });
        std::uint64_t sum = 0;
        mine.for_each_tile([&sum](tile_span<std::uint32_t> piece) {
            // A piece is contiguous: it can be read as any range.
            for (const std::uint32_t value : piece) {
                sum += value;
            }
        });
        rows[r] = mine;
        row_sums[r] = sum;
    }
};

/// Thread c adds up column c, in rows that other threads made.
struct add_columns {
    const row* rows;
    std::uint64_t* column_sums;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t c = at.global_thread();
        if (c >= matrix_columns) {
            return;
        }
        std::uint64_t sum = 0;
        for (std::uint64_t r = 0; r < matrix_rows; ++r) {
            // The address of an element is computed, whichever thread owns the row.
            sum += c < rows[r].size() ? rows[r][c] : 0;
        }
        column_sums[c] = sum;
    }
};

/// Frees the rows; the row's own thread does it here, but any thread may.
struct free_rows {
    heap_ref heap;
    const row* rows;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() < matrix_rows) {
            heap.free_array(rows[at.global_thread()]);
        }
    }
};

/// Compares the sums with those of the same matrix on the host. Errors: Internal, with the first wrong sum.
absl::Status check(const std::vector<std::uint64_t>& row_sums, const std::vector<std::uint64_t>& column_sums) {
    std::vector<std::uint64_t> right_columns(matrix_columns);
    for (std::uint64_t r = 0; r < matrix_rows; ++r) {
        std::uint64_t right = 0;
        for (std::uint64_t c = 0; c < row_length(r); ++c) {
            right += value_of(r, c);
            right_columns[c] += value_of(r, c);
        }
        if (row_sums[r] != right) {
            return absl::InternalError(absl::StrFormat("the sum of row %d is %d, not %d", r, row_sums[r], right));
        }
    }
    for (std::uint64_t c = 0; c < matrix_columns; ++c) {
        if (column_sums[c] != right_columns[c]) {
            return absl::InternalError(
                absl::StrFormat("the sum of column %d is %d, not %d", c, column_sums[c], right_columns[c]));
        }
    }
    return absl::OkStatus();
}

}  // namespace

absl::StatusOr<statistics> row_matrix(const options& values) {
    absl::StatusOr<heap> heap = command_line::create_heap(values);
    if (!heap.ok()) {
        return heap.status();
    }
    auto rows = device_array<row>::create(heap->executor(), matrix_rows);
    auto row_sums = device_array<std::uint64_t>::create(heap->executor(), matrix_rows);
    auto column_sums = device_array<std::uint64_t>::create(heap->executor(), matrix_columns);
    absl::Status status = rows.status();
    status.Update(row_sums.status());
    status.Update(column_sums.status());
    if (!status.ok()) {
        return status;
    }
    status.Update(run(*heap, matrix_rows, fill_rows{heap->ref(), rows->data(), row_sums->data()}));
    status.Update(run(*heap, matrix_columns, add_columns{rows->data(), column_sums->data()}));
    status.Update(run(*heap, matrix_rows, free_rows{heap->ref(), rows->data()}));
    std::vector<std::uint64_t> row_sums_found(matrix_rows);
    std::vector<std::uint64_t> column_sums_found(matrix_columns);
    status.Update(row_sums->download(row_sums_found));
    status.Update(column_sums->download(column_sums_found));
    if (status.ok()) {
        status.Update(check(row_sums_found, column_sums_found));
    }
    if (!status.ok()) {
        return status;
    }
    return heap->stats();
}

}  // namespace orchard::examples
