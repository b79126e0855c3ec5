// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// One measured row of an application.

#include <numeric>
#include <string>

#include "profiling/bench/repetitions.hpp"
#include "profiling/oversubscribe/measure.hpp"

namespace orchard::oversubscribe {

absl::StatusOr<row> measure_application(heap& in, const plan& p, const row_subject& of) {
    apps::job j;
    j.threads = p.threads;
    j.bytes = of.bytes;
    j.how = of.how;
    j.passes = p.passes;
    j.limit_s = p.kernel_seconds;
    j.moves = of.by == way::move;
    const auto found = apps::run_app(in, *of.application, j);
    if (!found.ok()) {
        return found.status();
    }
    row r = axes_of(of);
    r["by"] = p.device == simt::device_kind::cuda ? "hardware" : "emulated";
    r["bytes"] = found->array_bytes;
    r["device_budget"] = p.heap.capacity;
    r["passes"] = p.passes;
    r["part"] = found->part;
    std::vector<double> ms;
    for (const double us : found->pass_us) {
        ms.push_back(us * 1e-3);
    }
    bench::add_repetitions(r, "kernel", ms, "ms");
    const double moves = found->moves_us * 1e-3;
    const std::uint64_t in_bytes = found->after.moved_to_device_bytes - found->before.moved_to_device_bytes;
    const std::uint64_t out_bytes = found->after.moved_to_host_bytes - found->before.moved_to_host_bytes;
    r["kernels_ms"] = std::accumulate(ms.begin(), ms.end(), 0.0);
    r["moves_ms"] = moves;
    r["moved_to_device_bytes"] = in_bytes;
    r["moved_to_host_bytes"] = out_bytes;
    r["move_gb_s"] = moves > 0 ? static_cast<double>(in_bytes + out_bytes) / moves / 1e6 : 0.0;
    r["resident_share"] = found->resident_share();
    r["allocate_ms"] = found->allocate_us * 1e-3;
    r["fill_ms"] = found->fill_us * 1e-3;
    r["nulls"] = found->nulls;
    r["checked"] = found->checked;
    r["wrong"] = found->wrong;
    if (!found->error.ok()) {
        r["error"] = std::string(found->error.message());
    }
    return r;
}

}  // namespace orchard::oversubscribe
