// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Maps an address of a heap to an array, a thread and a byte, and from there to an address that is the same in each
/// run.
///
/// A heap places small blocks at random, so that recorded addresses may differ from run to run. Those of a trace should
/// not: they are the addresses of `uvm_model::placement`, array after array.
///
///     recorded address -> chunk (`at_`) -> lane's byte (`lane_map`) -> thread and offset -> placement of the array

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "device/arrays/lane_array.cuh"
#include "uvm/model/access.hpp"
#include "uvm/model/placement.hpp"

namespace orchard::applications {

/// The arrays of an application, each of as many parts as there are threads; and the space in which they lie one after
/// another, each as `uvm_model::placement` places it.
class regions {
public:
    /// @param like  threads, layout, order and portions of all arrays; sizes are those of each array
    explicit regions(const uvm_model::thread_memory& like) : like_{like} {}

    /// Records the parts of another array. Errors: those of `placement::create`.
    template <class T>
    absl::Status add(std::span<const lane_array<T>> parts) {
        std::vector<part> all;
        for (const lane_array<T>& a : parts) {
            all.push_back({reinterpret_cast<std::uint64_t>(a.chunk()), a.map(), a.position()});
        }
        return add(all, parts.front().size() * sizeof(T), sizeof(T));
    }
    template <class T>
    absl::Status add(std::span<lane_array<T>> parts) {
        return add(std::span<const lane_array<T>>(parts));
    }

    /// Returns the accesses of `from`, whose addresses count from `base` in the heap, as accesses to the space of the
    /// arrays. Both must outlive the result. An access outside all arrays gets the address `bytes()` of the result, and
    /// is rejected when a trace is made of it.
    [[nodiscard]] std::unique_ptr<uvm_model::access_source> in_order(uvm_model::access_source& from,
                                                                     std::uint64_t base) const;

private:
    friend class in_order_source;

    /// One thread's part of an array, as it lies in the heap.
    struct part {
        std::uint64_t chunk;  ///< address of the warp chunk
        lane_map map;
        std::uint32_t position;  ///< of the lane in the chunk
    };
    /// Memory of one part, or of all that share a chunk.
    struct region {
        std::uint64_t bytes;
        std::size_t array;  ///< index in `arrays_`
        lane_map map;
        std::array<std::uint32_t, max_lanes> thread_at;  // by position
    };
    /// An array in the space.
    struct placed_array {
        std::uint64_t begin;  ///< in the space
        uvm_model::placement where;
    };

    absl::Status add(std::span<const part> parts, std::uint64_t bytes_per_thread, std::uint64_t element_bytes);
    /// Returns the position in the space of the byte at an address of the heap; `end_` if it is in no array.
    [[nodiscard]] std::uint64_t find(std::uint64_t address) const;

    uvm_model::thread_memory like_;
    std::map<std::uint64_t, region> at_;  // keyed by the beginning of the region
    std::vector<placed_array> arrays_;
    std::uint64_t end_ = 0;  // bytes of the space
};

}  // namespace orchard::applications
