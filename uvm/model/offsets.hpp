// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Accesses without a layout: an `offset_source` gives the thread and the byte that a lane accesses, a `placement`
/// gives the address of that byte. Any two of them can be combined.
///
///     pattern ---> offset_source --placed(A)--> access_source ---> paging_model
///
///     a recording made under layout A, run under layout B:
///     access_source --offsets_of(A)--> offset_source --placed(B)--> access_source ---> paging_model

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "uvm/model/access.hpp"
#include "uvm/model/placement.hpp"

namespace orchard::uvm_model {

/// One lane's access in one step of its warp, without a layout.
struct offset_access {
    std::uint64_t thread;  ///< the thread that owns the memory
    std::uint64_t offset;  ///< bytes from its beginning
    std::uint8_t lane;     ///< the lane that accesses it, 0 to 31
    access_kind kind;
    friend constexpr bool operator==(const offset_access&, const offset_access&) = default;
};

/// A warp's accesses in one step, the lanes ascending.
using offset_buffer = std::span<offset_access, max_lanes>;

/// The accesses of a kernel as offsets in its threads' memory. As in `access_source`, the steps of each warp are
/// requested in order, the last one possibly again. Step 0 may be requested at any time; 0 accesses mark the end.
class offset_source {
public:
    offset_source() = default;
    offset_source(const offset_source&) = delete;
    offset_source& operator=(const offset_source&) = delete;
    virtual ~offset_source() = default;

    /// Writes the accesses of `warp` in its step `index` to `out` and returns their number; 0 means that the warp has
    /// ended.
    virtual std::size_t step(std::uint32_t warp, std::uint64_t index, offset_buffer out) = 0;
};

/// Returns `accesses` as placed by `where`, whose warps and bytes are those of the result. Threads and offsets must be
/// within its memory; this is not checked. Cost: a few ns more for each access; a division for each access to the
/// memory of another warp.
std::unique_ptr<access_source> placed(std::unique_ptr<offset_source> accesses, const placement& where);

/// Returns the inverse: the offsets of accesses that were placed by `where`, so that a trace recorded under one layout
/// can be placed by another. `from` must outlive the result. Addresses outside all threads' memory are treated as
/// `placement::byte_at` says. Cost: some divisions for each access.
std::unique_ptr<offset_source> offsets_of(access_source& from, const placement& where);

}  // namespace orchard::uvm_model
