// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Checks of the results of a walk, made by the host. Each check has a name, a verdict and numbers (`check`).
///
///     check_adjacency    the device's lists, sorted, are the input's
///     walk_checker       each step is an edge; the same walk on the host visits the same vertices
///     check_heap         after the end: nothing in use, all structures valid, no failed request; which paths were used

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "examples/graph/host_graph.hpp"
#include "examples/walk/walk_result.hpp"
#include "examples/walk/walk_rule.hpp"

namespace orchard::examples {

/// Checks that each vertex's neighbours in `copied` are, as a set, those in `input` (whose lists ascend), without
/// duplicates.
check check_adjacency(const host_graph& input, const host_graph& copied);

/// Checks walks one by one, and repeats each walk on the host. Several threads may add walks at the same time.
class walk_checker {
public:
    /// @param input  the graph as it was read, its lists ascending; it decides whether a step is an edge
    /// @param copied the adjacency in the device's order, which the host's walk follows
    /// Both must outlive the checker.
    walk_checker(const host_graph& input, const host_graph& copied, const walk_rule& rule);

    /// `walk`: the vertices that `walker` visited on the device.
    void add(std::uint64_t walker, std::span<const std::uint32_t> walk);

    /// Checks that every step of every walk is an edge of the input, or a restart from a dead end if the rule has them.
    [[nodiscard]] check every_step_an_edge() const;

    /// Checks that the device's visit counts are those of the host's walk, and that each walk equals the host's, vertex
    /// by vertex.
    [[nodiscard]] check visits_equal(std::span<const std::uint64_t> device_visits) const;

private:
    // Each is described at its definition.
    void check_steps(std::uint64_t walker, std::span<const std::uint32_t> walk);
    bool walk_again(std::uint64_t walker, std::span<const std::uint32_t> walk);

    const host_graph& input_;   ///< lists ascend: a neighbour is found by binary search
    const host_graph& copied_;  ///< lists in the device's order
    walk_rule rule_;
    std::vector<std::uint64_t> visits_;              ///< of the host's walk; accessed through atomic_ref
    std::atomic<std::uint64_t> walks_{0};            ///< walks added
    std::atomic<std::uint64_t> steps_{0};            ///< their steps
    std::atomic<std::uint64_t> wrong_steps_{0};      ///< steps that are no edge and no restart
    std::atomic<std::uint64_t> wrong_walks_{0};      ///< walks that differ from the host's
    std::atomic<std::uint64_t> first_wrong_{~0ull};  ///< the lowest walker with a wrong step
};

/// Checks the heap after everything was freed and trimmed: it is empty and valid; and, not required, the run has used
/// every path of it.
std::vector<check> check_heap(const statistics& at_end, const absl::Status& validated);

}  // namespace orchard::examples
