// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What a graph and its snapshots share, and the arrays of batches.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/containers/graph.cuh"
#include "runtime/containers/graph_kernels.hpp"
#include "runtime/containers/sort_keys.hpp"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::detail {

/// Returns the status of a launch of `Kernel`; an error begins with the kernel's name.
template <class Kernel>
absl::Status launched(simt::launch_result result) {
    if (!result.ok) {
        const std::string name(simt::kernel_name(static_cast<const char*>(__PRETTY_FUNCTION__)));
        result.error = name + ": " + result.error;
    }
    return to_status(result);
}

/// What a graph and its snapshots share. It frees all memory at its end.
/// @tparam Heap  the view of the memory that the graph lies in: `device::memory_of_tables`
template <class Heap>
class graph_core {
public:
    /// Returns the core of an empty graph, whose kernels run on `on`. Errors: those of `device_array`.
    static absl::StatusOr<std::shared_ptr<graph_core>> create(const simt::executor& on, const Heap& heap) {
        auto state = device_array<device::graph_state>::create(on, 1);
        if (!state.ok()) {
            return state.status();
        }
        auto core = std::make_shared<graph_core>();
        core->on = on;
        core->heap_view = heap;
        core->state_memory = *std::move(state);
        return core;
    }
    graph_core() = default;
    graph_core(const graph_core&) = delete;
    graph_core& operator=(const graph_core&) = delete;
    ~graph_core() {
        if (state() != nullptr) {
            (void)clear();
        }
    }

    [[nodiscard]] device::graph_state* state() const { return state_memory.data(); }

    /// Returns a grid of whole warps for `items` that threads take in turn.
    [[nodiscard]] simt::grid shape(std::uint64_t items) const {
        const bool cuda = on.kind == simt::device_kind::cuda;
        // Eight blocks on each of 132 multiprocessors; few fibers.
        const std::uint32_t threads = cuda ? 256 : 64;
        return {std::min(simt::grid_for(items, threads).blocks, cuda ? 1056u : 4u), threads};
    }
    template <class Kernel>
    [[nodiscard]] absl::Status run(std::uint64_t items, const Kernel& kernel) const {
        return launched<Kernel>(simt::launch(on, shape(items), kernel));
    }

    /// The same, which on CUDA does not wait for the kernel.
    template <class Kernel>
    [[nodiscard]] absl::Status enqueue(std::uint64_t items, const Kernel& kernel) const {
        return launched<Kernel>(simt::enqueue(on, shape(items), kernel));
    }

    /// Frees the blocks of a table.
    absl::Status free_table(device::graph_table* table) const {
        constexpr std::uint64_t many = 1 << 16;
        absl::Status s = run(many, graph_free_segments<Heap>{heap_view, table});
        return s.ok() ? run(1, graph_free_levels<Heap>{heap_view, table}) : s;
    }
    /// Frees everything but the tables of snapshots.
    absl::Status clear() const {
        absl::Status s = run(device::graph_state::retired_lists, graph_free_retired<Heap>{heap_view, state(), 0});
        if (s.ok()) {
            s.Update(run(~std::uint32_t{0}, graph_free_runs<Heap>{heap_view, &state()->table}));
        }
        return s.ok() ? free_table(&state()->table) : s;
    }

    /// Opens a snapshot, and returns its slot.
    absl::StatusOr<std::uint32_t> open() {
        const auto slot = static_cast<std::uint32_t>(std::find(open_.begin(), open_.end(), 0u) - open_.begin());
        if (slot >= device::graph_state::max_snapshots) {
            return absl::ResourceExhaustedError(
                absl::StrFormat("%d snapshots of this graph are open, which is the most; close one first",
                                device::graph_state::max_snapshots));
        }
        if (last_ >= (1u << 31) - 1) {
            return absl::ResourceExhaustedError("a graph has 2^31 - 1 snapshots in its life; copy it into another one");
        }
        auto failures = device_array<simt::device_word<std::uint64_t>>::create(on, 1);
        if (!failures.ok()) {
            return failures.status();
        }
        const std::uint32_t number = ++last_;
        open_.resize(std::max<std::size_t>(open_.size(), slot + 1));
        open_[slot] = number;
        absl::Status s =
            run(1 << 16, graph_snapshot_segments<Heap>{heap_view, state(), slot, oldest(), failures->data()});
        std::vector<simt::device_word<std::uint64_t>> failed(1);
        if (s.ok()) {
            s.Update(failures->download(failed));
        }
        const std::uint64_t missing = failed[0].load<simt::order::relaxed>();
        if (s.ok() && missing != 0) {
            s.Update(absl::ResourceExhaustedError(absl::StrFormat(
                "the heap has no memory for the snapshot's table: %d blocks of %d B lack; a larger capacity helps",
                missing, device::graph_table::bytes_of_segment)));
        }
        if (s.ok()) {
            s.Update(run(~std::uint32_t{0}, graph_snapshot_copy{state(), slot, number}));
            s.Update(run(1, graph_snapshot_vertices{state(), slot}));
        }
        if (!s.ok()) {
            (void)close(slot);
            return s;
        }
        return slot;
    }
    absl::Status close(std::uint32_t slot) {
        open_[slot] = 0;
        absl::Status s =
            run(device::graph_state::retired_lists, graph_free_retired<Heap>{heap_view, state(), oldest()});
        return s.ok() ? free_table(&state()->snapshots[slot]) : s;
    }
    [[nodiscard]] bool has_snapshots() const { return oldest() != 0; }

