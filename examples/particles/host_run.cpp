// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include <mutex>
#include <vector>

#include "examples/graph/parallel.hpp"
#include "examples/particles/shower_run.hpp"

namespace orchard::examples {

shower_totals run_on_host(const shower_options& options) {
    shower_totals all;
    std::mutex mutex;
    const shower_rule& rule = options.rule;
    parallel_for(options.primaries, [&](std::uint64_t i) {
        shower_totals mine;
        std::vector<particle> left{rule.primary(i)};
        mine.particles = 1;
        while (!left.empty()) {
            const particle p = left.back();
            left.pop_back();
            const shower_step s = rule.next(p);
            ++mine.steps;
            mine.deposited_kev[s.layer] += s.deposited_kev;
            for (std::uint32_t k = 0; k < s.secondaries; ++k) {
                left.push_back(rule.secondary(p, s, k));
                ++mine.particles;
            }
            if (s.ends) {
                ++mine.ended;
            } else {
                left.push_back(s.after);
            }
        }
        const std::scoped_lock lock(mutex);
        all.particles += mine.particles;
        all.ended += mine.ended;
        all.steps += mine.steps;
        for (std::uint32_t layer = 0; layer < shower_layers; ++layer) {
            all.deposited_kev[layer] += mine.deposited_kev[layer];
        }
    });
    return all;
}

}  // namespace orchard::examples
