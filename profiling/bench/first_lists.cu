// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A part of `orchard bench first`: each thread makes a linked list of blocks, whose sizes differ much from thread to
/// thread. All lists are freed before the next round. The rows compare the memory that an elastic heap's size classes
/// hold, and its committed memory, with the live memory at the peak of a round, after few rounds and after many.
///
/// The question: does memory of a class stay with it although other rounds need other classes? Each round draws other
/// sizes, so that a heap that never gives slabs back would hold more and more.
///
///     divergent lists          times as in first.cu: `allocate` is the kernel that makes the lists, `free` the one
///                              that checks and frees them
///     divergent lists: memory  live_mib, held_mib, committed_mib after `round` rounds, lists still alive;
///                              held_of_live, committed_of_live: their ratios
///
/// Medians over new heaps. Writes of a node's two words are part of the kernel's time.

#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "profiling/bench/first.hpp"
#include "profiling/bench/first_launch.cuh"
#include "runtime/heap/device_memory.hpp"

namespace orchard::bench::first {
namespace {

using nlohmann::ordered_json;
using simt::order;

/// The lists of one round; all values are computed from the thread's number and the round.
struct list_plan {
    std::uint32_t threads;
    std::uint32_t max_nodes;  ///< of a list
    std::uint32_t round = 0;

    /// Returns the random number of a thread in this round.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t random(std::uint32_t i) const {
        return device::mix(i + device::mix(round + 0x51ed270b));
    }
    /// Returns the number of nodes, 1 to `max_nodes`.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t nodes(std::uint32_t i) const { return random(i) % max_nodes + 1; }
    /// Half of the threads have nodes of 16 to 512 B, a third have nodes of 1 to 8 KiB, and the rest have nodes of 8 to
    /// 64 KiB.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t bytes(std::uint32_t i, std::uint32_t node) const {
        const std::uint32_t kind = device::mix(random(i)) % 6;
        const std::uint32_t size = device::mix(random(i) + (node + 1) * 0x9e3779b9);
        return kind < 3 ? 16 + size % 497 : kind < 5 ? 1024 + size % 7169 : 8192 + size % 57'345;
    }
};

/// A list: its last node and the number of nodes. A node's first word is the address of the node before it, its last
/// whole word the stamp.
struct list {
    std::uint64_t* last;
    std::uint32_t nodes;
    std::uint32_t unused;
};

/// Returns the stamp of a node: thread and position, so that no two nodes of a round have the same.
ORCHARD_INLINE std::uint64_t stamp_of(std::uint32_t i, std::uint32_t node) { return std::uint64_t{i} << 32 | node; }

/// The errors that were found in all rounds.
struct list_faults {
    simt::device_word<std::uint64_t> nulls;  ///< lists that ended early
    simt::device_word<std::uint64_t> wrong;  ///< lists with a wrong stamp or link
};

/// Each thread makes its list. It allocates, links and stamps node by node, so that the lanes of a warp leave the loop
/// one by one and ask for different sizes at the same time. A list ends at the first null.
struct make_lists {
    heap_ref heap;
    list_plan plan;
    list* lists;
    list_faults* found;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i >= plan.threads) {
            return;
        }
        list made{nullptr, 0, 0};
        for (const std::uint32_t nodes = plan.nodes(i); made.nodes < nodes; ++made.nodes) {
            const std::uint32_t bytes = plan.bytes(i, made.nodes);
            auto* const node = static_cast<std::uint64_t*>(heap.malloc(bytes));
            if (node == nullptr) {
                found->nulls.fetch_add<order::relaxed>(1);
                break;
            }
            node[0] = reinterpret_cast<std::uint64_t>(made.last);
            node[bytes / sizeof(std::uint64_t) - 1] = stamp_of(i, made.nodes);
            made.last = node;
        }
        lists[i] = made;
    }
};

