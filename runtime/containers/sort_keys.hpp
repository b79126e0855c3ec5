// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Sorting and summing arrays in device memory, for batches of a graph: by CUB on CUDA, by the standard library on the
/// emulated device.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "device/simt/launch.cuh"
#include "runtime/heap/device_memory.hpp"

namespace orchard::detail {

/// Arrays that `sort_keys` sorts. It sorts back and forth between `keys` and `other_keys`.
struct sorted_arrays {
    std::uint64_t* keys = nullptr;
    std::uint64_t* other_keys = nullptr;
    std::uint32_t* values = nullptr;  ///< of the keys; null: none
    std::uint32_t* other_values = nullptr;
};

/// Sorts `count` < 2^31 keys by their lowest `bits` bits, and the values with them; equal keys stay in their order.
/// Afterwards the sorted arrays are `keys` and `values`: the pointers are exchanged if need be.
/// @param memory  memory for the sort, which it enlarges if need be
/// Errors: those of `device_array`, of CUDA. Cost: on CUDA a pass over the arrays for each 8 bits; it waits for nothing
/// but a larger `memory`.
absl::Status sort_keys(const simt::executor& on, sorted_arrays& arrays, std::uint64_t count, int bits,
                       device_array<std::byte>& memory);

/// Arrays that `sort_rows` sorts, back and forth as above.
struct sorted_rows {
    std::uint8_t* keys = nullptr;
    std::uint8_t* other_keys = nullptr;
    std::uint32_t* order = nullptr;
    std::uint32_t* other_order = nullptr;
};

/// Sorts `count` < 2^31 numbers of rows by their keys; rows of one key stay in their order. Pointers, errors, cost: as
/// `sort_keys`, with one pass.
absl::Status sort_rows(const simt::executor& on, sorted_rows& arrays, std::uint64_t count,
                       device_array<std::byte>& memory);
/// Enlarges `memory`, so that `sort_rows` has as much as it needs for `count` rows. Errors: those of `device_array`.
absl::Status reserve_sort_rows(const simt::executor& on, std::uint64_t count, device_array<std::byte>& memory);

/// Replaces each of `count` numbers by the sum of those before it. Errors and cost: as `sort_keys`.
absl::Status sum_before(const simt::executor& on, std::uint64_t* numbers, std::uint64_t count,
                        device_array<std::byte>& memory);

}  // namespace orchard::detail
