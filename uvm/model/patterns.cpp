// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The patterns; see patterns.hpp. All are functions of (thread or warp, step), except the graph walk, which keeps the
/// last edge of each thread.
///
///     own_reads<Rule>   random, same-index, sequential, strided: each lane reads its own memory in every step
///     growth_writes     each lane writes the next element of its own memory, in some steps
///     graph_reads       each lane reads an edge that lies in any thread's memory
///
/// A warp has threads 32 w to 32 w + 31. The last warp of a kernel may have fewer.

#include "uvm/model/patterns.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "device/simt/random.hpp"

namespace orchard::uvm_model {

namespace {

// Streams of random numbers, in addition to those of threads and warps.
constexpr std::uint64_t of_paces = 1ull << 62;
constexpr std::uint64_t of_starts = 1ull << 61;

constexpr std::array<pattern_entry, 6> entries{{
    {pattern::random, "random", "each thread reads elements of its own at random"},
    {pattern::same_index, "same-index", "the lanes of a warp read the element of one random index, each its own"},
    {pattern::sequential, "sequential", "each thread reads its elements in order, and again from the first"},
    {pattern::strided, "strided", "each thread reads every n-th element, then those behind them"},
    {pattern::graph_walk, "graph-walk", "each thread walks a graph at random, whose lists lie in all threads' memory"},
    {pattern::growth, "growth", "each thread fills its elements from the first on, at a pace of its own"},
}};

/// The parameters that the rules of all patterns share.
struct shape {
    explicit shape(const pattern_parameters& of)
        : threads{of.memory.threads},
          element_bytes{of.memory.element_bytes},
          elements{of.memory.bytes_per_thread / of.memory.element_bytes},
          accesses{of.accesses_per_thread},
          seed{of.seed} {}

    /// Returns the number of lanes of the warp whose first thread is `first`.
    [[nodiscard]] std::uint32_t width(std::uint64_t first) const {
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(max_lanes, threads - first));
    }

    std::uint64_t threads;
    std::uint64_t element_bytes;
    std::uint64_t elements;  // elements of a thread
    std::uint64_t accesses;
    std::uint64_t seed;
};

/// Reads of a thread's own memory, by all lanes in every step: `rule(shape, of, step)` returns the element. `of` is the
/// thread; with `Rule::one_for_all` it is the warp, and the element is that of all its lanes.
template <class Rule>
class own_reads final : public offset_source {
public:
    own_reads(const shape& of, Rule rule) : shape_{of}, rule_{rule} {}

    std::size_t step(std::uint32_t warp, std::uint64_t index, offset_buffer out) override {
        if (index >= shape_.accesses) {
            return 0;
        }
        const std::uint64_t first = std::uint64_t{warp} * max_lanes;
        const std::uint32_t width = shape_.width(first);
        // A rule for all lanes is evaluated once for the warp.
        std::uint64_t element = rule_(shape_, Rule::one_for_all ? warp : first, index);
        for (std::uint32_t l = 0; l < width; ++l) {
            if (!Rule::one_for_all && l != 0) {
                element = rule_(shape_, first + l, index);
            }
            out[l] = {first + l, element * shape_.element_bytes, static_cast<std::uint8_t>(l), access_kind::read};
        }
        return width;
    }

private:
    shape shape_;
    Rule rule_;
};

/// A random element for each thread and step (`OneForAll` false: the pattern random), or for each warp and step (true:
/// same-index). The stream of random numbers is the thread's or the warp's number.
template <bool OneForAll>
struct random_rule {
    static constexpr bool one_for_all = OneForAll;
    std::uint64_t operator()(const shape& s, std::uint64_t of, std::uint64_t index) const {
        return simt::below64(simt::random_bits(s.seed, of, index), s.elements);
    }
};

/// The elements in order; after the last one again the first.
struct sequential_rule {
    static constexpr bool one_for_all = true;
    std::uint64_t operator()(const shape& s, std::uint64_t, std::uint64_t index) const { return index % s.elements; }
};

/// Every `stride`-th element, then those behind them. With 10 elements and a stride of 4:
///
///     0 1 2 3
///     4 5 6 7        columns 0 and 1 have 3 elements, columns 2 and 3 have 2
///     8 9            order: 0 4 8, 1 5 9, 2 6, 3 7
struct strided_rule {
    static constexpr bool one_for_all = true;
    std::uint64_t stride;  // elements, at most as many as a thread has

