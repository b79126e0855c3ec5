// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The cost of finding, taking and returning segments: the 64-ary OR-tree, the published binary one, and a bitmap scan.
///
///     take_and_give_back   the lowest run of k is taken and returned
///     run_after_single     the same, with a change of the structure before each search
///     churn                half of all segments live; one at random is returned, the lowest is taken
///     mixed                as churn, but every 16th live run has 8 segments
///     segment_directory/grant_and_give_back   the directory, which records owners beside the tree
///
/// Axes: `segments` (of the super chunk), `taken_per_mille` (at random), `k` (segments of the run). An operation is one
/// take, one return, or one failed search if the structure has no run of k (the label says so). Every iteration leaves
/// the structure unchanged; `churn` and `mixed` leave it as full as before. Filling is not timed. Host code only; a
/// program of Google Benchmark, on one thread.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "host/or_tree.hpp"
#include "host/segment_directory.hpp"
#include "profiling/baselines/binary_or_tree.hpp"
#include "profiling/baselines/linear_bitmap.hpp"

namespace {

using namespace orchard;

// 2 GiB, 128 GiB and 2 TiB of segments; empty, half full, nearly full.
constexpr std::int64_t size_axis[] = {1 << 10, 1 << 16, 1 << 20};
constexpr std::int64_t fill_axis[] = {0, 500, 999};

// Returns a structure with `taken_per_mille` of its segments taken, at random, but at least one free.
template <class Structure>
Structure filled(std::uint32_t segments, std::uint32_t taken_per_mille) {
    if (taken_per_mille == 0) {
        return Structure(segments, true);
    }
    Structure s(segments, false);
    std::vector<std::uint32_t> order(segments);
    // Seeded by the size: all structures of one size have the same free segments.
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), std::mt19937_64{segments});
    const std::uint64_t wanted = std::uint64_t{segments} * (1000 - taken_per_mille) / 1000;
    order.resize(std::max<std::uint64_t>(wanted, 1));
    for (const std::uint32_t i : order) {
        benchmark::DoNotOptimize(s.give_back({segment_index{i}, 1}));
    }
    return s;
}

// Sets the count of operations, and the label if nothing was found. `operations`: takes, returns and failed searches of
// one iteration.
void report(benchmark::State& state, bool found, int operations) {
    state.SetItemsProcessed(state.iterations() * operations);
    if (!found) {
        state.SetLabel("no such run");
    }
}

// Takes the lowest run of k and returns it. The structure is the same at each search.
template <class Structure>
void take_and_give_back(benchmark::State& state) {
    auto s = filled<Structure>(static_cast<std::uint32_t>(state.range(0)), static_cast<std::uint32_t>(state.range(1)));
    const auto k = static_cast<std::uint32_t>(state.range(2));
    bool found = true;
    for (auto _ : state) {
        const auto first = s.take_run(k);
        found = first.has_value();
        if (found) {
            benchmark::DoNotOptimize(s.give_back({*first, k}));
        }
    }
    report(state, found, found ? 2 : 1);
}

// As take_and_give_back, but a single segment is taken before and returned after, so that the structure changes between
// searches for a run: the OR-tree must update its summaries first.
template <class Structure>
void run_after_single(benchmark::State& state) {
    auto s = filled<Structure>(static_cast<std::uint32_t>(state.range(0)), static_cast<std::uint32_t>(state.range(1)));
    const auto k = static_cast<std::uint32_t>(state.range(2));
    bool found = true;
    for (auto _ : state) {
        const segment_index single = s.take_run(1).value();
        const auto first = s.take_run(k);
        found = first.has_value();
        if (found) {
            benchmark::DoNotOptimize(s.give_back({*first, k}));
        }
        benchmark::DoNotOptimize(s.give_back({single, 1}));
    }
    report(state, found, found ? 4 : 3);
}

// Returns random indices, computed before the clock runs.
std::vector<std::uint32_t> random_slots(std::size_t below) {
    std::vector<std::uint32_t> slots(1 << 16);
    std::mt19937_64 random{7};
    for (auto& slot : slots) {
        slot = static_cast<std::uint32_t>(random() % below);
    }
    return slots;
}

