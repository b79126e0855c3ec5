// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// C = A B: a thread has a row of A and of C; B, with eight columns, is distributed over the memory of all threads. A
/// is read once, B is read repeatedly.
///
///     A   own part, in order         the lanes of a warp read the same index of their rows
///     B   all threads read all of it, at the same time
///     C   own part, written once

#include <cstdint>
#include <vector>

#include "profiling/uvm/applications/gemm.cuh"
#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

using namespace kernels::gemm;

constexpr std::uint64_t inner_of_scale = 128;  // columns of A and rows of B, for scale 1

}  // namespace

/// Runs one product, and compares it with three loops on the host.
absl::StatusOr<uvm_model::trace> gemm(const parameters& p) {
    const std::uint64_t inner = inner_of_scale * p.scale;
    const auto of_a = [&](std::uint64_t i) { return signed_value(p, 1, i); };
    const auto of_b = [&](std::uint64_t i) { return signed_value(p, 2, i); };
    const std::uint64_t bytes = 4 * (p.threads * (inner + columns) + inner * columns);
    return run_session(p, bytes, [&](session& s) {
        const auto a = s.array<number>(p.threads * inner, inner, of_a);
        const auto b = s.array<number>(inner * columns, columns, of_b);
        const auto c = s.array<number>(p.threads * columns, columns, [](std::uint64_t) { return 0; });
        s.launch(multiply{a.view(), b.view(), c.view(), p.threads, inner, 0, inner});
        std::vector<std::int64_t> right(p.threads * columns);
        for (std::uint64_t row = 0; row < p.threads; ++row) {
            for (std::uint64_t k = 0; k < inner; ++k) {
                for (std::uint64_t j = 0; j < columns; ++j) {
                    right[row * columns + j] += of_a(row * inner + k) * of_b(k * columns + j);
                }
            }
        }
        s.expect("gemm", s.contents(c, p.threads * columns), right);
    });
}

}  // namespace orchard::applications
