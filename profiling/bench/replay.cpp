// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench replay --from TRACE`: the requests of a program's trace as a benchmark of the heap's options. Each
/// repetition makes them in a new heap, so that its first requests wait for memory as those of the program did.

#include "profiling/traces/replay.hpp"
#include <algorithm>

#include "profiling/bench/bench.hpp"
#include "profiling/bench/repetitions.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// Requests of one kernel, as those of `orchard replay`.
constexpr std::uint64_t batch = 16'384;

absl::StatusOr<ordered_json> run_replay(const settings& s) {
    if (s.from.empty()) {
        return absl::InvalidArgumentError("replay: no trace; record one with --trace FILE, and give it by --from FILE");
    }
    auto trace = traces::load_replayable(s.from);
    if (!trace.ok()) {
        return trace.status();
    }
    const traces::replay_plan plan = traces::plan_replay(trace->events, batch);
    trace->events = {};
    options values = s.heap;
    values.device = s.device == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
    std::vector<double> kernels_us;
    traces::replay_result last;
    std::uint64_t failed = 0;
    for (int i = 0; i < std::min(s.repeats, s.quick ? 1 : 20); ++i) {
        auto h = heap::create(values);
        if (!h.ok()) {
            return h.status();
        }
        auto done = traces::replay(*h, plan);
        if (!done.ok()) {
            return done.status();
        }
        last = *std::move(done);
        failed += last.failed;
        kernels_us.push_back(last.kernel_seconds * 1e6);
    }
    ordered_json row{{"trace", s.from},
                     {"allocations", plan.allocations},
                     {"frees", plan.frees},
                     {"kernels", plan.batches.size()},
                     {"kernels_us", median_after(kernels_us.size() > 1 ? 1 : 0, kernels_us)},
                     {"failed_in_record", plan.shortages},
                     {"failed", failed},
                     {"peak_bytes", plan.peak_bytes},
                     {"peak_committed_bytes", last.heap.peak_committed_bytes}};
    add_repetitions(row, "kernels", kernels_us);
    return ordered_json::array({row});
}

const registrar replay_registered{
    {"replay", "the requests of a trace (--from), each repetition in a new heap", run_replay,
     "medians of the sum of all kernels after one repetition that does not count; _first, _third and _tenth "
     "are those repetitions, _settled the median of the last half; --repeats, at most 20"}};

}  // namespace
}  // namespace orchard::bench