// Half of all segments are live; each iteration returns one at random and takes the lowest, which is another one,
// because 64 returned segments are always waiting.
template <class Structure>
void churn(benchmark::State& state) {
    const auto segments = static_cast<std::uint32_t>(state.range(0));
    Structure s(segments, true);
    std::vector<segment_index> live(segments / 2);
    for (auto& i : live) {
        // The lower half is live: the lowest segments are taken first.
        i = *s.take_run(1);
    }
    const auto slots = random_slots(live.size());
    std::size_t turn = 0;
    for (auto _ : state) {
        // 64 returns, then 64 takes: with one at a time, the segment just returned would often be the lowest, and taken
        // again. A slot that is drawn twice in the 64 has one segment: its second return fails, and one take fills it.
        for (int j = 0; j < 64; ++j) {
            benchmark::DoNotOptimize(s.give_back({std::exchange(live[slots[turn + j]], no_segment), 1}));
        }
        for (int j = 0; j < 64; ++j) {
            segment_index& slot = live[slots[turn + j]];
            slot = slot == no_segment ? s.take_run(1).value() : slot;
        }
        turn = (turn + 64) % slots.size();
    }
    state.SetItemsProcessed(state.iterations() * 128);
}

// As churn, but every 16th live run has 8 segments.
template <class Structure>
void mixed(benchmark::State& state) {
    const auto segments = static_cast<std::uint32_t>(state.range(0));
    Structure s(segments, true);
    const auto width = [](std::size_t slot) { return slot % 16 == 0 ? 8u : 1u; };
    std::vector<segment_index> live(segments / 4);
    // Live segments are about a third of all: 15 of 16 runs have one segment, the others eight.
    for (std::size_t slot = 0; slot < live.size(); ++slot) {
        live[slot] = *s.take_run(width(slot));
    }
    const auto slots = random_slots(live.size());
    std::size_t turn = 0;
    for (auto _ : state) {
        for (int j = 0; j < 64; ++j) {
            const std::size_t slot = slots[turn + j];
            benchmark::DoNotOptimize(s.give_back({std::exchange(live[slot], no_segment), width(slot)}));
        }
        for (int j = 0; j < 64; ++j) {
            const std::size_t slot = slots[turn + j];
            live[slot] = live[slot] == no_segment ? s.take_run(width(slot)).value() : live[slot];
        }
        turn = (turn + 64) % slots.size();
    }
    state.SetItemsProcessed(state.iterations() * 128);
}

// Grants a random run and returns it, in a directory whose segments are all committed.
void directory_grant_and_give_back(benchmark::State& state) {
    const auto segments = static_cast<std::uint32_t>(state.range(0));
    const auto k = static_cast<std::uint32_t>(state.range(1));
    segment_directory directory(segments);
    benchmark::DoNotOptimize(directory.commit({segment_index{0}, segments}));
    // Runs that lie inside the directory, wherever they begin.
    const auto slots = random_slots(segments - k + 1);
    std::size_t turn = 0;
    for (auto _ : state) {
        const segment_run run{segment_index{slots[turn]}, k};
        benchmark::DoNotOptimize(directory.grant(run));
        benchmark::DoNotOptimize(directory.give_back(run));
        turn = (turn + 1) % slots.size();
    }
    state.SetItemsProcessed(state.iterations() * 2);
}

void pair_axes(benchmark::internal::Benchmark* b) {
    b->ArgNames({"segments", "taken_per_mille", "k"});
    for (const std::int64_t segments : size_axis) {
        for (const std::int64_t taken : fill_axis) {
            for (const std::int64_t k : {1, 2, 16, 512}) {
                b->Args({segments, taken, k});
            }
        }
    }
}

void after_single_axes(benchmark::internal::Benchmark* b) {
    b->ArgNames({"segments", "taken_per_mille", "k"})->ArgsProduct({{1 << 10, 1 << 16, 1 << 20}, {500}, {16, 512}});
}

void size_only(benchmark::internal::Benchmark* b) {
    b->ArgName("segments");
    for (const std::int64_t segments : size_axis) {
        b->Arg(segments);
    }
}

void directory_axes(benchmark::internal::Benchmark* b) {
    b->ArgNames({"segments", "k"})->ArgsProduct({{1 << 10, 1 << 16, 1 << 20}, {1, 16, 512}});
}

#define ORCHARD_BENCH_STRUCTURE(structure, name)                                                                       \
    BENCHMARK_TEMPLATE(take_and_give_back, structure)->Name(name "/take_and_give_back")->Apply(pair_axes);             \
    BENCHMARK_TEMPLATE(run_after_single, structure)->Name(name "/run_after_single")->Apply(after_single_axes);         \
    BENCHMARK_TEMPLATE(churn, structure)->Name(name "/churn")->Apply(size_only);                                       \
    BENCHMARK_TEMPLATE(mixed, structure)->Name(name "/mixed")->Apply(size_only)

ORCHARD_BENCH_STRUCTURE(or_tree, "or_tree");
ORCHARD_BENCH_STRUCTURE(baselines::binary_or_tree, "binary_or_tree");
ORCHARD_BENCH_STRUCTURE(baselines::linear_bitmap, "linear_bitmap");
BENCHMARK(directory_grant_and_give_back)->Name("segment_directory/grant_and_give_back")->Apply(directory_axes);

}  // namespace