    /// Column by column of a matrix whose rows are one stride long; the last row may be shorter.
    std::uint64_t operator()(const shape& s, std::uint64_t, std::uint64_t index) const {
        const std::uint64_t in_sweep = index % s.elements;
        const std::uint64_t rows = s.elements / stride;  // complete rows
        const std::uint64_t longer = s.elements % stride;
        // Elements in the columns that reach into the last, incomplete row.
        const std::uint64_t in_longer = longer * (rows + 1);
        if (in_sweep < in_longer) {
            return in_sweep % (rows + 1) * stride + in_sweep / (rows + 1);
        }
        const std::uint64_t rest = in_sweep - in_longer;
        return rest % rows * stride + longer + rest / rows;
    }
};

/// Every lane has a pace of 1 to 256 elements in 256 steps. One lane of each warp has the fastest pace, so that no step
/// is empty: a step without accesses would end the warp.
///
/// A lane with pace p has filled (i * p) / 256 elements, rounded down, before step i; it writes in step i if that
/// number grows. With p = 64 it writes in steps 3, 7, 11, ...
class growth_writes final : public offset_source {
public:
    explicit growth_writes(const shape& of) : shape_{of} {}

    std::size_t step(std::uint32_t warp, std::uint64_t index, offset_buffer out) override {
        if (index >= std::min(shape_.accesses, shape_.elements)) {
            return 0;
        }
        const std::uint64_t first = std::uint64_t{warp} * max_lanes;
        const std::uint32_t width = shape_.width(first);
        const std::uint64_t fastest = simt::below64(simt::random_bits(shape_.seed, of_paces, warp), width);
        std::size_t count = 0;
        for (std::uint32_t l = 0; l < width; ++l) {
            const std::uint64_t drawn =
                1 + simt::below64(simt::random_bits(shape_.seed, of_paces + 1, first + l), steps_of_pace);
            const std::uint64_t pace = l == fastest ? steps_of_pace : drawn;
            const std::uint64_t filled = index * pace / steps_of_pace;
            // The step fills element number `filled`. The pace is at most 256, so that the number grows by at most 1.
            if ((index + 1) * pace / steps_of_pace != filled) {
                const std::uint64_t offset = filled * shape_.element_bytes;
                out[count++] = {first + l, offset, static_cast<std::uint8_t>(l), access_kind::write};
            }
        }
        return count;
    }

private:
    static constexpr std::uint64_t steps_of_pace = 256;
    shape shape_;
};

/// All lists, one after another, lie in the threads' memory, in equal parts: edge e is element e mod p of thread e / p.
/// A step reads one random edge of the lane's current vertex, and moves to the edge's end. At first, and from a vertex
/// without edges, the lane moves to a random vertex.
class graph_reads final : public offset_source {
public:
    graph_reads(const shape& of, std::shared_ptr<const csr> graph)
        : shape_{of},
          graph_{std::move(graph)},
          per_thread_{(graph_->edges() + of.threads - 1) / of.threads},
          edges_(of.threads),
          steps_((of.threads + max_lanes - 1) / max_lanes) {}

    std::size_t step(std::uint32_t warp, std::uint64_t index, offset_buffer out) override {
        if (index >= shape_.accesses) {
            return 0;
        }
        const std::uint64_t first = std::uint64_t{warp} * max_lanes;
        const std::uint32_t width = shape_.width(first);
        if (index == 0) {
            for (std::uint32_t l = 0; l < width; ++l) {
                edges_[first + l] = edge_of(any_vertex(first + l, 0), first + l, 0);
            }
        } else if (index != steps_[warp]) {
            // The last requested step is remembered, because it may be requested again. There is one loop for each kind
            // of load, so that the cache misses of all lanes overlap.
            std::array<std::uint64_t, max_lanes> at;
            for (std::uint32_t l = 0; l < width; ++l) {
                at[l] = graph_->to[edges_[first + l]];
                __builtin_prefetch(&graph_->begin[at[l]]);
            }
            for (std::uint32_t l = 0; l < width; ++l) {
                edges_[first + l] = edge_of(at[l], first + l, index);
            }
        }
        steps_[warp] = index;
        for (std::uint32_t l = 0; l < width; ++l) {
            const std::uint64_t edge = edges_[first + l];
            __builtin_prefetch(&graph_->to[edge]);  // for the next step
            const std::uint64_t thread = edge / per_thread_;
            const std::uint64_t offset = (edge - thread * per_thread_) * shape_.element_bytes;
            out[l] = {thread, offset, static_cast<std::uint8_t>(l), access_kind::read};
        }
        return width;
    }

private:
    /// Returns the length of the list of a vertex.
    [[nodiscard]] std::uint64_t degree(std::uint64_t v) const { return graph_->begin[v + 1] - graph_->begin[v]; }
    /// Returns a random vertex that has edges: the next one from a random vertex on.
    [[nodiscard]] std::uint64_t any_vertex(std::uint64_t thread, std::uint64_t index) const {
        std::uint64_t v = simt::below64(simt::random_bits(shape_.seed, of_starts + thread, index), graph_->vertices());
        while (degree(v) == 0) {
            v = v + 1 == graph_->vertices() ? 0 : v + 1;
        }
        return v;
    }
    /// Returns the edge that `thread`, now at vertex `v`, reads in step `index`: a random one of the vertex's list.
    [[nodiscard]] std::uint64_t edge_of(std::uint64_t v, std::uint64_t thread, std::uint64_t index) const {
        const std::uint64_t from = degree(v) != 0 ? v : any_vertex(thread, index);
        return graph_->begin[from] + simt::below64(simt::random_bits(shape_.seed, thread, index), degree(from));
    }

