// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Every thread has a table of its own and computes it step by step, in step with the other threads of its warp. The
/// table counts the ways to pay an amount of money. The example runs once with a plain block for each thread, and once
/// with an array of lanes.
///
///     blocks    | lane 0: 0 1 2 3 ... | lane 1: 0 1 2 3 ... |     step n: 32 places, one in each block
///     arrays    | 0 of all lanes | 1 of all lanes | ...           step n: one piece of memory
///
/// `ways_to_pay` is one template for both: a `lane_array` is indexed as a pointer is.

#include <array>
#include <cstdint>
#include <orchard/device.cuh>
#include <orchard/heap.hpp>
#include <vector>

#include "absl/strings/str_format.h"
#include "examples/layout/examples.hpp"
#include "runtime/cli/program_heap.hpp"

namespace orchard::examples {
namespace {

/// Returns the number of ways to pay `amount` pence with British coins. `ways`: `amount` + 1 elements, a plain pointer
/// or an array of lanes. After the coins 1 to c, ways[s] is the number of ways to pay s with these coins: the ways
/// without c, and those of s - c, to which one more c is added.
template <class Table>
ORCHARD_FN constexpr std::uint32_t ways_to_pay(std::uint32_t amount, const Table& ways) {
    for (std::uint32_t sum = 0; sum <= amount; ++sum) {
        ways[sum] = sum == 0 ? 1 : 0;
    }
    constexpr std::uint32_t coins[] = {1, 2, 5, 10, 20, 50, 100, 200};
    for (const std::uint32_t coin : coins) {
        for (std::uint32_t sum = coin; sum <= amount; ++sum) {
            ways[sum] += ways[sum - coin];
        }
    }
    return ways[amount];
}

/// The same function at compile time: its result for two pounds is well known.
constexpr std::uint32_t ways_to_pay_two_pounds() {
    std::array<std::uint32_t, 201> ways{};
    return ways_to_pay(200, ways.data());
}
static_assert(ways_to_pay_two_pounds() == 73'682);

/// Threads have different amounts, and therefore tables of different sizes.
ORCHARD_FN constexpr std::uint32_t amount_of(std::uint64_t thread) {
    return 400 + static_cast<std::uint32_t>(thread % 50);
}

// [example: per_thread_arrays]
/// Before: a plain block for each thread. The lanes' tables lie one after another.
struct pay_from_blocks {
    heap_ref heap;
    std::uint32_t* results;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= threads) {
            return;
        }
        const std::uint32_t amount = amount_of(i);
        auto* const ways = static_cast<std::uint32_t*>(heap.malloc((amount + 1) * sizeof(std::uint32_t)));
        if (ways != nullptr) {
            results[i] = ways_to_pay(amount, ways);
        }
        heap.free(ways);
    }
};

/// After: an array of lanes, in the heap's layout. The tables of a warp alternate, so that one step of all its lanes
/// touches one piece of memory. The computation is the same.
struct pay_from_arrays {
    heap_ref heap;
    std::uint32_t* results;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= threads) {
            return;
        }
        const std::uint32_t amount = amount_of(i);
        const auto ways = heap.allocate_array<std::uint32_t>(amount + 1);
        if (!ways.empty()) {
            results[i] = ways_to_pay(amount, ways);
        }
        heap.free_array(ways);
    }
};
// [end of example]

/// Runs one of the kernels and checks its results against the same function on the host. Errors: those of `run`;
/// Internal with the first wrong result.
template <class Kernel>
absl::Status pay(heap& h, std::uint64_t threads) {
    auto results = device_array<std::uint32_t>::create(h.executor(), threads);
    if (!results.ok()) {
        return results.status();
    }
    absl::Status status = run(h, threads, Kernel{h.ref(), results->data(), threads});
    std::vector<std::uint32_t> found(threads);
    status.Update(results->download(found));
    if (!status.ok()) {
        return status;
    }
    for (std::uint64_t i = 0; i < threads; ++i) {
        // The third kind of table that `ways_to_pay` takes: plain memory of the host.
        std::vector<std::uint32_t> table(amount_of(i) + 1);
        const std::uint32_t right = ways_to_pay(amount_of(i), table.data());
        if (found[i] != right) {
            return absl::InternalError(
                absl::StrFormat("thread %d found %d ways to pay %d, not %d", i, found[i], amount_of(i), right));
        }
    }
    return absl::OkStatus();
}

}  // namespace

/// 1,000 threads: the last warp has 8 lanes with work.
absl::StatusOr<statistics> per_thread_arrays(const options& values) {
    absl::StatusOr<heap> heap = command_line::create_heap(values);
    if (!heap.ok()) {
        return heap.status();
    }
    const std::uint64_t threads = 1'000;
    absl::Status status = pay<pay_from_blocks>(*heap, threads);
    status.Update(pay<pay_from_arrays>(*heap, threads));
    if (!status.ok()) {
        return status;
    }
    return heap->stats();
}

}  // namespace orchard::examples
