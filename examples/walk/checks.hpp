// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What must hold after a walk, looked at by the host.

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "examples/graph/host_graph.hpp"
#include "examples/walk/walk_result.hpp"
#include "examples/walk/walk_rule.hpp"

namespace orchard::examples {

/// Whether each vertex's neighbours in `copied` are, as a set, those in `input` (whose lists ascend), none twice.
check check_adjacency(const host_graph& input, const host_graph& copied);

/// Checks walks one by one, and walks each again on the host. Walks may be given from several threads.
class walk_checker {
public:
    /// @param input  the graph as it was read, its lists ascending: what decides whether a step is an edge
    /// @param copied the adjacency in the device's order: what the host's walk goes along
    /// Both must outlive the checker.
    walk_checker(const host_graph& input, const host_graph& copied, const walk_rule& rule);

    /// `walk`: the vertices that `walker` visited on the device.
    void add(std::uint64_t walker, std::span<const std::uint32_t> walk);

    /// Every step of every walk is an edge of the input (or a restart, where the rule has them, from a dead end).
    [[nodiscard]] check every_step_an_edge() const;

    /// The device's visit counts are those of the host's walk, and each walk's list is the host's, vertex by vertex.
    [[nodiscard]] check visits_equal(std::span<const std::uint64_t> device_visits) const;

private:
    void check_steps(std::uint64_t walker, std::span<const std::uint32_t> walk);
    bool walk_again(std::uint64_t walker, std::span<const std::uint32_t> walk);

    const host_graph& input_;
    const host_graph& copied_;
    walk_rule rule_;
    std::vector<std::uint64_t> visits_;  ///< of the host's walk; through atomic_ref
    std::atomic<std::uint64_t> walks_{0};
    std::atomic<std::uint64_t> steps_{0};
    std::atomic<std::uint64_t> wrong_steps_{0};
    std::atomic<std::uint64_t> wrong_walks_{0};
    std::atomic<std::uint64_t> first_wrong_{~0ull};  ///< the lowest walker with a wrong step
};

/// The checks on the heap after everything was freed and trimmed: empty, valid, and every path of it taken.
std::vector<check> check_heap(const statistics& at_end, const absl::Status& validated);

}  // namespace orchard::examples
