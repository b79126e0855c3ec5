// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The edges of an input as they are read, with a limit on their memory.
///
///     edges read     capacity     in memory while the list grows: the old list and the new one
///     0              0
///     1              1,024        1,024
///     1,025          2,048        1,024 + 2,048
///     ...
///
/// The limit counts twice the new capacity: now for both lists, and later for the list and the copy by which
/// `make_edge_list` sorts it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "examples/graph/edge_list.hpp"
#include "examples/graph/host_memory.hpp"

namespace orchard::examples {

/// Collects the edges of a file whose length is not known, as long as there is memory for them: a small compressed file
/// may hold more edges than a machine.
class edge_collector {
public:
    /// @param memory  the bytes that the edges may take, with the copy that `make_edge_list` needs
    explicit edge_collector(std::uint64_t memory = host_memory_bytes()) : memory_{memory} {}

    /// Adds an edge. Errors: ResourceExhausted, with the numbers, if the list would need more memory than there is.
    absl::Status add(edge e) { return add_to_list(e, 0); }
    /// Adds an edge with its weight: then all edges have one.
    absl::Status add(edge e, double weight) {
        if (absl::Status s = add_to_list(e, sizeof(double)); !s.ok()) {
            return s;
        }
        weights_.push_back(weight);
        return absl::OkStatus();
    }
    /// Returns the number of edges added.
    [[nodiscard]] std::size_t size() const { return edges_.size(); }
    /// Returns whether the edges have weights; false without edges.
    [[nodiscard]] bool has_weights() const { return !weights_.empty(); }
    /// Return the edges, and their weights; the collector has none then.
    std::vector<edge> take() { return std::move(edges_); }
    std::vector<double> take_weights() { return std::move(weights_); }

private:
    absl::Status add_to_list(edge e, std::size_t more_bytes) {
        if (edges_.size() == edges_.capacity()) {
            const std::size_t next = std::max<std::size_t>(1024, 2 * edges_.size());
            // The old list and the new one exist at the same time; later, the full list and its copy.
            absl::Status fits = check_host_memory(2 * next * (sizeof(edge) + more_bytes), "the list of edges", memory_);
            if (!fits.ok()) {
                return fits;
            }
            edges_.reserve(next);
        }
        edges_.push_back(e);
        return absl::OkStatus();
    }
    std::uint64_t memory_;  ///< bytes that all of this may take
    std::vector<edge> edges_;
    std::vector<double> weights_;  ///< as many as edges, or none
};

}  // namespace orchard::examples
