// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include <algorithm>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/graph/parallel.hpp"
#include "examples/particles/shower_run.hpp"
#include "uvm/geometry/size_classes.hpp"

namespace orchard::examples {
namespace {

/// The tracks that are made and that end in each kernel.
struct kernel_tracks {
    std::uint64_t born = 0;
    std::uint64_t ended = 0;
};

/// Returns element `i`, which is made if it is not there.
kernel_tracks& kernel_at(std::vector<kernel_tracks>& kernels, std::uint64_t i) {
    kernels.resize(std::max<std::size_t>(kernels.size(), i + 1));
    return kernels[i];
}

/// A particle, and the kernel that takes its first step. The kernel before has made its track.
struct followed {
    particle now;
    std::uint64_t first;
};

}  // namespace

host_shower run_on_host(const shower_options& options) {
    host_shower all;
    std::vector<kernel_tracks> all_kernels;
    std::mutex mutex;
    const shower_rule& rule = options.rule;
    parallel_for(options.primaries, [&](std::uint64_t i) {
        shower_totals mine;
        std::vector<kernel_tracks> kernels{{1, 0}};
        std::vector<followed> left{{rule.primary(i), 1}};
        mine.particles = 1;
        while (!left.empty()) {
            const auto [p, first] = left.back();
            left.pop_back();
            const shower_step s = rule.next(p);
            const std::uint64_t kernel = first + p.step / options.steps;
            ++mine.steps;
            mine.deposited_kev[s.layer] += s.deposited_kev;
            for (std::uint32_t k = 0; k < s.secondaries; ++k) {
                left.push_back({rule.secondary(p, s, k), kernel + 1});
                ++mine.particles;
            }
            kernel_at(kernels, kernel).born += s.secondaries;
            if (s.ends) {
                ++mine.ended;
                ++kernel_at(kernels, kernel).ended;
            } else {
                left.push_back({s.after, first});
            }
        }
        const std::scoped_lock lock(mutex);
        all.totals.particles += mine.particles;
        all.totals.ended += mine.ended;
        all.totals.steps += mine.steps;
        for (std::uint32_t layer = 0; layer < shower_layers; ++layer) {
            all.totals.deposited_kev[layer] += mine.deposited_kev[layer];
        }
        for (std::size_t k = 0; k < kernels.size(); ++k) {
            kernel_at(all_kernels, k).born += kernels[k].born;
            kernel_at(all_kernels, k).ended += kernels[k].ended;
        }
    });
    std::uint64_t alive = 0;
    for (const kernel_tracks& k : all_kernels) {
        alive += k.born;
        all.most_tracks = std::max(all.most_tracks, alive);
        alive -= k.ended;
    }
    return all;
}

absl::Status check_shower_memory(const shower_options& options, std::uint64_t tracks, const orchard::options& heap,
                                 simt::device_kind device, std::uint64_t pool_slots, std::uint64_t have) {
    const std::uint64_t all = tracks * class_bytes(class_of(static_cast<std::uint32_t>(options.track_bytes)));
    const std::uint64_t host_budget = heap.backing == backing_option::elastic ? heap.host_budget : 0;
    const bool cuda = device == simt::device_kind::cuda;
    const std::uint64_t of_heap =
        cuda ? std::min(all - std::min(all, heap.capacity), host_budget) : std::min(all, heap.capacity + host_budget);
    const std::uint64_t of_pool = cuda ? 0 : pool_slots * options.track_bytes;
    const char* const remedy = "give fewer --primaries, less --energy, smaller --track-bytes";
    absl::Status s = check_host_memory(
        of_heap, absl::StrFormat("the shower of %d tracks of %d B at once", tracks, options.track_bytes), have,
        absl::StrCat(remedy, cuda ? ", or a larger --capacity" : ", or a smaller --host-budget"));
    s.Update(check_host_memory(of_pool,
                               absl::StrFormat("the pool of %d tracks of %d B", pool_slots, options.track_bytes), have,
                               "give a smaller --pool"));
    return s;
}

}  // namespace orchard::examples
