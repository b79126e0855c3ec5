// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The cost of finding, taking and returning segments: the 64-ary OR-tree, the published binary one, a bitmap scan, and
/// van Emde Boas trees (the textbook's, the same with words at the leaves, and Gallatin's).
///
///     take_and_give_back   the lowest run of k is taken and returned
///     run_after_single     the same, with a change of the structure before each search
///     churn                half of all segments live; one at random is returned, the lowest is taken
///     mixed                as churn, but every 16th live run has 8 segments
///     segment_directory/grant_and_give_back   the directory, which records owners beside the tree
///     build                a structure with every segment free is created, in memory that is not yet mapped
///     find_first           the lowest free segment is found, not taken
///     find_next            the lowest free segment above a random one is found (the OR-tree has no such operation)
///     find_run             the lowest run of k is found, not taken; the structure is that of the search before
///     toggle               a random segment is taken and returned if it is free, returned and taken otherwise
///
/// Axes: `segments` (of the super chunk), `taken_per_mille` (at random; 1000: one segment is free), `k` (segments of
/// the run). An operation is one build, one search, one take, one return, or one failed search if the structure has no
/// run of k (the label says so). Every iteration leaves the structure unchanged; `churn` and `mixed` leave it as full
/// as before. Filling is not timed. Counter `bytes` of `build` and `find_first`: the memory that the structure has
/// allocated. Host code only; a program of Google Benchmark, on one thread.

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "host/or_tree.hpp"
#include "host/segment_directory.hpp"
#include "profiling/baselines/binary_or_tree.hpp"
#include "profiling/baselines/gallatin_veb_tree.hpp"
#include "profiling/baselines/linear_bitmap.hpp"
#include "profiling/baselines/successor_runs.hpp"
#include "profiling/baselines/veb_tree.hpp"

namespace {

// Bytes of all blocks that `new` has given out and `delete` has not taken back, as large as the allocator made them.
std::size_t allocated_bytes = 0;

}  // namespace

// The operators that a program may replace; those of arrays call these.
void* operator new(std::size_t size, std::align_val_t alignment) {
    const auto align = static_cast<std::size_t>(alignment);
    void* const block = std::aligned_alloc(align, (size + align - 1) / align * align);
    if (block == nullptr) {
        throw std::bad_alloc();
    }
    allocated_bytes += malloc_usable_size(block);
    return block;
}

void* operator new(std::size_t size) { return operator new (size, std::align_val_t{alignof(std::max_align_t)}); }

void operator delete(void* block) noexcept {
    allocated_bytes -= malloc_usable_size(block);  // 0 for null
    std::free(block);
}

void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

void operator delete(void* block, std::align_val_t) noexcept { operator delete(block); }

void operator delete(void* block, std::size_t, std::align_val_t) noexcept { operator delete(block); }

