// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The checks of a walk; see checks.hpp. Walks are checked by all cores at the same time: counters are relaxed atomics,
/// which are read after the threads were joined.

#include "examples/walk/checks.hpp"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/graph/parallel.hpp"

namespace orchard::examples {

namespace {

void count(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) {
    counter.fetch_add(n, std::memory_order_relaxed);  // read after the threads were joined
}

/// Lowers a number to `value` if that is less. The lowest faulty item is reported, so that the report does not depend
/// on the order of threads.
void lower(std::atomic<std::uint64_t>& least, std::uint64_t value) {
    std::uint64_t seen = least.load(std::memory_order_relaxed);
    while (value < seen && !least.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
}

/// Returns a check that `value`, a count of `what`, is not 0. It is not required, as some graphs are too small for
/// every path of the heap to be used.
check not_zero(const char* name, std::uint64_t value, const char* what) {
    return {name, value != 0, absl::StrFormat("%u %s", value, what), false};
}

}  // namespace

/// Cost: sorts each list, on all cores.
check check_adjacency(const host_graph& input, const host_graph& copied) {
    if (input.vertices() != copied.vertices()) {
        return {"adjacency equals the input", false,
                absl::StrFormat("%u vertices, the input has %u", copied.vertices(), input.vertices())};
    }
    std::atomic<std::uint64_t> wrong{0};
    std::atomic<std::uint64_t> first{~0ull};
    parallel_for(input.vertices(), [&](std::uint64_t i) {
        const auto v = static_cast<std::uint32_t>(i);
        // Sorted lists are compared, so that a neighbour that is missing, there twice, or wrong is found.
        const std::span<const std::uint32_t> expected = input.of(v);
        const std::span<const std::uint32_t> found = copied.of(v);
        std::vector<std::uint32_t> ascending(found.begin(), found.end());
        std::sort(ascending.begin(), ascending.end());
        if (!std::equal(expected.begin(), expected.end(), ascending.begin(), ascending.end())) {
            count(wrong);
            lower(first, v);
        }
    });
    std::string detail = absl::StrFormat("%u vertices, %u neighbours; %u vertices differ", input.vertices(),
                                         copied.neighbours.size(), wrong.load());
    if (wrong.load() != 0) {
        const auto v = static_cast<std::uint32_t>(first.load());
        absl::StrAppend(&detail, ", the first is ", v, " (degree ", copied.degree(v), ", in the input ",
                        input.degree(v), ")");
    }
    return {"adjacency equals the input", wrong.load() == 0, detail};
}

walk_checker::walk_checker(const host_graph& input, const host_graph& copied, const walk_rule& rule)
    : input_{input}, copied_{copied}, rule_{rule}, visits_(input.vertices(), 0) {}

void walk_checker::add(std::uint64_t walker, std::span<const std::uint32_t> walk) {
    count(walks_);
    check_steps(walker, walk);
    if (!walk_again(walker, walk)) {
        count(wrong_walks_);
    }
}

/// Counts the steps of a walk that are neither an edge of the input nor an allowed restart. Vertices that do not exist
/// count as wrong and are looked up nowhere.
void walk_checker::check_steps(std::uint64_t walker, std::span<const std::uint32_t> walk) {
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i + 1 < walk.size(); ++i) {
        const std::uint32_t from = walk[i];
        const std::uint32_t to = walk[i + 1];
        const bool inside = from < input_.vertices() && to < input_.vertices();
        const bool restarts = inside && rule_.at_dead_end == dead_end::restart && input_.degree(from) == 0;
        wrong += inside && (restarts || has_edge(input_, from, to)) ? 0 : 1;
    }
    count(steps_, walk.empty() ? 0 : walk.size() - 1);
    if (wrong != 0) {
        count(wrong_steps_, wrong);
        lower(first_wrong_, walker);
    }
}

/// Walks on the host, counts its visits, and returns whether the device's walk has the same vertices and the same
/// length. The host's walk goes on behind the first difference, so that the visit counts are those of whole walks.
bool walk_checker::walk_again(std::uint64_t walker, std::span<const std::uint32_t> walk) {
    std::uint32_t vertex = rule_.start(walker);
    bool equal = true;
    for (std::uint32_t step = 0;;) {
        // Several threads check walks that visit the same vertex.
        std::atomic_ref<std::uint64_t>(visits_[vertex]).fetch_add(1, std::memory_order_relaxed);
        equal = equal && step < walk.size() && walk[step] == vertex;
        if (step == rule_.steps) {
            return equal && walk.size() == step + std::size_t{1};
        }
        ++step;
        const std::span<const std::uint32_t> choices = copied_.of(vertex);
        if (!choices.empty()) {
            vertex = choices[rule_.neighbour(walker, step, static_cast<std::uint32_t>(choices.size()))];
        } else if (rule_.at_dead_end == dead_end::restart) {
            vertex = rule_.restart(walker, step);
        } else {
            return equal && walk.size() == step;
        }
        if (vertex >= visits_.size()) {
            return false;  // the adjacency is broken, which another check reports
        }
    }
}

check walk_checker::every_step_an_edge() const {
    std::string detail =
        absl::StrFormat("%u steps of %u walkers; %u are no edge", steps_.load(), walks_.load(), wrong_steps_.load());
    if (wrong_steps_.load() != 0) {
        absl::StrAppend(&detail, ", the first in walk ", first_wrong_.load());
    }
    return {"every step is an edge", wrong_steps_.load() == 0, detail};
}

/// A run without any visit fails: nothing was checked.
check walk_checker::visits_equal(std::span<const std::uint64_t> device_visits) const {
    std::uint64_t sum = 0;
    std::uint64_t differing = 0;
    for (std::size_t v = 0; v < visits_.size(); ++v) {
        sum += visits_[v];
        differing += v >= device_visits.size() || visits_[v] != device_visits[v] ? 1 : 0;
    }
    return {"visits equal the host's walk", differing == 0 && wrong_walks_.load() == 0 && sum != 0,
            absl::StrFormat("%u visits; the counts of %u vertices and the lists of %u walks differ", sum, differing,
                            wrong_walks_.load())};
}

/// The first three checks hold for any program that frees what it allocates; the others say that this run was large
/// enough to use the heap's paths for chunks, groups, growing blocks and empty slabs.
std::vector<check> check_heap(const statistics& at_end, const absl::Status& validated) {
    const bool empty = at_end.allocations == at_end.frees && at_end.pages_in_use == 0 && at_end.live_chunks == 0;
    return {
        {"the heap is empty", empty,
         absl::StrFormat("%u allocations, %u frees; %u pages and %u large requests still in use", at_end.allocations,
                         at_end.frees, at_end.pages_in_use, at_end.live_chunks)},
        {"the heap is valid", validated.ok(),
         validated.ok() ? "all structures agree" : std::string(validated.message())},
        {"no allocation failed", at_end.failed_allocations == 0,
         absl::StrFormat("%u requests were answered with null", at_end.failed_allocations)},
        not_zero("large requests were made", at_end.chunk_allocations, "requests for whole segments"),
        not_zero("lanes asked in groups", at_end.multi_lane_groups, "groups of several lanes"),
        not_zero("lists moved as they grew", at_end.reallocs_moved, "calls of realloc moved their block"),
        not_zero("slabs were given back", at_end.slabs_retired, "slabs became segments again"),
    };
}

}  // namespace orchard::examples
