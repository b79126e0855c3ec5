// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `any_graph`: a graph in the memory of any allocator, as a run changes and reads it. graph_over.cuh has the graphs.

#include <cstdint>
#include <functional>
#include <memory>
#include <orchard/graph.cuh>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace orchard::examples {

/// How a graph is changed: by a batch, or by a kernel whose threads change an edge each.
enum class update_way : std::uint8_t { batches, kernels };

/// A snapshot of a graph, which its destructor closes. The graph must outlive it.
template <class Property>
class any_snapshot {
public:
    any_snapshot() = default;
    any_snapshot(const any_snapshot&) = delete;
    any_snapshot& operator=(const any_snapshot&) = delete;
    virtual ~any_snapshot() = default;

    /// Returns the view for kernels, which may read it while others change the graph.
    [[nodiscard]] virtual graph_view<Property> view() const = 0;
    [[nodiscard]] virtual absl::StatusOr<csr_graph<Property>> to_csr() = 0;
};

/// A graph, and the memory that it lies in. Errors of all functions: those of the device.
template <class Property>
class any_graph {
public:
    any_graph() = default;
    any_graph(const any_graph&) = delete;
    any_graph& operator=(const any_graph&) = delete;
    virtual ~any_graph() = default;

    virtual absl::Status reserve_vertices(std::uint64_t count) = 0;
    /// Returns what became of a batch, whose edges were added or removed.
    virtual absl::StatusOr<batch_result> change(update_way by, bool adds, const edge_batch<Property>& batch) = 0;
    /// Sets `result[i]` to 1 if there is an edge from `sources[i]` to `targets[i]`, else to 0. All in device memory.
    virtual absl::Status contains(const std::uint32_t* sources, const std::uint32_t* targets, std::uint64_t count,
                                  std::uint8_t* result) const = 0;
    [[nodiscard]] virtual absl::StatusOr<graph_statistics> stats() const = 0;
    [[nodiscard]] virtual absl::StatusOr<csr_graph<Property>> to_csr() = 0;
    /// Returns a snapshot. Errors: ResourceExhausted, with the remedy, if there is no memory for its table.
    [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<any_snapshot<Property>>> snapshot() = 0;
    /// Returns the view for kernels that read the graph.
    [[nodiscard]] virtual graph_view<Property> view() const = 0;
    /// Returns why edges found no memory, since the last `forget_refusals`; no error in a heap, where that is a result
    /// of the run.
    [[nodiscard]] virtual absl::Status shortage() const = 0;
    /// Forgets the requests that found no memory. Some do no harm: rows whose edges are removed stay in their blocks
    /// then. Call it before what `shortage` is to be about.
    virtual absl::Status forget_refusals() = 0;
};

/// What makes empty graphs in one allocator, of so many bytes, on a device (examples/report/other_allocators.hpp).
struct graph_in_allocator {
    template <class Property>
    using made = absl::StatusOr<std::unique_ptr<any_graph<Property>>>;

    std::function<made<no_property>(const simt::executor&, std::uint64_t bytes)> plain;
    std::function<made<double>(const simt::executor&, std::uint64_t bytes)> weighted;
};

}  // namespace orchard::examples
