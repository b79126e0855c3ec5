// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A stack for each lane in place of recursion. The example counts the ways to place ten queens on a board of 10 x 10
/// so that none attacks another. Each thread places the queens of the first two rows in one of 100 ways, and searches
/// the remaining rows depth first. Its stack holds the boards that it has yet to search.
///
///     search    pop a board --its row is 10--> a solution
///                 |
///                 +--for each column that no queen attacks: push the board with a queen there
///
///     the stacks of a warp, boards of 16 bytes, tiles of 16 bytes:
///
///     depth 0   | lane 0 | lane 1 | lane 2 | ...        lanes at the same depth access one contiguous row
///     depth 1   | lane 0 | lane 1 | lane 2 | ...
///
/// Threads whose first two queens attack each other have nothing to search, and allocate nothing.

#include <cstdint>
#include <orchard/device.cuh>
#include <orchard/heap.hpp>

#include "absl/strings/str_format.h"
#include "examples/layout/examples.hpp"
#include "runtime/cli/program_heap.hpp"

namespace orchard::examples {
namespace {

/// A stack on an array of lanes, for one thread. The array does not grow: its size is the most elements that the search
/// can need, and a push to a full stack fails instead of writing behind the array.
template <class T>
class stack_of_lane {
public:
    ORCHARD_FN explicit stack_of_lane(const lane_array<T>& memory) : memory_{memory} {}

    [[nodiscard]] ORCHARD_FN bool empty() const { return size_ == 0; }
    /// Pushes `value`; returns false if the stack is full.
    [[nodiscard]] ORCHARD_FN bool push(const T& value) {
        if (size_ == memory_.size()) {
            return false;
        }
        memory_[size_++] = value;
        return true;
    }
    /// Removes and returns the top element. The stack must not be empty.
    ORCHARD_FN T pop() { return memory_[--size_]; }

private:
    lane_array<T> memory_;
    std::uint64_t size_ = 0;
};

// The known number of solutions of the problem checks the result.
constexpr std::uint32_t board_size = 10;
constexpr std::uint32_t solutions_known = 724;

/// A board whose first rows are occupied; bit c of a mask is column c. 16 bytes, because the size of an element must be
/// a power of two.
struct alignas(16) board {
    std::uint32_t row = 0;      ///< the next row
    std::uint32_t columns = 0;  ///< columns that have a queen already
    std::uint32_t left = 0;     ///< columns of `row` that are attacked along diagonals towards the left
    std::uint32_t right = 0;    ///< columns of `row` that are attacked along diagonals towards the right

    /// Returns the columns of `row` that no queen attacks.
    [[nodiscard]] ORCHARD_FN std::uint32_t free_columns() const {
        return ~(columns | left | right) & ((std::uint32_t{1} << board_size) - 1);
    }
    /// Returns the board with one more queen, in `row`; `queen` is the bit of its column.
    [[nodiscard]] ORCHARD_FN board with(std::uint32_t queen) const {
        return {row + 1, columns | queen, (left | queen) >> 1, (right | queen) << 1};
    }
};

/// One thread for each placement of the first two rows; adds its solutions to `solutions`.
struct count_solutions {
    heap_ref heap;
    simt::device_word<std::uint32_t>* solutions;
    simt::device_word<std::uint32_t>* refused;  ///< boards for which there was no room

    /// The most boards that a stack can hold: the boards of one row come from one board, which has left the stack.
    static constexpr std::uint32_t max_boards = board_size * board_size;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= board_size * board_size) {
            return;
        }
        const board first = board{}.with(std::uint32_t{1} << i / board_size);
        const std::uint32_t second = std::uint32_t{1} << i % board_size;
        if ((first.free_columns() & second) == 0) {
            return;  // the other lanes of the warp allocate without this lane
        }
        // While all lanes have the same depth, the boards of a warp are one contiguous piece of memory.
        const auto memory = heap.allocate_array<board>(max_boards, layout::interleaved(tile::b16));
        if (memory.empty()) {
            return;
        }
        search(first.with(second), stack_of_lane<board>(memory));
        heap.free_array(memory);
    }

    /// Searches all boards that follow from `root`, and adds up the solutions. `open` is empty; its copy views the same
    /// memory.
    ORCHARD_FN void search(const board& root, stack_of_lane<board> open) const {
        std::uint32_t found = 0;
        std::uint32_t lost = open.push(root) ? 0 : 1;
        while (!open.empty()) {
            const board b = open.pop();
            if (b.row == board_size) {
                ++found;
                continue;
            }
            for (std::uint32_t queens = b.free_columns(); queens != 0; queens &= queens - 1) {
                const std::uint32_t queen = queens & (~queens + 1);  // the lowest bit
                lost += open.push(b.with(queen)) ? 0 : 1;
            }
        }
        // Relaxed: the host reads the counters after the kernel has ended.
        solutions->fetch_add<simt::order::relaxed>(found);
        refused->fetch_add<simt::order::relaxed>(lost);
    }
};

}  // namespace

absl::StatusOr<statistics> lane_stack(const options& values) {
    absl::StatusOr<heap> heap = command_line::create_heap(values);
    if (!heap.ok()) {
        return heap.status();
    }
    using word = simt::device_word<std::uint32_t>;
    absl::StatusOr<device_array<word>> words = device_array<word>::create(heap->executor(), 2);
    if (!words.ok()) {
        return words.status();
    }
    absl::Status status =
        run(*heap, board_size * board_size, count_solutions{heap->ref(), words->data(), words->data() + 1});
    word results[2]{};
    status.Update(words->download(results));
    if (!status.ok()) {
        return status;
    }
    const std::uint32_t solutions = results[0].load<simt::order::relaxed>();
    const std::uint32_t refused = results[1].load<simt::order::relaxed>();
    if (solutions != solutions_known || refused != 0) {
        return absl::InternalError(absl::StrFormat("%d solutions, not %d; no room on a stack for %d boards", solutions,
                                                   solutions_known, refused));
    }
    return heap->stats();
}

}  // namespace orchard::examples
