// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A sparse matrix times a vector, twice: a thread has some rows; the elements of the vector that it needs lie
/// anywhere.

#include <cstdint>
#include <utility>
#include <vector>

#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/spmv.cuh"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

constexpr std::uint64_t rows_of_scale = 16;  // of a thread
constexpr int rounds = 2;
using namespace kernels::spmv;

/// Runs the rounds, and compares the last vector. The result of a round is the vector of the next one.
void multiply(session& s, const parameters& p, const uvm_model::csr& matrix) {
    const auto of_values = [&](std::uint64_t i) { return signed_value(p, 1, i); };
    const auto of_vector = [&](std::uint64_t i) { return signed_value(p, 2, i); };
    const dealt_graph dealt(s, matrix);
    const auto values = s.array<number>(matrix.edges(), 1, of_values);
    auto from = s.array<number>(matrix.vertices(), 1, of_vector);
    auto to = s.array<number>(matrix.vertices(), 1, [](std::uint64_t) { return 0; });
    std::vector<std::int64_t> right(matrix.vertices());
    for (std::uint64_t i = 0; i < right.size(); ++i) {
        right[i] = of_vector(i);
    }
    const std::uint64_t each = rows_of_scale * p.scale;
    for (int i = 0; i < rounds; ++i) {
        s.launch(multiply_rows<std::uint32_t>{dealt.view(), values.view(), from.view(), to.view(), p.threads, each, 0,
                                              each});
        // After the swap, `from` is the newest vector.
        std::swap(from, to);
        // The same product on the host, with the values computed anew.
        const std::vector<std::int64_t> before = right;
        for (std::uint64_t row = 0; row < right.size(); ++row) {
            std::int64_t sum = 0;
            for (std::uint64_t e = matrix.begin[row]; e < matrix.begin[row + 1]; ++e) {
                sum += of_values(e) * before[matrix.to[e]];
            }
            right[row] = sum & kept_bits;
        }
    }
    s.expect("spmv", s.contents(from, matrix.vertices()), right);
}

}  // namespace

absl::StatusOr<uvm_model::trace> spmv(const parameters& p) {
    const absl::StatusOr<uvm_model::csr> matrix = make_graph(p, rows_of_scale * p.scale);
    if (!matrix.ok()) {
        return matrix.status();
    }
    const std::uint64_t bytes = bytes_of(*matrix) + 4 * matrix->edges() + 8 * matrix->vertices();
    return run_session(p, bytes, [&](session& s) { multiply(s, p, *matrix); });
}

}  // namespace orchard::applications