    /// Empties the slabs that the graph needs not, class by class: those in which its runs fill least.
    template <class Property>
    absl::Status compact() const {
        static_assert(std::is_same_v<Heap, heap_ref>, "another allocator has no slabs");
        using word = simt::device_word<std::uint32_t>;
        const std::uint32_t segments = heap_view.view().segments;
        const simt::grid threads = shape(~std::uint32_t{0});
        auto weights = device_array<word>::create(on, segments);
        auto classes = device_array<word>::create(on, segments);
        auto chains =
            device_array<std::uint64_t>::create(on, std::uint64_t{threads.blocks} * threads.threads_per_block);
        for (const absl::Status& s : {weights.status(), classes.status(), chains.status()}) {
            if (!s.ok()) {
                return s;
            }
        }
        absl::Status s =
            run(~std::uint32_t{0}, graph_weigh{heap_view, &state()->table, weights->data(), classes->data()});
        std::vector<word> weight(segments);
        std::vector<word> size_class(segments);
        s.Update(s.ok() ? weights->download(weight) : s);
        s.Update(s.ok() ? classes->download(size_class) : s);
        if (!s.ok()) {
            return s;
        }
        const std::vector<std::uint32_t> emptied = slabs_to_empty(weight, size_class);
        if (emptied.empty()) {
            return s;
        }
        std::vector<word> marks(segments, word(0));
        for (const std::uint32_t segment : emptied) {
            marks[segment] = word(1);
        }
        s.Update(weights->upload(marks));
        using move = graph_move_out<Property>;
        s.Update(s.ok() ? launched<move>(
                              simt::launch(on, threads, move{heap_view, state(), weights->data(), chains->data()}))
                        : s);
        s.Update(s.ok() ? launched<graph_free_chains>(
                              simt::launch(on, threads, graph_free_chains{heap_view, chains->data()}))
                        : s);
        return s;
    }

    simt::executor on{};
    Heap heap_view;
    device_array<device::graph_state> state_memory;

private:
    /// Returns the segments whose runs find room in the others of their class: of each class, those that are filled
    /// least, but for as many as hold all of its runs with a tenth of spare room.
    static std::vector<std::uint32_t> slabs_to_empty(const std::vector<simt::device_word<std::uint32_t>>& weights,
                                                     const std::vector<simt::device_word<std::uint32_t>>& classes) {
        std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> slabs(class_count);  // weight, segment
        for (std::uint32_t i = 0; i < weights.size(); ++i) {
            const std::uint32_t weight = weights[i].load<simt::order::relaxed>();
            if (weight != 0) {
                slabs[classes[i].load<simt::order::relaxed>()].emplace_back(weight, i);
            }
        }
        std::vector<std::uint32_t> result;
        for (auto& of_class : slabs) {
            std::sort(of_class.rbegin(), of_class.rend());
            std::uint64_t all = 0;
            for (const auto& [weight, segment] : of_class) {
                all += weight;
            }
            const std::uint64_t slab = segment_bytes / quantum_bytes * 9 / 10;
            for (std::size_t i = (all + slab - 1) / slab; i < of_class.size(); ++i) {
                result.push_back(of_class[i].second);
            }
        }
        return result;
    }
    /// Returns the number of the oldest open snapshot; 0 if none is open.
    [[nodiscard]] std::uint32_t oldest() const {
        std::uint32_t least = 0;
        for (const std::uint32_t number : open_) {
            least = number != 0 && (least == 0 || number < least) ? number : least;
        }
        return least;
    }

    std::vector<std::uint32_t> open_;  ///< the numbers of the snapshots, by slot; 0: free
    std::uint32_t last_ = 0;           ///< number that was given
};

