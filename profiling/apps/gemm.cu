// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// C = A B on real memory: A has a row a thread, and as many columns as fit. A pass computes C from the first columns
/// of A and rows of B.
///
/// Check: elements of C, each as the sum of its products from the seed.

#include "profiling/uvm/applications/gemm.cuh"

#include "profiling/apps/app_run.cuh"

namespace orchard::apps {
namespace of_gemm {
namespace {

using namespace applications::kernels::gemm;

struct is_product {
    parts<number> c;
    small_signed a;
    small_signed b;
    std::uint64_t inner;
    std::uint64_t last;  ///< columns of A that were used

    ORCHARD_FN bool operator()(std::uint64_t result) const {
        const std::uint64_t row = result / columns;
        std::int32_t sum = 0;
        for (std::uint64_t k = 0; k < last; ++k) {
            sum += a(row * inner + k) * b(k * columns + result % columns);
        }
        return c[result].get() == sum;
    }
};

}  // namespace
}  // namespace of_gemm

void run_gemm(app_run& s) {
    using namespace of_gemm;
    const std::uint64_t rows = s.threads();
    const std::uint64_t words = s.what().bytes / 4;
    const std::uint64_t inner =
        s.at_least_one(words > columns * rows ? (words - columns * rows) / (rows + columns) : 0, "columns of A");
    const small_signed of_a{s.seed(), 1};
    const small_signed of_b{s.seed(), 2};
    const auto b = s.array<number>(inner * columns, columns, of_b);
    const auto c = s.array<number>(rows * columns, columns, constant{});
    const auto a = s.array<number>(rows * inner, inner, of_a);
    const double accesses = 1 + columns;  // of A, and of a row of B
    const std::uint64_t last = s.passes({inner, accesses, 4 * accesses}, [&](item_range r) {
        s.timed(multiply{a, b, c, rows, inner, r.first, r.last});
    });
    s.check(c, rows * columns, is_product{c, of_a, of_b, inner, last});
}

}  // namespace orchard::apps
