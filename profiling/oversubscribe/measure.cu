// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// One measured row:
///
///     measure           allocate, fill, passes, free: a kernel each
///       make_passes     for the way move `migrate` between them

#include "profiling/oversubscribe/measure.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "profiling/bench/repetitions.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/nvtx/phase.hpp"

namespace orchard::oversubscribe {
namespace {

/// The state of one run.
struct run_state {
    heap& in;
    const plan& p;
    pass_over kernel;
    arrays_view arrays;
    device_array<lane_array<word>> table;
    device_array<simt::device_word<std::uint64_t>> counts;  // wrong, late, nulls

    template <class Kernel>
    absl::StatusOr<double> launch(simt::grid shape, const Kernel& k) {
        simt::executor on = in.executor();
        on.timed = true;
        const simt::launch_result done = simt::launch(on, shape, k);
        if (!done.ok) {
            return to_status(done);
        }
        return done.microseconds / 1e3;
    }
    /// A grid for kernels that go over arrays block by block.
    [[nodiscard]] simt::grid by_array() const {
        const bool cuda = p.device == simt::device_kind::cuda;
        return {static_cast<std::uint32_t>(std::min<std::uint64_t>(arrays.threads, cuda ? 1056 : 4)),
                cuda ? 256u : 32u};
    }
};

/// Makes the passes. Adds the kernels' times in ms to `times`, and those of `migrate` to `moves_ms`.
absl::Status make_passes(run_state& s, way how, std::vector<double>& times, std::vector<double>& moves_ms) {
    for (int i = 0; i < s.p.passes; ++i) {
        s.kernel.seed = static_cast<std::uint32_t>(i) + 1;
        const auto ms = s.launch(
            s.kernel.which == pattern::working_set ? s.by_array() : simt::grid_for(s.p.threads, 128), s.kernel);
        if (!ms.ok()) {
            return ms.status();
        }
        times.push_back(*ms);
        if (how == way::move && i + 1 < s.p.passes) {
            absl::Status moved;
            const nvtx::phase marked(nvtx::phase::migrate);
            moves_ms.push_back(
                bench::milliseconds_of([&] { moved.Update(s.in.migrate(s.in.executor().stream).status()); }));
            if (!moved.ok()) {
                return moved;
            }
        }
    }
    return absl::OkStatus();
}

}  // namespace

absl::StatusOr<row> measure(heap& in, const plan& p, const row_subject& of) {
    const row_shape shape = shape_of(p, of);
    run_state s{in, p, {}, {nullptr, shape.arrays, shape.elements}, {}, {}};
    auto table = device_array<lane_array<word>>::create(in.executor(), shape.arrays);
    auto counts = device_array<simt::device_word<std::uint64_t>>::create(in.executor(), 3);
    absl::Status status = table.status();
    status.Update(counts.status());
    if (!status.ok()) {
        return status;
    }
    s.table = *std::move(table);
    s.counts = *std::move(counts);
    s.arrays.of_thread = s.table.data();
    s.kernel.heap = in.ref();
    s.kernel.arrays = s.arrays;
    s.kernel.which = of.which;
    s.kernel.steps = shape.steps;
    s.kernel.stride = stride_bytes / sizeof(word);
    s.kernel.set_seed = of.set_seed;
    s.kernel.samples = of.by == way::move;
    s.kernel.limit_ns = static_cast<std::uint64_t>(p.kernel_seconds * 1e9);
    s.kernel.wrong = s.counts.data();
    s.kernel.late = s.counts.data() + 1;
    statistics before;
    const auto read_statistics = [&] {
        const auto found = in.stats();
        status.Update(found.status());
        before = found.ok() ? *found : before;
    };
    read_statistics();
    const auto allocated = s.launch(simt::grid_for(shape.arrays, 128), allocate_all{in.ref(), s.arrays, of.how});
    const auto filled = s.launch(s.by_array(), fill_all{s.arrays, s.counts.data() + 2});
    std::vector<std::uint64_t> found(3);
    const auto read_counts = [&] {
        return copy_to_host(in.executor(), found.data(), s.counts.data(), found.size() * sizeof(found[0]));
    };
    status.Update(allocated.status());
    status.Update(filled.status());
    status.Update(read_counts());
    if (!status.ok()) {
        return status;
    }
    std::vector<double> moves_ms;
    std::vector<double> times;
    if (found[2] == 0) {
        // The samples of an earlier row, of other data at the same addresses, must not count for this one.
        if (of.by == way::move) {
            const nvtx::phase marked(nvtx::phase::migrate);
            status.Update(in.migrate(in.executor().stream).status());
            read_statistics();
        }
        status.Update(make_passes(s, of.by, times, moves_ms));
    }
    const auto after = in.stats();
    const auto freed = s.launch(simt::grid_for(shape.arrays, 128), free_everything{in.ref(), s.arrays});
    status.Update(after.status());
    status.Update(freed.status());
    status.Update(read_counts());
    status.Update(in.validate());
    if (!status.ok()) {
        return status;
    }
    row r = axes_of(of);
    r["by"] = p.device == simt::device_kind::cuda ? "hardware" : "emulated";
    r["bytes"] = shape.arrays * shape.elements * sizeof(word);
    r["device_budget"] = p.heap.capacity;
    r["passes"] = p.passes;
    r["accesses"] = of.which == pattern::working_set ? 0 : shape.arrays * shape.steps;
    bench::add_repetitions(r, "kernel", times, "ms");
    const double moves = std::accumulate(moves_ms.begin(), moves_ms.end(), 0.0);
    const std::uint64_t in_bytes = after->moved_to_device_bytes - before.moved_to_device_bytes;
    const std::uint64_t out_bytes = after->moved_to_host_bytes - before.moved_to_host_bytes;
    r["kernels_ms"] = std::accumulate(times.begin(), times.end(), 0.0);
    r["moves_ms"] = moves;
    r["first_move_ms"] = moves_ms.empty() ? 0.0 : moves_ms.front();
    r["moved_to_device_bytes"] = in_bytes;
    r["moved_to_host_bytes"] = out_bytes;
    r["move_gb_s"] =
        moves > 0 && in_bytes + out_bytes > 0 ? static_cast<double>(in_bytes + out_bytes) / moves / 1e6 : 0;
    r["resident_share"] = after->committed_bytes == 0 ? 1.0
                                                      : 1.0 - static_cast<double>(after->host_bytes) /
                                                                  static_cast<double>(after->committed_bytes);
    r["allocate_ms"] = *allocated;
    r["fill_ms"] = *filled;
    r["nulls"] = found[2];
    r["wrong"] = found[0];
    r["late_threads"] = found[1];
    return r;
}

}  // namespace orchard::oversubscribe