    shape shape_;
    std::shared_ptr<const csr> graph_;
    std::uint64_t per_thread_;          // edges of each thread
    std::vector<std::uint64_t> edges_;  // of each thread, in its warp's step
    std::vector<std::uint64_t> steps_;  // of each warp: the last requested step
};

/// A stride of more than all elements is as good as one of all elements: sequential.
absl::StatusOr<std::unique_ptr<offset_source>> make_strided(const pattern_parameters& of) {
    const std::uint64_t element = of.memory.element_bytes;
    if (of.stride == 0 || of.stride % element != 0) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a stride of %d bytes: a multiple of the element's %d is needed", of.stride, element));
    }
    const shape s(of);
    const strided_rule rule{std::min(of.stride / element, s.elements)};
    return std::make_unique<own_reads<strided_rule>>(s, rule);
}

/// Checks the given graph, or makes one. A graph from `graph_for` is valid and fits.
absl::StatusOr<std::unique_ptr<offset_source>> make_graph_walk(const pattern_parameters& of) {
    const shape s(of);
    const std::uint64_t room = s.threads * s.elements;
    std::shared_ptr<const csr> graph = of.graph;
    if (graph == nullptr) {
        absl::StatusOr<std::shared_ptr<const csr>> made = graph_for(of);
        if (!made.ok()) {
            return made.status();
        }
        graph = *std::move(made);
    } else if (absl::Status valid = validate(*graph); !valid.ok()) {
        return valid;
    }
    if (graph->edges() > room) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a graph of %d edges: the threads' memory has room for %d elements of %d bytes",
                            graph->edges(), room, s.element_bytes));
    }
    return std::make_unique<graph_reads>(s, std::move(graph));
}

}  // namespace

std::span<const pattern_entry> patterns() { return entries; }

absl::StatusOr<pattern> pattern_named(std::string_view name) {
    std::string names;
    for (const pattern_entry& e : entries) {
        if (e.name == name) {
            return e.which;
        }
        names += names.empty() ? "" : ", ";
        names += e.name;
    }
    return absl::InvalidArgumentError(absl::StrFormat("there is no pattern %s; there are: %s", name, names));
}

absl::StatusOr<std::shared_ptr<const csr>> graph_for(const pattern_parameters& of) {
    if (absl::StatusOr<placement> p = placement::create(of.memory); !p.ok()) {
        return p.status();
    }
    // List entries for each vertex.
    constexpr std::uint64_t mean_degree = 16;
    const shape s(of);
    const std::uint64_t room = s.threads * s.elements;
    const std::uint64_t vertices = of.vertices != 0 ? of.vertices : std::max<std::uint64_t>(2, room / mean_degree);
    absl::StatusOr<csr> made = power_law(vertices, room, of.seed);
    if (!made.ok()) {
        return made.status();
    }
    return std::make_shared<const csr>(*std::move(made));
}

absl::StatusOr<std::unique_ptr<offset_source>> make_offsets(pattern which, const pattern_parameters& of) {
    if (absl::StatusOr<placement> p = placement::create(of.memory); !p.ok()) {
        return p.status();
    }
    if (of.accesses_per_thread == 0) {
        return absl::InvalidArgumentError("0 accesses for each thread: at least 1 is needed");
    }
    const shape s(of);
    switch (which) {
        case pattern::random: return std::make_unique<own_reads<random_rule<false>>>(s, random_rule<false>{});
        case pattern::same_index: return std::make_unique<own_reads<random_rule<true>>>(s, random_rule<true>{});
        case pattern::sequential: return std::make_unique<own_reads<sequential_rule>>(s, sequential_rule{});
        case pattern::strided: return make_strided(of);
        case pattern::graph_walk: return make_graph_walk(of);
        case pattern::growth: return std::make_unique<growth_writes>(s);
    }
    return absl::InvalidArgumentError(absl::StrFormat("there is no pattern number %d", static_cast<int>(which)));
}

absl::StatusOr<std::unique_ptr<access_source>> make_pattern(pattern which, const pattern_parameters& of) {
    absl::StatusOr<std::unique_ptr<offset_source>> offsets = make_offsets(which, of);
    if (!offsets.ok()) {
        return offsets.status();
    }
    // `make_offsets` has made the same placement, so that this one cannot fail.
    return placed(*std::move(offsets), *placement::create(of.memory));
}

}  // namespace orchard::uvm_model
