// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The cost of placing and releasing portions: the portion tree with each policy, and the published one, which scans.
///
///     portion_tree_packed, portion_tree_padded   host/portion_tree.hpp
///     linear_scan                                baselines/linear_portion_tree.hpp, the padded policy
///
///     take_and_release    a portion of random size, in a space that is full but for what was released
///     churn               a random live portion is released, and one of its size taken
///
/// Axes: `blocks` (VA blocks in the space), `released_per_mille` (of the portions in a full space, at random; at least
/// one). An operation is one take, one release, or one failed take. Every iteration leaves the space as full as before.
/// Filling the space is not timed. Host code only; a program of Google Benchmark.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "host/portion_tree.hpp"
#include "profiling/baselines/linear_portion_tree.hpp"

namespace {

using namespace orchard;

/// The published tree, with the marking that keeps its own rule, behind the same calls.
class linear_scan {
public:
    linear_scan(std::uint32_t blocks, const std::vector<portion>& taken)
        : tree_(blocks, baselines::portion_marking::reserving) {
        for (const portion& p : taken) {
            tree_.occupy(p);
        }
    }
    std::optional<portion> take(leaf_count asked) { return tree_.take(asked); }
    portion_release release(const portion& p) {
        tree_.release(p);
        return portion_release::released;
    }

private:
    baselines::linear_portion_tree tree_;
};

/// A structure, and the portions that are taken in it.
template <class Structure>
struct space {
    Structure structure;
    std::vector<portion> live;
};

/// Returns a random length in leaves: any for packed portions, up to half a VA block for padded ones.
std::uint32_t some_leaves(std::mt19937_64& random, portion_policy policy) {
    return 1 + static_cast<std::uint32_t>(random() % (policy == portion_policy::packed ? 31 : 16));
}

// Returns a space in which portions of all sizes were taken until none of one leaf was free, and some were then
// released, at least one.
space<portion_tree> filled_tree(std::uint32_t blocks, portion_policy policy, std::int64_t released_per_mille) {
    space<portion_tree> s{portion_tree({blocks, policy}), {}};
    std::mt19937_64 random{blocks};
    // All blocks are given to the tree first; otherwise it would have none to divide.
    for (std::uint32_t i = 0; i < blocks; ++i) {
        benchmark::DoNotOptimize(s.structure.join(segment_index{i}));
    }
    // One leaf and a random length in turn, until no leaf is free.
    for (auto p = s.structure.take(leaf_count{1}); p; p = s.structure.take(leaf_count{1})) {
        s.live.push_back(*p);
        if (const auto more = s.structure.take(leaf_count{some_leaves(random, policy)})) {
            s.live.push_back(*more);
        }
    }
    std::shuffle(s.live.begin(), s.live.end(), random);
    const auto released = static_cast<std::int64_t>(s.live.size()) * released_per_mille / 1000;
    // At least one, so that a take can succeed at all.
    for (std::int64_t i = 0; i < std::max<std::int64_t>(released, 1); ++i) {
        benchmark::DoNotOptimize(s.structure.release(s.live.back()));
        s.live.pop_back();
    }
    return s;
}

/// Returns the same space for each structure: the baseline is filled with the portions of the tree, so that both are
/// measured on the same holes.
template <class Structure, portion_policy Policy>
space<Structure> filled(const benchmark::State& state) {
    const auto blocks = static_cast<std::uint32_t>(state.range(0));
    auto s = filled_tree(blocks, Policy, state.range(1));
    if constexpr (std::is_same_v<Structure, portion_tree>) {
        return s;
    } else {
        return {Structure(blocks, s.live), std::move(s.live)};
    }
}

// Takes a portion of random size and releases it.
template <class Structure, portion_policy Policy>
void take_and_release(benchmark::State& state) {
    auto s = filled<Structure, Policy>(state);
    std::mt19937_64 random{3};
    // Sizes are drawn before the measurement, so that drawing is not timed.
    std::vector<leaf_count> sizes(1 << 12);
    std::generate(sizes.begin(), sizes.end(), [&] { return leaf_count{some_leaves(random, Policy)}; });
    std::size_t turn = 0;
    std::int64_t operations = 0;
    for (auto _ : state) {
        const auto p = s.structure.take(sizes[turn++ % sizes.size()]);
        if (p) {
            benchmark::DoNotOptimize(s.structure.release(*p));
        }
        operations += p ? 2 : 1;
    }
    state.SetItemsProcessed(operations);
}

// Releases a random live portion and takes one of its size, which is placed elsewhere.
template <class Structure, portion_policy Policy>
void churn(benchmark::State& state) {
    auto s = filled<Structure, Policy>(state);
    std::mt19937_64 random{4};
    // The slots, too.
    std::vector<std::uint32_t> slots(1 << 14);
    std::generate(slots.begin(), slots.end(), [&] { return static_cast<std::uint32_t>(random() % s.live.size()); });
    std::size_t turn = 0;
    for (auto _ : state) {
        portion& p = s.live[slots[turn++ % slots.size()]];
        benchmark::DoNotOptimize(s.structure.release(p));
        p = s.structure.take(p.leaves).value();
    }
    state.SetItemsProcessed(state.iterations() * 2);
}

/// The axes of all benchmarks: one VA block to 512 GiB of them, full or half full.
void axes(benchmark::internal::Benchmark* b) {
    b->ArgNames({"blocks", "released_per_mille"})->ArgsProduct({{1, 64, 1 << 12, 1 << 18}, {0, 500}});
}

#define ORCHARD_BENCH_PORTIONS(structure, policy, name)                                                                \
    BENCHMARK_TEMPLATE(take_and_release, structure, policy)->Name(name "/take_and_release")->Apply(axes);              \
    BENCHMARK_TEMPLATE(churn, structure, policy)->Name(name "/churn")->Apply(axes)

ORCHARD_BENCH_PORTIONS(portion_tree, portion_policy::packed, "portion_tree_packed");
ORCHARD_BENCH_PORTIONS(portion_tree, portion_policy::padded, "portion_tree_padded");
ORCHARD_BENCH_PORTIONS(linear_scan, portion_policy::padded, "linear_scan");

}  // namespace
