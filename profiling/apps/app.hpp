// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The eight applications of Zhang et al., AlignMalloc (TPDS 2025), section VII-I, on real memory: `orchard apps`.
/// Their kernels are those of profiling/uvm/applications, which records them for the model of the driver's paging. Here
/// they run on a GPU, with arrays of many GiB, or on the emulated device, with small ones.
///
///     run_app    each thread allocates its part of each array -> a kernel fills them from the seed
///                -> passes (timed); between two of them memory may move -> a kernel checks a sample -> free ->
///                validate
///
/// The arrays of an application are those of the recorded one, with these differences, since they may be larger than
/// 2^32 elements and since nothing is made on the host:
///
///     numbers of edges, keys and nodes' words, sums of k-means    64 bits
///     graphs       8 neighbours of each vertex, by eight random matchings of the vertices (generated_graph.cuh)
///     a pass       does the same each time, so that results do not depend on the number of passes

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "profiling/apps/trace_log.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/statistics/statistics.hpp"
#include "uvm/geometry/layout.hpp"

namespace orchard::apps {

class app_run;

/// A fault that a test puts in before a check: `element` of the array that the check looks at becomes `value`.
struct corruption {
    std::uint64_t element = 0;
    std::uint64_t value = 0;
    int check = 0;  ///< which of the application's checks, from 0
};

/// What one run does.
struct job {
    std::uint64_t threads = 16384;           ///< 1 to 2^20; each has an equal part of each array
    std::uint64_t bytes = 1ull << 30;        ///< all arrays together have about as many, never more than 1 % above
    layout how = layout::linear();           ///< of the arrays
    int passes = 10;                         ///< at least 1
    double part = 1;                         ///< most of the work that a pass does, above 0, up to 1
    double limit_s = 5;                      ///< of kernel time: the first pass ends behind a piece that comes so far
    std::uint64_t samples = 4096;            ///< results that are checked; all of them if there are fewer
    std::uint64_t seed = 1;                  ///< of the numbers, the graphs and the samples
    std::uint64_t accesses_of_piece = 0;     ///< of a launch, about; 0: 2^27, on the emulated device 2^20
    std::uint32_t trace_every = 0;           ///< record the first pass of each so many-th warp; 0: of none
    bool moves = false;                      ///< accesses are sampled, and `heap::migrate` is called between two passes
    std::optional<corruption> corrupt = {};  ///< for tests
};

/// What one run found. Times are those of kernels, in microseconds.
struct outcome {
    std::uint64_t array_bytes = 0;  ///< bytes of all arrays
    double part = 0;                ///< share of the work that each pass did
    std::vector<double> pass_us;
    double allocate_us = 0;
    double fill_us = 0;
    double moves_us = 0;    ///< of all calls of `heap::migrate` between passes, by the host's clock
    double pass_bytes = 0;  ///< bytes of the elements that a pass reads and writes, each access counted
    statistics before;      ///< of the heap before the passes
    statistics after;       ///< behind them, with all arrays
    std::uint64_t nulls = 0;
    std::uint64_t checked = 0;
    std::uint64_t wrong = 0;
    trace_log::result recorded;  ///< of the first pass, whose time then includes it
    absl::Status error;          ///< what is wrong with the run: nulls, wrong results

    /// Returns the device's share of the committed memory, 0 to 1, behind the passes.
    [[nodiscard]] double resident_share() const;
    /// Returns the bytes that moved between host and device during the passes.
    [[nodiscard]] std::uint64_t moved_bytes() const;
};

/// One application.
struct app {
    std::string_view name;   ///< the word of the command line
    std::string_view task;   ///< one line
    std::string_view part;   ///< what a share of the work is: "columns of A"
    std::string_view check;  ///< how results are checked, one line
    void (*run)(app_run& s);
};

/// Returns all eight applications, in the order of the recorded ones.
std::span<const app> apps();
/// Returns the application called `name`; all of them for "all". Errors: InvalidArgument with the known names.
absl::StatusOr<std::vector<app>> apps_named(std::string_view name);

/// Runs one application on `h`, which holds no blocks. Afterwards all arrays are freed, and the heap has been
/// validated.
///
/// A lack of memory and wrong results are `outcome::error`; the heap can then be used for another run. Errors, after
/// which it cannot: a launch or a copy that failed; Internal if the heap is inconsistent or not empty; those of
/// `heap::migrate`. InvalidArgument for an impossible job.
absl::StatusOr<outcome> run_app(heap& h, const app& a, const job& j);

/// The `run` of each application; its file describes arrays and check.
void run_gemm(app_run& s);
void run_stencil(app_run& s);
void run_k_means(app_run& s);
void run_bfs(app_run& s);
void run_spmv(app_run& s);
void run_b_plus_tree(app_run& s);
void run_alex_net(app_run& s);
void run_gcn(app_run& s);

}  // namespace orchard::apps
