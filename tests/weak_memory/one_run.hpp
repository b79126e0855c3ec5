// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// One run of a litmus test.

#include <vector>

#include "device/simt/explore/choices.hpp"
#include "device/simt/explore/simulation.hpp"
#include "tests/weak_memory/litmus.hpp"

namespace orchard::litmus {

class one_run {
public:
    one_run(const program& p, simt::explore::choices& from);

    /// Runs it and adds what came out.
    void count(outcomes& to);

    [[nodiscard]] simt::explore::simulation& simulated() { return simulation_; }
    /// By index of the program's thread.
    [[nodiscard]] simt::explore::actor_id actor_of(std::size_t thread) const { return actors_[thread]; }

    static shared& words();

private:
    void add_device_threads(const std::vector<simt::explore::block_shape>& shape);

    const program& program_;
    simt::explore::simulation simulation_;
    std::vector<simt::explore::actor_id> actors_;  // of the program's threads
    std::vector<std::size_t> order_;               // threads of the program by lane of the kernel
    std::vector<simt::explore::actor_id> actors_of_lanes_;
};

}  // namespace orchard::litmus
