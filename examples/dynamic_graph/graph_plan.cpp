// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "examples/dynamic_graph/graph_plan.hpp"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_format.h"
#include "device/simt/random.hpp"
#include "examples/dynamic_graph/graph_inputs.hpp"

namespace orchard::examples {
namespace {

/// Returns the parts of `edges`, of a batch's size at most.
std::vector<std::span<const edge>> parts_of(std::span<const edge> edges, std::uint64_t batch) {
    std::vector<std::span<const edge>> parts;
    for (std::uint64_t first = 0; first < edges.size(); first += batch) {
        parts.push_back(edges.subspan(first, std::min(batch, edges.size() - first)));
    }
    return parts;
}

}  // namespace

version_difference difference_of(std::vector<edge> first, const graph_options& o) {
    std::ranges::sort(first);
    const std::vector<edge>& second = o.second.input.edges;
    version_difference d;
    std::ranges::set_difference(second, first, std::back_inserter(d.added));
    std::ranges::set_difference(first, second, std::back_inserter(d.removed));
    if (o.weights) {
        std::vector<edge> both;
        std::ranges::set_intersection(first, second, std::back_inserter(both));
        for (const edge e : both) {
            if (o.weights->of(e) != o.second.of(e)) {
                d.added.push_back(e);
                d.removed.push_back(e);
            }
        }
    }
    return d;
}

absl::StatusOr<batch_plan> plan(std::uint32_t vertices, const std::vector<edge>& edges,
                                const version_difference& change, const graph_options& o) {
    const std::vector<std::span<const edge>> parts = parts_of(edges, o.batch);
    batch_plan all;
    std::uint64_t planned = 0;
    const auto add = [&](bool adds, std::span<const edge> part, bool second = false) {
        if (++planned <= o.most_batches) {
            all.batches.push_back({adds, part, second});
        }
    };
    for (std::size_t i = 0; i < parts.size(); ++i) {
        add(true, parts[i]);
        if (o.mode == update_mode::window && i >= o.window) {
            add(false, parts[i - o.window]);
        }
    }
    switch (o.mode) {
        case update_mode::window: break;
        case update_mode::build:
            for (const auto part : parts) {
                add(false, part);
            }
            break;
        case update_mode::reinsert:
            for (const auto part : parts) {
                add(false, part);
                add(true, part);
            }
            break;
        case update_mode::pressure:
            for (std::uint64_t i = 0; i < 4; ++i) {
                // The edges stay where they are when `made` grows, since a vector is moved, not copied.
                const std::vector<edge>& part = all.made.emplace_back(
                    pressure_edges(vertices, std::min<std::uint32_t>(1000, vertices), o.batch, o.seed + i));
                add(true, part);
                add(false, part);
            }
            break;
        case update_mode::then:
            for (const auto part : parts_of(change.removed, o.batch)) {
                add(false, part);
            }
            for (const auto part : parts_of(change.added, o.batch)) {
                add(true, part, true);
            }
            if (planned > o.most_batches) {
                return absl::InvalidArgumentError(
                    absl::StrFormat("the second version needs %d batches, and --batches is %d; raise it, or --batch",
                                    planned, o.most_batches));
            }
            break;
    }
    return all;
}

double weight_table::of(edge e) const {
    const auto at = std::ranges::lower_bound(input.edges, e);
    if (at != input.edges.end() && *at == e && !input.weights.empty()) {
        return input.weights[static_cast<std::size_t>(at - input.edges.begin())];
    }
    return static_cast<double>(1 + simt::below64(simt::random_bits(seed, 29, e.key), 64));
}

}  // namespace orchard::examples
