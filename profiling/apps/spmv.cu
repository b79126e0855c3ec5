// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A sparse matrix times a vector on real memory: a matrix with eight elements a row, whose columns are the neighbours
/// in a random graph. A pass computes the first rows of each thread.
///
/// Check: elements of the product, from the seed.

#include "profiling/uvm/applications/spmv.cuh"

#include "profiling/apps/app_run.cuh"
#include "profiling/apps/generated_graph.cuh"

namespace orchard::apps {
namespace of_spmv {
namespace {

using namespace applications::kernels::spmv;

struct is_row_product {
    parts<number> to;
    random_graph graph;
    small_signed values;
    small_signed vector;
    std::uint64_t each;  ///< rows of a thread
    std::uint64_t last;  ///< those that were computed

    ORCHARD_FN bool operator()(std::uint64_t result) const {
        const std::uint64_t row = result / last * each + result % last;
        std::int32_t sum = 0;
        for (std::uint32_t j = 0; j < random_graph::degree; ++j) {
            sum += values(row * random_graph::degree + j) * vector(graph.neighbour(row, j));
        }
        return to[row].get() == (sum & kept_bits);
    }
};

}  // namespace
}  // namespace of_spmv

void run_spmv(app_run& s) {
    using namespace of_spmv;
    constexpr std::uint64_t row_bytes = list_bytes + 4 * random_graph::degree + 8;
    const std::uint64_t threads = s.threads();
    const std::uint64_t each = s.at_least_one(s.what().bytes / (row_bytes * threads), "rows");
    const random_graph graph = make_graph(s, threads * each);
    const small_signed of_values{s.seed(), 1};
    const small_signed of_vector{s.seed(), 2};
    const auto from = s.array<number>(threads * each, 1, of_vector);
    const auto to = s.array<number>(threads * each, 1, constant{});
    const auto dealt = deal_graph(s, graph);
    const auto values = s.array<number>(threads * each * random_graph::degree, random_graph::degree, of_values);
    // The ends of the list; value, column and factor of each element; the result.
    const double accesses = 2 + 3 * random_graph::degree + 1;
    const double bytes = 2 * 8 + 4 * (3 * random_graph::degree + 1);
    const std::uint64_t last = s.passes({each, accesses, bytes}, [&](item_range r) {
        s.timed(multiply_rows<std::uint64_t>{dealt, values, from, to, threads, each, r.first, r.last});
    });
    s.check(to, threads * last, is_row_product{to, graph, of_values, of_vector, each, last});
}

}  // namespace orchard::apps