namespace {

using namespace orchard;

using textbook_veb = baselines::successor_runs<baselines::textbook_veb_tree>;
using word_leaf_veb = baselines::successor_runs<baselines::word_leaf_veb_tree>;
using gallatin_veb = baselines::successor_runs<baselines::gallatin_veb_tree>;

// 2 GiB, 128 GiB and 2 TiB of segments; empty, half full, nearly full.
constexpr std::int64_t size_axis[] = {1 << 10, 1 << 16, 1 << 20};
constexpr std::int64_t fill_axis[] = {0, 500, 999};
// The comparison of trees goes from 2 GiB to the most segments that a heap may have, 32 TiB.
const std::vector<std::int64_t> tree_size_axis = {1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24};

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

// A structure that has been filled, and the bytes that it has allocated.
template <class Structure>
struct filled_structure {
    std::int64_t segments;
    std::int64_t taken_per_mille;
    std::optional<Structure> structure;
    double bytes;
};

// Returns a structure of `state.range(0)` segments with `state.range(1)` of 1,000 taken. Kept for the next call, since
// all repetitions of a benchmark need the same one and 16 million segments take seconds to fill. The caller must leave
// it as it was.
template <class Structure>
filled_structure<Structure>& kept(benchmark::State& state) {
    static std::unique_ptr<filled_structure<Structure>> last;
    if (last == nullptr || last->segments != state.range(0) || last->taken_per_mille != state.range(1)) {
        last.reset();
        last = std::make_unique<filled_structure<Structure>>();
        const std::size_t before = allocated_bytes;
        last->segments = state.range(0);
        last->taken_per_mille = state.range(1);
        last->structure.emplace(
            filled<Structure>(static_cast<std::uint32_t>(state.range(0)), static_cast<std::uint32_t>(state.range(1))));
        last->bytes = static_cast<double>(allocated_bytes - before);
    }
    return *last;
}

// Returns the processor time of this thread in seconds.
double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Creates a structure whose segments are all free. Before each turn the allocator returns its unused pages to the
// kernel, so that the zeroing of fresh pages is part of the cost, as at the start of a program. The destruction is not
// timed. The clock itself adds about 0.2 us.
template <class Structure>
void build(benchmark::State& state) {
    double bytes = 0;
    for (auto _ : state) {
        malloc_trim(0);
        const std::size_t before = allocated_bytes;
        const double begin = thread_seconds();
        Structure s(static_cast<std::uint32_t>(state.range(0)), true);
        benchmark::DoNotOptimize(s);
        state.SetIterationTime(thread_seconds() - begin);
        bytes = static_cast<double>(allocated_bytes - before);
    }
    state.counters["bytes"] = bytes;
}

template <class Structure>
void find_first(benchmark::State& state) {
    const auto& filled = kept<Structure>(state);
    for (auto _ : state) {
        benchmark::DoNotOptimize(filled.structure->find_run(1));
    }
    state.counters["bytes"] = filled.bytes;
}

template <class Structure>
void find_next(benchmark::State& state) {
    const auto& s = kept<Structure>(state).structure;
    const auto slots = random_slots(static_cast<std::size_t>(state.range(0)));
    std::size_t turn = 0;
    for (auto _ : state) {
        benchmark::DoNotOptimize(s->successor(segment_index{slots[turn]}));
        turn = (turn + 1) % slots.size();
    }
}

template <class Structure>
void find_run(benchmark::State& state) {
    const auto& s = kept<Structure>(state).structure;
    const auto k = static_cast<std::uint32_t>(state.range(2));
    bool found = true;
    for (auto _ : state) {
        found = s->find_run(k).has_value();
    }
    report(state, found, 1);
}

// Whether a segment is free is not asked: a take that is refused says that it is not, and costs one look.
template <class Structure>
void toggle(benchmark::State& state) {
    auto& s = kept<Structure>(state).structure;
    const auto slots = random_slots(static_cast<std::size_t>(state.range(0)));
    std::size_t turn = 0;
    for (auto _ : state) {
        const segment_run run{segment_index{slots[turn]}, 1};
        if (s->take(run)) {
            benchmark::DoNotOptimize(s->give_back(run));
        } else {
            benchmark::DoNotOptimize(s->give_back(run));
            benchmark::DoNotOptimize(s->take(run));
        }
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

void tree_sizes(benchmark::internal::Benchmark* b) { b->ArgName("segments")->ArgsProduct({tree_size_axis}); }

// The sizes of `tree_size_axis` that `size_only` leaves out.
void more_sizes(benchmark::internal::Benchmark* b) {
    b->ArgName("segments")->Arg(1 << 14)->Arg(1 << 18)->Arg(1 << 22)->Arg(1 << 24);
}

void first_axes(benchmark::internal::Benchmark* b) {
    b->ArgNames({"segments", "taken_per_mille"})->ArgsProduct({tree_size_axis, {0, 500, 999, 1000}});
}

void random_axes(benchmark::internal::Benchmark* b) {
    b->ArgNames({"segments", "taken_per_mille"})->ArgsProduct({tree_size_axis, {0, 500, 999}});
}

void run_axes(benchmark::internal::Benchmark* b) {
    b->ArgNames({"segments", "taken_per_mille", "k"})->ArgsProduct({tree_size_axis, {0, 500}, {16, 512}});
}

#define ORCHARD_BENCH_STRUCTURE(structure, name)                                                                       \
    BENCHMARK_TEMPLATE(take_and_give_back, structure)->Name(name "/take_and_give_back")->Apply(pair_axes);             \
    BENCHMARK_TEMPLATE(run_after_single, structure)->Name(name "/run_after_single")->Apply(after_single_axes);         \
    BENCHMARK_TEMPLATE(churn, structure)->Name(name "/churn")->Apply(size_only);                                       \
    BENCHMARK_TEMPLATE(mixed, structure)->Name(name "/mixed")->Apply(size_only)

// What only trees are compared in, up to 16 million segments.
#define ORCHARD_BENCH_TREE(structure, name)                                                                            \
    ORCHARD_BENCH_STRUCTURE(structure, name);                                                                          \
    BENCHMARK_TEMPLATE(build, structure)->Name(name "/build")->Apply(tree_sizes)->UseManualTime();                     \
    BENCHMARK_TEMPLATE(find_first, structure)->Name(name "/find_first")->Apply(first_axes);                            \
    BENCHMARK_TEMPLATE(toggle, structure)->Name(name "/toggle")->Apply(random_axes);                                   \
    BENCHMARK_TEMPLATE(churn, structure)->Name(name "/churn")->Apply(more_sizes);                                      \
    BENCHMARK_TEMPLATE(find_run, structure)->Name(name "/find_run")->Apply(run_axes)

ORCHARD_BENCH_TREE(or_tree, "or_tree");
ORCHARD_BENCH_TREE(baselines::binary_or_tree, "binary_or_tree");
ORCHARD_BENCH_TREE(textbook_veb, "textbook_veb");
ORCHARD_BENCH_TREE(word_leaf_veb, "word_leaf_veb");
ORCHARD_BENCH_TREE(gallatin_veb, "gallatin_veb");
BENCHMARK_TEMPLATE(find_next, baselines::binary_or_tree)->Name("binary_or_tree/find_next")->Apply(random_axes);
BENCHMARK_TEMPLATE(find_next, textbook_veb)->Name("textbook_veb/find_next")->Apply(random_axes);
BENCHMARK_TEMPLATE(find_next, word_leaf_veb)->Name("word_leaf_veb/find_next")->Apply(random_axes);
BENCHMARK_TEMPLATE(find_next, gallatin_veb)->Name("gallatin_veb/find_next")->Apply(random_axes);
ORCHARD_BENCH_STRUCTURE(baselines::linear_bitmap, "linear_bitmap");
BENCHMARK_TEMPLATE(find_run, baselines::linear_bitmap)->Name("linear_bitmap/find_run")->Apply(run_axes);
BENCHMARK(directory_grant_and_give_back)->Name("segment_directory/grant_and_give_back")->Apply(directory_axes);

}  // namespace