/// Frees each list from its end; each node is checked before it is freed: its address lies in the heap and its stamp is
/// that of this thread and position.
struct free_lists {
    heap_ref heap;
    list_plan plan;
    list* lists;
    list_faults* found;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i >= plan.threads) {
            return;
        }
        std::uint64_t* node = lists[i].last;
        for (std::uint32_t left = lists[i].nodes; left > 0; --left) {
            const std::uint32_t bytes = plan.bytes(i, left - 1);
            if (!heap.owns(node) || node[bytes / sizeof(std::uint64_t) - 1] != stamp_of(i, left - 1)) {
                found->wrong.fetch_add<order::relaxed>(1);
                return;  // the address in it may be wrong as well
            }
            auto* const before = reinterpret_cast<std::uint64_t*>(node[0]);
            heap.free(node);
            node = before;
        }
    }
};

/// Memory at the peak of a round.
struct levels {
    std::vector<double> live_mib;       ///< [heap] of pages that are allocated
    std::vector<double> held_mib;       ///< [heap] of segments that are slabs of a class
    std::vector<double> committed_mib;  ///< [heap] of physical memory
};

/// Rounds after which memory is measured, counted from 1.
constexpr std::array<std::uint32_t, 4> rounds_shown{1, 6, 20, 60};

/// The observations on all heaps; times are [heap][round], as in first.cu.
struct list_record {
    times_of_heaps make_us;
    times_of_heaps free_us;
    std::vector<double> first_wall_us;
    std::array<levels, rounds_shown.size()> at;  ///< in the order of `rounds_shown`
    std::uint64_t nulls = 0;
    std::uint64_t wrong = 0;
};

/// Adds the memory at this moment. The lists are alive and no kernel runs, so that the counts are exact.
absl::Status add_levels(heap& h, levels& at) {
    const auto stats = h.stats();
    if (!stats.ok()) {
        return stats.status();
    }
    std::uint64_t live = 0;
    std::uint64_t slabs = 0;
    for (const class_statistics& one : stats->classes) {
        live += one.pages_in_use * one.page_bytes;
        slabs += one.slabs;
    }
    at.live_mib.push_back(static_cast<double>(live) / mib);
    // A slab is a segment of 2 MiB.
    at.held_mib.push_back(static_cast<double>(slabs) * 2);
    at.committed_mib.push_back(static_cast<double>(stats->committed_bytes) / mib);
    return absl::OkStatus();
}

/// Checks by the heap's own counts that everything was freed.
absl::Status expect_empty(heap& h) {
    const auto stats = h.stats();
    if (!stats.ok()) {
        return stats.status();
    }
    return stats->pages_in_use == 0
               ? absl::OkStatus()
               : absl::InternalError(absl::StrFormat("%d pages are in use when all was freed", stats->pages_in_use));
}

/// Creates a heap, runs all rounds on it, and adds their times and memory. Errors: those of the heap, of launches and
/// of copies; Internal if pages are in use at the end.
absl::Status use_fresh_heap(launcher& on, const options& values, list_plan plan, std::uint32_t rounds,
                            list_record& all) {
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    auto lists = device_array<list>::create(h->executor(), plan.threads);
    auto found = device_array<list_faults>::create(h->executor(), 1);
    if (!lists.ok() || !found.ok()) {
        return lists.ok() ? found.status() : lists.status();
    }
    std::vector<double>& make_us = all.make_us.emplace_back();
    std::vector<double>& free_us = all.free_us.emplace_back();
    std::size_t shown = 0;
    for (std::uint32_t round = 0; round < rounds; ++round) {
        plan.round = round;
        const auto made = on.run(make_lists{h->ref(), plan, lists->data(), found->data()}, plan.threads);
        absl::Status status = made.status();
        // Between making and freeing: the peak of the round. This copies the counters, but outside both timed kernels.
        if (status.ok() && shown < rounds_shown.size() && round + 1 == rounds_shown[shown]) {
            status.Update(add_levels(*h, all.at[shown++]));
        }
        const auto freed = on.run(free_lists{h->ref(), plan, lists->data(), found->data()}, plan.threads);
        status.Update(freed.status());
        if (!status.ok()) {
            return status;
        }
        make_us.push_back(made->kernel_us);
        free_us.push_back(freed->kernel_us);
        if (round == 0) {
            all.first_wall_us.push_back(made->wall_us);
        }
    }
    list_faults counted{};
    absl::Status status = found->download({&counted, 1});
    all.nulls += counted.nulls.load<order::relaxed>();
    all.wrong += counted.wrong.load<order::relaxed>();
    if (counted.wrong.load<order::relaxed>() == 0) {  // a list with a wrong node is not freed to its end
        status.Update(expect_empty(*h));
    }
    return status;
}

