// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `graph_over` and `snapshot_over`: the graph of one kind of memory, and its snapshot, behind the interface of all.

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "examples/dynamic_graph/any_graph.hpp"
#include "examples/dynamic_graph/update_kernels.cuh"
#include "examples/report/kernel_steps.hpp"

namespace orchard::examples {

/// @tparam Heap  the view of the graph's memory
template <class Property, class Heap>
class snapshot_over final : public any_snapshot<Property> {
public:
    snapshot_over(orchard::graph<Property, Heap>& of, graph_snapshot<Property, Heap> open)
        : graph_{&of}, open_{std::move(open)} {}

    graph_view<Property> view() const override { return open_.ref(); }
    absl::StatusOr<csr_graph<Property>> to_csr() override { return graph_->to_csr(open_); }

private:
    orchard::graph<Property, Heap>* graph_;
    graph_snapshot<Property, Heap> open_;
};

/// @tparam Memory  the graph's memory, movable. `ref()`: the view that `orchard::graph` takes; `shortage()`,
///     `forget_refusals()`: as in `any_graph`
template <class Property, class Memory>
class graph_over final : public any_graph<Property> {
    using heap_type = std::remove_cvref_t<decltype(std::declval<const Memory&>().ref())>;
    using graph_type = orchard::graph<Property, heap_type>;

public:
    /// Returns an empty graph, whose kernels run on `on`. Errors: those of the device.
    static absl::StatusOr<std::unique_ptr<any_graph<Property>>> create(const simt::executor& on, Memory memory) {
        auto made = graph_type::create(on, memory.ref());
        auto counts = device_array<update_counts>::create(on, 1);
        if (!made.ok() || !counts.ok()) {
            return made.ok() ? counts.status() : made.status();
        }
        return std::unique_ptr<any_graph<Property>>(
            new graph_over(on, std::move(memory), *std::move(made), *std::move(counts)));
    }

    absl::Status reserve_vertices(std::uint64_t count) override { return graph_.reserve_vertices(count); }
    absl::StatusOr<batch_result> change(update_way by, bool adds, const edge_batch<Property>& batch) override {
        if (by == update_way::batches) {
            return adds ? graph_.insert(batch) : graph_.erase(batch);
        }
        return adds ? change_by_kernel<true>(batch) : change_by_kernel<false>(batch);
    }
    absl::Status contains(const std::uint32_t* sources, const std::uint32_t* targets, std::uint64_t count,
                          std::uint8_t* result) const override {
        return graph_.contains(sources, targets, count, result);
    }
    absl::StatusOr<graph_statistics> stats() const override { return graph_.stats(); }
    absl::StatusOr<csr_graph<Property>> to_csr() override { return graph_.to_csr(); }
    absl::StatusOr<std::unique_ptr<any_snapshot<Property>>> snapshot() override {
        if (absl::Status s = memory_.forget_refusals(); !s.ok()) {
            return s;
        }
        auto open = graph_.snapshot();
        if (open.ok()) {
            return std::make_unique<snapshot_over<Property, heap_type>>(graph_, *std::move(open));
        }
        // Another allocator's error names it, and the heap's is complete by itself.
        const absl::Status lacks = absl::IsResourceExhausted(open.status()) ? memory_.shortage() : absl::OkStatus();
        return lacks.ok() ? open.status() : lacks;
    }
    graph_view<Property> view() const override { return graph_.ref(); }
    absl::Status shortage() const override { return memory_.shortage(); }
    absl::Status forget_refusals() override { return memory_.forget_refusals(); }

private:
    graph_over(const simt::executor& on, Memory memory, graph_type g, device_array<update_counts> counts)
        : on_{on}, memory_{std::move(memory)}, graph_{std::move(g)}, counts_{std::move(counts)} {}

    template <bool Insert>
    absl::StatusOr<batch_result> change_by_kernel(const edge_batch<Property>& batch) {
        const bool cuda = on_.kind == simt::device_kind::cuda;
        double us = 0;
        absl::Status s = counts_.zero();
        s.Update(s.ok() ? run(on_, cuda ? simt::grid{1056, 256} : simt::grid{8, 64},
                              change_edges<Property, Insert, heap_type>{graph_.ref(), batch.sources, batch.targets,
                                                                        batch.properties, batch.count, counts_.data()},
                              us)
                        : s);
        std::uint64_t words[3]{};
        static_assert(sizeof(words) == sizeof(update_counts));
        s.Update(s.ok() ? copy_to_host(on_, words, counts_.data(), sizeof(words)) : s);
        return s.ok() ? absl::StatusOr<batch_result>(batch_result{words[0], words[1], words[2]}) : s;
    }

    simt::executor on_;
    Memory memory_;  // outlives the graph
    graph_type graph_;
    device_array<update_counts> counts_;
};

}  // namespace orchard::examples