/// The arrays of batches, kept from batch to batch.
template <class Property>
class graph_scratch {
    static constexpr bool has_property = device::graph_layout<Property>::has_property;

public:
    /// Enlarges the arrays for `count` keys.
    absl::Status prepare(const simt::executor& on, std::uint64_t count) {
        if (counts_.data() == nullptr) {
            auto counts = device_array<graph_counts>::create(on, 1);
            if (!counts.ok()) {
                return counts.status();
            }
            counts_ = *std::move(counts);
        }
        if (keys_.size() >= count) {
            return absl::OkStatus();
        }
        absl::Status s = enlarge(on, numbers_, count + 1);
        s.Update(s.ok() ? enlarge(on, rows_, count + 1) : s);
        s.Update(s.ok() ? enlarge(on, old_runs_, count) : s);
        s.Update(s.ok() ? enlarge(on, degrees_, count) : s);
        for (auto* const array : {&places_, &other_places_, &values_, &other_values_}) {
            const bool wanted = has_property || array == &places_ || array == &other_places_;
            s.Update(s.ok() && wanted ? enlarge(on, *array, count) : s);
        }
        // The last ones: their size is that of all.
        s.Update(s.ok() ? enlarge(on, other_keys_, count) : s);
        s.Update(s.ok() ? enlarge(on, keys_, count) : s);
        if (!s.ok()) {
            keys_ = {};
        }
        return s;
    }
    [[nodiscard]] graph_batch batch(std::uint64_t count, int bits) const {
        return {keys_.data(),
                values_.data(),
                places_.data(),
                numbers_.data(),
                other_keys_.data(),
                other_values_.data(),
                other_places_.data(),
                rows_.data(),
                nullptr,
                nullptr,
                nullptr,
                old_runs_.data(),
                degrees_.data(),
                counts_.data(),
                count,
                bits};
    }
    absl::Status sort(const simt::executor& on, graph_batch& b) {
        sorted_arrays arrays{b.keys, b.changing_keys, b.values, b.changing_values};
        absl::Status s = sort_keys(on, arrays, b.count, 2 * b.bits, memory_);
        b.keys = arrays.keys;
        b.changing_keys = arrays.other_keys;
        b.values = arrays.values;
        b.changing_values = arrays.other_values;
        return s;
    }
    /// Gives the rows the memory of the sorted keys, places and numbers, and the sort of the rows its own: behind it,
    /// no step of a batch needs device memory.
    absl::Status prepare_rows(const simt::executor& on, graph_batch& b) {
        b.runs = b.keys;
        b.row_keys = reinterpret_cast<std::uint8_t*>(b.places);
        b.order = reinterpret_cast<std::uint32_t*>(b.numbers);
        return reserve_sort_rows(on, b.count, memory_);
    }
    /// Sorts the rows by their keys.
    absl::Status sort_rows(const simt::executor& on, graph_batch& b) {
        sorted_rows arrays{b.row_keys, b.row_keys + b.count, b.order, b.order + b.count};
        absl::Status s = detail::sort_rows(on, arrays, b.count, memory_);
        b.row_keys = arrays.keys;
        b.order = arrays.order;
        return s;
    }
    /// Replaces the numbers by the sums of those before them.
    absl::Status sum(const simt::executor& on, const graph_batch& b) {
        return sum_before(on, b.numbers, b.count + 1, memory_);
    }
    absl::StatusOr<graph_counts> counts() const {
        std::vector<graph_counts> one(1);
        absl::Status s = counts_.download(one);
        return s.ok() ? absl::StatusOr<graph_counts>(one[0]) : s;
    }
    [[nodiscard]] graph_counts* counts_memory() const { return counts_.data(); }
    device_array<std::byte>& memory() { return memory_; }

private:
    template <class T>
    static absl::Status enlarge(const simt::executor& on, device_array<T>& array, std::uint64_t count) {
        array = {};  // not both at a time
        auto made = device_array<T>::create(on, count);
        if (!made.ok()) {
            return made.status();
        }
        array = *std::move(made);
        return absl::OkStatus();
    }

    device_array<std::uint64_t> keys_;
    device_array<std::uint64_t> other_keys_;
    device_array<std::uint64_t> numbers_;
    device_array<std::uint64_t> old_runs_;
    device_array<std::uint32_t> degrees_;
    device_array<std::uint32_t> rows_;
    device_array<std::uint32_t> places_;
    device_array<std::uint32_t> other_places_;
    device_array<std::uint32_t> values_;
    device_array<std::uint32_t> other_values_;
    device_array<graph_counts> counts_;
    device_array<std::byte> memory_;
};

}  // namespace orchard::detail