/// Adds one row of times, and a row of memory for each of the rounds shown.
void add_rows(const list_plan& plan, std::uint32_t rounds, const list_record& all, ordered_json& rows) {
    ordered_json times{{"what", "divergent lists"}, {"backing", "elastic"},
                       {"threads", plan.threads},   {"heaps", all.make_us.size()},
                       {"repetitions", rounds},     {"settled_of", rounds - settled_from(rounds)}};
    add_times(times, "allocate", all.make_us);
    times["first_wall_us"] = median(all.first_wall_us);
    times["first_less_settled_ms"] = first_less_settled_ms(all.make_us);
    add_times(times, "free", all.free_us);
    times["nulls"] = all.nulls;
    times["wrong_stamps"] = all.wrong;
    rows.push_back(std::move(times));
    // With --quick there are 24 rounds: the last of `rounds_shown` is left out.
    for (std::size_t i = 0; i < rounds_shown.size() && rounds_shown[i] <= rounds; ++i) {
        const double live = median(all.at[i].live_mib);
        const double held = median(all.at[i].held_mib);
        const double committed = median(all.at[i].committed_mib);
        const auto of_round = [&](const std::vector<double>& times_us) { return times_us.at(rounds_shown[i] - 1); };
        rows.push_back({{"what", "divergent lists: memory"},
                        {"backing", "elastic"},
                        {"threads", plan.threads},
                        {"heaps", all.make_us.size()},
                        {"round", rounds_shown[i]},
                        {"live_mib", live},
                        {"held_mib", held},
                        {"committed_mib", committed},
                        {"held_of_live", live > 0 ? held / live : 0},
                        {"committed_of_live", live > 0 ? committed / live : 0},
                        {"allocate_us", median_over(all.make_us, of_round)},
                        {"free_us", median_over(all.free_us, of_round)}});
    }
}

}  // namespace

absl::Status measure_lists(const settings& s, ordered_json& rows) {
    constexpr std::uint64_t capacity = std::uint64_t{16} << 30;
    // On average 3.5 nodes of 7.6 KiB, that is, 1.7 GiB of 65,536 threads, and 16.7 MiB of 640.
    const list_plan plan{s.device == simt::device_kind::cuda ? 65'536 / divisor(s) : 640, 6};
    const std::uint32_t rounds = s.quick ? 24 : 60;
    simt::executor device;
    device.kind = s.device;
    device.workers = static_cast<unsigned>(s.heap.emulated_workers);
    // Its own launcher and its own loading, since these are other kernels than those of first.cu.
    launcher on(device);
    const auto loading_ms = on.load<make_lists>();
    absl::Status status = loading_ms.status();
    status.Update(on.load<free_lists>().status());
    if (status.ok() && on.is_cuda()) {
        rows.push_back({{"what", "loading"}, {"kernel", "makes lists, with its module"}, {"loading_ms", *loading_ms}});
    }
    list_record all;
    for (int i = 0; i < heaps_of(s, 3) && status.ok(); ++i) {
        status.Update(use_fresh_heap(on, options_of(s, backing_option::elastic, capacity), plan, rounds, all));
        let_memory_rest(s);
    }
    if (status.ok()) {
        add_rows(plan, rounds, all, rows);
    }
    return status;
}

}  // namespace orchard::bench::first
