// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The memory of a graph in a published allocator: `orchard graph --allocator NAME`.
///
/// Its rows come from the allocator alone. So does the table of its vertices, in blocks of 64 KiB, unless the allocator
/// has no block so large: then the table lies in a heap of Orchard beside it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "device/published/device_allocator.cuh"
#include "examples/dynamic_graph/graph_over.cuh"
#include "runtime/heap/heap.hpp"

namespace orchard::examples {

/// The view of the memory of a graph's table.
template <device::device_allocator Allocator>
struct table_view {
    Allocator own;
    heap_ref beside;
    bool is_beside;

    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        return is_beside ? beside.malloc(bytes) : own.malloc(bytes);
    }
    ORCHARD_FN void free(void* p) const {
        if (is_beside) {
            beside.free(p);
        } else {
            own.free(p);
        }
    }
};

/// The view of a graph's memory, as `orchard::graph` takes it.
template <device::device_allocator Allocator>
struct graph_memory_view {
    table_view<Allocator> table;
    word64* refused;  ///< bytes of the largest block of a row for which there was no memory; 0: none, or forgotten

    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        void* const p = table.own.malloc(bytes);
        if (p == nullptr) {
            refused->raise<simt::order::relaxed>(bytes);
        }
        return p;
    }
    ORCHARD_FN void free(void* p) const { table.own.free(p); }
    [[nodiscard]] ORCHARD_INLINE const table_view<Allocator>& tables() const { return table; }
};

/// Owns the allocator of a graph. Move-only.
template <class Owner>
class graph_memory {
    using allocator = std::remove_cvref_t<decltype(std::declval<const Owner&>().ref())>;

public:
    /// Returns the bytes of the largest block in so many bytes of memory.
    using largest_block = std::uint64_t (*)(std::uint64_t);

    /// Returns the memory of a graph in an allocator of `bytes` bytes. Errors: those of `device_array` and of
    /// `heap::create`.
    static absl::StatusOr<graph_memory> create(const simt::executor& on, std::string name, Owner owner,
                                               std::uint64_t bytes, largest_block largest) {
        graph_memory made(std::move(name), std::move(owner), bytes, largest);
        absl::Status s = make(on, 1, made.refused_);
        if (s.ok() && largest(bytes) < device::graph_table::bytes_of_segment) {
            options values;
            values.device = on.kind == simt::device_kind::cuda ? device_option::cuda : device_option::emulated;
            values.backing = backing_option::elastic;
            values.capacity = bytes;
            auto beside = heap::create(values);
            s.Update(beside.status());
            if (s.ok()) {
                made.beside_ = std::make_unique<heap>(*std::move(beside));
            }
        }
        return s.ok() ? absl::StatusOr<graph_memory>(std::move(made)) : s;
    }

    [[nodiscard]] graph_memory_view<allocator> ref() const {
        const bool is_beside = beside_ != nullptr;
        return {{owner_.ref(), is_beside ? beside_->ref() : heap_ref(), is_beside}, refused_.data()};
    }
    /// Returns the error of a run whose edges found no memory: the size that was refused, and the remedy.
    [[nodiscard]] absl::Status shortage() const {
        std::vector<word64> copy(1);
        if (absl::Status s = refused_.download(copy); !s.ok()) {
            return s;
        }
        const std::uint64_t refused = copy.front().load<simt::order::relaxed>();
        const std::uint64_t most = largest_(bytes_);
        std::string text = absl::StrCat(name_, ": no memory for ");
        if (refused == 0) {
            absl::StrAppend(&text, "the table of vertices");
        } else {
            absl::StrAppend(&text, "a block of ", refused, " B, in which the edges of a vertex lie");
        }
        if (refused > most) {
            absl::StrAppend(&text, "; its largest block has ", most, " B");
        }
        const bool is_never = refused > largest_(~std::uint64_t{0});
        absl::StrAppend(&text, is_never ? "; give another allocator, or a graph whose vertices have fewer edges"
                                        : "; give a larger --capacity");
        return absl::ResourceExhaustedError(text);
    }
    /// As in `any_graph`.
    [[nodiscard]] absl::Status forget_refusals() { return refused_.zero(); }

private:
    graph_memory(std::string name, Owner owner, std::uint64_t bytes, largest_block largest)
        : name_{std::move(name)}, owner_{std::move(owner)}, bytes_{bytes}, largest_{largest} {}

    std::string name_;
    Owner owner_;
    std::uint64_t bytes_;
    largest_block largest_;
    std::unique_ptr<heap> beside_;  ///< of the table of vertices; null: it lies in the allocator
    device_array<word64> refused_;
};

/// Returns an empty graph in an allocator that `create` makes.
template <class Property, class Create>
graph_in_allocator::made<Property> graph_in(const std::string& name, const Create& create,
                                            std::uint64_t (*largest)(std::uint64_t), const simt::executor& on,
                                            std::uint64_t bytes) {
    auto owner = create(on, bytes);
    if (!owner.ok()) {
        return absl::Status(owner.status().code(), absl::StrCat(name, ": ", owner.status().message()));
    }
    using memory_type = graph_memory<typename decltype(owner)::value_type>;
    auto memory = memory_type::create(on, name, *std::move(owner), bytes, largest);
    return memory.ok() ? graph_over<Property, memory_type>::create(on, *std::move(memory)) : memory.status();
}

/// Returns what makes graphs in one allocator.
/// @param create   `absl::StatusOr<Owner>(const simt::executor&, std::uint64_t bytes)`; `Owner::ref()` is the view for
///     kernels
/// @param largest  the bytes of the largest block in so many bytes of memory
template <class Create>
graph_in_allocator graphs_in(const std::string& name, const Create& create, std::uint64_t (*largest)(std::uint64_t)) {
    return {[=](const simt::executor& on, std::uint64_t bytes) {
                return graph_in<no_property>(name, create, largest, on, bytes);
            },
            [=](const simt::executor& on, std::uint64_t bytes) {
                return graph_in<double>(name, create, largest, on, bytes);
            }};
}

}  // namespace orchard::examples
