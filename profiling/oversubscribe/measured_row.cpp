// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include <numeric>

#include "profiling/bench/repetitions.hpp"
#include "profiling/oversubscribe/measure.hpp"

namespace orchard::oversubscribe {

row row_of(const plan& p, const row_subject& of, const measurement& m) {
    row r = axes_of(of);
    r["by"] = p.device == simt::device_kind::cuda ? "hardware" : "emulated";
    r["bytes"] = m.bytes;
    r["device_budget"] = p.heap.capacity;
    r["passes"] = p.passes;
    bench::add_repetitions(r, "kernel", m.pass_ms, "ms");
    const std::uint64_t in_bytes = m.after.moved_to_device_bytes - m.before.moved_to_device_bytes;
    const std::uint64_t out_bytes = m.after.moved_to_host_bytes - m.before.moved_to_host_bytes;
    const double all = static_cast<double>(m.after.committed_bytes);
    r["kernels_ms"] = std::accumulate(m.pass_ms.begin(), m.pass_ms.end(), 0.0);
    r["moves_ms"] = m.moves_ms;
    r["moved_to_device_bytes"] = in_bytes;
    r["moved_to_host_bytes"] = out_bytes;
    r["move_gb_s"] = m.moves_ms > 0 ? static_cast<double>(in_bytes + out_bytes) / m.moves_ms / 1e6 : 0.0;
    r["resident_share"] = all > 0 ? 1.0 - static_cast<double>(m.after.host_bytes) / all : 1.0;
    r["allocate_ms"] = m.allocate_ms;
    r["fill_ms"] = m.fill_ms;
    r["nulls"] = m.nulls;
    r["wrong"] = m.wrong;
    return r;
}

}  // namespace orchard::oversubscribe
