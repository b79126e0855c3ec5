// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes append to one list in several ways, alone and as groups, also when the heap has no memory for all of them, and
/// read meanwhile the elements that other lanes have announced. Each number below the size is one thread's, which has
/// written its element; nothing is lost, and nothing is left in the heap.
///
/// `grow_block` is left out, since simulations have no barriers of a block; its one thread takes numbers as the others.

#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "device/containers/array_list.cuh"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

/// Segments of 256 KiB, 512 KiB, 1 MiB, ...
struct listed {
    using records_itself = void;
    simt::plain<std::uint64_t> id;
    std::uint64_t id_of_copies = 0;
    char rest[(8 << 10) - 16];

    explicit listed(std::uint64_t of_copies) : id_of_copies{of_copies} {}
    /// A copy lies in the heap, so that its `id` is a word of the simulation.
    listed(const listed& from) { id.set(from.id_of_copies); }
};
constexpr std::uint64_t listed_bytes = 32 * sizeof(listed);

/// A list, and what its lanes have announced.
class announced_list {
public:
    announced_list(world& w, const heap_world& heap)
        : w_{w}, heap_{heap}, lanes_(lanes_of(w.size)), list_{heap.ref, &state_, 5} {
        w.s.name_words(&state_, sizeof(state_), "list", 8);
        for (lane& of : lanes_) {
            w.s.name_words(&of.announced, sizeof(of.announced), "announced", 8);
        }
    }
    [[nodiscard]] const array_list_ref<listed>& ref() const { return list_; }
    [[nodiscard]] std::uint64_t appended() const { return appended_; }
    /// Returns one more than the greatest `id`.
    [[nodiscard]] std::uint64_t end_of_ids() const { return next_id_; }

    /// The work of one lane.
    void work() {
        lane& mine = lanes_[started_++];
        for (int i = 0; i < w_.size.operations; ++i) {
            const std::uint32_t way = w_.s.pick(4);
            if (way == 0) {
                push(mine);
            } else if (way == 1) {
                const std::uint64_t count = 1 + w_.s.pick(7);
                write(mine, list_.grow(count), count);
            } else if (way == 2) {
                const simt::lane_mask here = simt::converge();
                const std::uint64_t begin = list_.grow_warp(here, 2 * static_cast<std::uint64_t>(simt::popcount(here)));
                const auto before = 2 * static_cast<std::uint64_t>(simt::rank_in(here));
                write(mine, begin == list_.npos ? begin : begin + before, 2);
            } else {
                read();
            }
        }
    }

private:
    /// What one lane has appended, by number.
    struct lane {
        std::vector<std::pair<std::uint64_t, std::uint64_t>> ids;
        simt::device_word<std::uint64_t> announced{0};  ///< of `ids`, those that other lanes may read
    };

    void push(lane& mine) {
        const std::uint64_t id = next_id_++;
        const auto value = std::make_unique<listed>(id);  // too large for a lane's stack
        const listed* const at = list_.push_back(*value);
        if (at != nullptr) {
            ++appended_;
            // The element is the lane's own, so that its segment is there.
            std::uint32_t k = 0;
            while (at < list_.segment(k) || at >= list_.segment(k) + (list_.first_of(k + 1) - list_.first_of(k))) {
                ++k;
            }
            mine.ids.emplace_back(list_.first_of(k) + static_cast<std::uint64_t>(at - list_.segment(k)), id);
            announce(mine);
        }
    }
    void write(lane& mine, std::uint64_t begin, std::uint64_t count) {
        if (begin == list_.npos) {
            return;
        }
        appended_ += count;
        for (std::uint64_t k = begin; k < begin + count; ++k) {
            const std::uint64_t id = next_id_++;
            list_[k].id.set(id);
            mine.ids.emplace_back(k, id);
        }
        announce(mine);
    }
    /// Pairs with the acquiring loads of `read`.
    static void announce(lane& mine) { mine.announced.store<simt::order::release>(mine.ids.size()); }

    /// Goes over the list, and reads of its elements those that were announced before.
    void read() {
        std::map<std::uint64_t, std::uint64_t> known;
        for (const lane& of : lanes_) {
            const std::uint64_t count = of.announced.load<simt::order::acquire>();
            known.insert(of.ids.begin(), of.ids.begin() + static_cast<std::ptrdiff_t>(count));
        }
        list_.for_each([&](std::uint64_t i, const listed& element) {
            w_.s.check(heap_.ref.owns(&element), absl::StrFormat("element %d has no address in the heap", i));
            const auto found = known.find(i);
            if (found != known.end()) {
                const std::uint64_t id = element.id.get();
                w_.s.check(id == found->second, absl::StrFormat("element %d is %d, not %d", i, id, found->second));
                known.erase(found);
            }
        });
        w_.s.check(known.empty(), absl::StrFormat("%d elements that were announced were not visited", known.size()));
    }

    world& w_;
    const heap_world& heap_;
    std::vector<lane> lanes_;
    std::size_t started_ = 0;
    array_list_state state_{};
    array_list_ref<listed> list_;
    std::uint64_t appended_ = 0;
    std::uint64_t next_id_ = 1;
};

void run_array_list(world& w) {
    const std::uint32_t segments = 1 + 3 * w.s.pick(2);
    heap_world heap(w, {.segments = segments, .committed_at_start = 1, .extent = 1, .cache_target = w.s.pick(2)});
    announced_list all(w, heap);
    const array_list_ref<listed>& list = all.ref();
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { all.work(); });
    if (!w.s.run()) {
        return;
    }
    w.s.check(list.size() == all.appended(),
              absl::StrFormat("%d elements, of which %d were appended", list.size(), all.appended()));
    w.s.add_kernel({{2}}, [&](simt::thread_position at) {
        std::vector<bool> seen(all.end_of_ids());
        list.for_each([&](std::uint64_t i, listed& element) {
            const std::uint64_t id = element.id.get();
            heap.s.check(id != 0 && id < seen.size() && !seen[id], absl::StrFormat("element %d is %d", i, id));
            seen[id] = true;
        });
        simt::sync(simt::converge());
        if (at.thread == 0) {
            list.clear();
        }
    });
    if (w.s.run() && heap.settle({class_of(listed_bytes), class_of(2 * listed_bytes)})) {
        heap.check_empty();
    }
}

const registrar array_list_scenario{
    {"array_list",
     "Lanes append to a list, also beyond the memory that there is, and read it meanwhile.",
     {{{3, 2}, {3}}, 4},
     run_array_list}};

}  // namespace
}  // namespace orchard::explore
