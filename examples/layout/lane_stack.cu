// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A stack for each lane, where others would recurse: in how many ways can ten queens stand on a board of 10 x 10 so
/// that none attacks another? Each thread puts the queens of the first two rows in one of the 100 ways there are, and
/// searches what follows depth first. What it has yet to look at is on its stack.

#include <cstdint>
#include <orchard/device.cuh>
#include <orchard/heap.hpp>

#include "absl/strings/str_format.h"
#include "examples/layout/examples.hpp"
#include "runtime/cli/program_heap.hpp"

namespace orchard::examples {
namespace {

/// A stack on an array of lanes, for one thread.
template <class T>
class stack_of_lane {
public:
    ORCHARD_FN explicit stack_of_lane(const lane_array<T>& memory) : memory_{memory} {}

    [[nodiscard]] ORCHARD_FN bool empty() const { return size_ == 0; }
    /// False where it is full.
    [[nodiscard]] ORCHARD_FN bool push(const T& value) {
        if (size_ == memory_.size()) {
            return false;
        }
        memory_[size_++] = value;
        return true;
    }
    /// Not of an empty one.
    ORCHARD_FN T pop() { return memory_[--size_]; }

private:
    lane_array<T> memory_;
    std::uint64_t size_ = 0;
};

constexpr std::uint32_t board_size = 10;
constexpr std::uint32_t solutions_known = 724;

/// A board whose first rows are taken; bit c of a mask is column c. 16 bytes: a power of two, as elements have to be.
struct alignas(16) board {
    std::uint32_t row = 0;      ///< the next one
    std::uint32_t columns = 0;  ///< in which there is a queen already
    std::uint32_t left = 0;     ///< what queens attack in `row`, to their left
    std::uint32_t right = 0;    ///< and to their right

    /// Columns of `row` that no queen attacks.
    [[nodiscard]] ORCHARD_FN std::uint32_t free_columns() const {
        return ~(columns | left | right) & ((std::uint32_t{1} << board_size) - 1);
    }
    /// With a queen in `row` as well; `queen` is the bit of its column.
    [[nodiscard]] ORCHARD_FN board with(std::uint32_t queen) const {
        return {row + 1, columns | queen, (left | queen) >> 1, (right | queen) << 1};
    }
};

struct count_solutions {
    heap_ref heap;
    simt::device_word<std::uint32_t>* solutions;
    simt::device_word<std::uint32_t>* refused;  ///< boards for which there was no room

    /// No more boards than this wait in a stack: those of one row come from one board, which has left it.
    static constexpr std::uint32_t max_boards = board_size * board_size;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= board_size * board_size) {
            return;
        }
        const board first = board{}.with(std::uint32_t{1} << i / board_size);
        const std::uint32_t second = std::uint32_t{1} << i % board_size;
        if ((first.free_columns() & second) == 0) {
            return;  // the others of the warp ask without this lane
        }
        // A board of all lanes is one piece of memory, while they are equally deep.
        const auto memory = heap.allocate_array<board>(max_boards, layout::interleaved(tile::b16));
        if (memory.empty()) {
            return;
        }
        search(first.with(second), stack_of_lane<board>(memory));
        heap.free_array(memory);
    }

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
        // Relaxed: the host reads them when the kernel has ended.
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
