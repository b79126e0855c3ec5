// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes of another warp use the memory that a lane has allocated, within the kernel and after it. A `lane_ptr` has
/// eight bytes, which fit into an atomic word and suffice to access the whole array.
///
/// Each lane makes a list, and has a partner in a warp of another block. The partner that arrives second finds the
/// pointer of the first, and multiplies the lists. No thread waits.
///
///     threads      0    1    2   ...  1023 | 1024  ...  2046  2047       2,048 threads, 1,024 pairs
///     meeting      0    1    2        1023 | 1023          1     0
///     word         0 --first: exchange to its pointer--> pointer --second: finds it--> multiplies
///
///     kernel 1     make_and_meet: lists, meetings, products
///     kernel 2     free_lists: each thread frees the list of its partner
///     host         check: computes the products anew

#include <algorithm>
#include <cstdint>
#include <orchard/device.cuh>
#include <orchard/heap.hpp>
#include <vector>

#include "absl/strings/str_format.h"
#include "examples/layout/examples.hpp"
#include "runtime/cli/program_heap.hpp"

namespace orchard::examples {
namespace {

/// Return the length of the list of thread `i`, and item `n` of that list.
ORCHARD_FN std::uint32_t length_of(std::uint64_t i) { return 100 + static_cast<std::uint32_t>(i % 8); }
ORCHARD_FN std::uint32_t item_of(std::uint64_t i, std::uint32_t n) { return static_cast<std::uint32_t>(i) + 3 * n; }

/// Returns the meeting point of thread `i` of `threads` with its partner: the first meets the last, and so on.
ORCHARD_FN std::uint64_t meeting_of(std::uint64_t i, std::uint64_t threads) {
    return i < threads / 2 ? i : threads - 1 - i;
}

/// Returns the sum of products over the shorter length of the two lists. The first element of each is its length.
ORCHARD_FN std::uint64_t product_of(lane_ptr<const std::uint32_t> a, lane_ptr<const std::uint32_t> b) {
    const std::uint32_t length = a[0] < b[0] ? a[0] : b[0];
    std::uint64_t sum = 0;
    for (std::uint32_t n = 1; n <= length; ++n) {
        sum += std::uint64_t{a[n]} * b[n];
    }
    return sum;
}

// [example: hand_over]
struct make_and_meet {
    heap_ref heap;
    lane_array<std::uint32_t>* lists;            ///< one a thread, for the kernel that frees them
    simt::device_word<std::uint64_t>* meetings;  ///< one a pair; 0: no lane has come yet
    std::uint64_t* products;                     ///< likewise

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        const std::uint32_t length = length_of(i);
        const auto list = heap.allocate_array<std::uint32_t>(1 + length, layout::interleaved(tile::b4));
        if (list.empty()) {
            return;
        }
        list[0] = length;
        for (std::uint32_t n = 1; n <= length; ++n) {
            list[n] = item_of(i, n);
        }
        lists[i] = list;
        // Release: a lane that finds our pointer sees the list. Acquire: we see theirs. Each pairs with the other.
        const std::uint64_t m = meeting_of(i, at.threads());
        const lane_ptr<const std::uint32_t> mine = list.data();
        const auto theirs =
            lane_ptr<const std::uint32_t>::from_bits(meetings[m].exchange<simt::order::acq_rel>(mine.bits()));
        if (theirs) {
            products[m] = product_of(mine, theirs);
        }
    }
};

/// A later kernel sees all that an earlier one wrote. Any thread may free a list: here the last frees the first one's.
struct free_lists {
    heap_ref heap;
    const lane_array<std::uint32_t>* lists;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        heap.free_array(lists[at.threads() - 1 - at.global_thread()]);
    }
};
// [end of example]

/// Compares the products with those of the same lists on the host. A list has a length and items that depend on its
/// thread alone. Errors: Internal, with the pair and both numbers.
absl::Status check(const std::vector<std::uint64_t>& products, std::uint64_t threads) {
    for (std::uint64_t i = 0; i < threads; ++i) {
        const std::uint64_t partner = threads - 1 - i;
        const std::uint32_t length = std::min(length_of(i), length_of(partner));
        std::uint64_t right = 0;
        for (std::uint32_t n = 1; n <= length; ++n) {
            right += std::uint64_t{item_of(i, n)} * item_of(partner, n);
        }
        const std::uint64_t found = products[meeting_of(i, threads)];
        if (found != right) {
            return absl::InternalError(
                absl::StrFormat("threads %d and %d found the product %d, not %d", i, partner, found, right));
        }
    }
    return absl::OkStatus();
}

}  // namespace

absl::StatusOr<statistics> hand_over(const options& values) {
    absl::StatusOr<heap> heap = command_line::create_heap(values);
    if (!heap.ok()) {
        return heap.status();
    }
    const std::uint64_t threads = 8 * 256;  // whole blocks, so that no block has further threads
    auto lists = device_array<lane_array<std::uint32_t>>::create(heap->executor(), threads);
    auto meetings = device_array<simt::device_word<std::uint64_t>>::create(heap->executor(), threads / 2);
    auto products = device_array<std::uint64_t>::create(heap->executor(), threads / 2);
    absl::Status status = lists.status();
    status.Update(meetings.status());
    status.Update(products.status());
    if (!status.ok()) {
        return status;
    }
    // `Update` keeps the first error. The second kernel runs in any case, so that the lists are freed.
    status.Update(run(*heap, threads, make_and_meet{heap->ref(), lists->data(), meetings->data(), products->data()}));
    status.Update(run(*heap, threads, free_lists{heap->ref(), lists->data()}));
    std::vector<std::uint64_t> found(threads / 2);
    status.Update(products->download(found));
    if (status.ok()) {
        status.Update(check(found, threads));
    }
    if (!status.ok()) {
        return status;
    }
    return heap->stats();
}

}  // namespace orchard::examples
