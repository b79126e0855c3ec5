// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The input of the model of the driver's paging: the accesses of a kernel's warps, step by step.
///
///     warp 0    step 0: lane 0 reads 0, lane 1 reads 4096, ..., lane 31 reads 126976
///               step 1: lane 0 writes 4, lane 5 writes 20480
///               step 2: no access: the warp has ended
///     warp 1    step 0: ...
///
/// The model knows nothing else of a kernel: no instructions, no values, no barriers between warps.

#include <cstddef>
#include <cstdint>
#include <span>

#include "uvm/geometry/layout.hpp"

namespace orchard::uvm_model {

/// The kind of an access. To the driver, an atomic is a write: both need a page that is mapped writable.
enum class access_kind : std::uint8_t { read, write, atomic };

/// One lane's access in one step of its warp.
struct access {
    std::uint64_t address;  ///< bytes from the beginning of the managed space, which is aligned to 2 MiB
    std::uint8_t lane;      ///< 0 to 31
    access_kind kind;
};

/// A warp's accesses in one step: the lanes that make an access, ascending.
using step_buffer = std::span<access, max_lanes>;

/// The accesses of a kernel: for each warp a sequence of steps, in each of which each lane makes at most one access.
/// Patterns compute them, recorded traces contain them. Deterministic.
class access_source {
public:
    access_source() = default;
    access_source(const access_source&) = delete;
    access_source& operator=(const access_source&) = delete;
    virtual ~access_source() = default;

    /// Returns the bytes of the managed space; every address is below it.
    [[nodiscard]] virtual std::uint64_t bytes() const = 0;
    /// Returns the number of warps.
    [[nodiscard]] virtual std::uint32_t warps() const = 0;
    /// Writes the accesses of `warp` in its step `index` to `out` and returns their number; 0 means that the warp has
    /// ended. The steps of each warp are requested in order from 0; the last requested step may be requested again.
    virtual std::size_t step(std::uint32_t warp, std::uint64_t index, step_buffer out) = 0;
};

}  // namespace orchard::uvm_model
