// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Accesses before they are laid out: an `offset_source` says which byte of which thread's memory a lane accesses, a
/// `placement` where that byte lies. Any two of them can be composed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "uvm/model/access.hpp"
#include "uvm/model/placement.hpp"

namespace orchard::uvm_model {

/// One lane's access in one step of its warp, before anything is laid out.
struct offset_access {
    std::uint64_t thread;  ///< whose memory is accessed
    std::uint64_t offset;  ///< bytes from its beginning
    std::uint8_t lane;     ///< who accesses, 0 to 31
    access_kind kind;
    friend constexpr bool operator==(const offset_access&, const offset_access&) = default;
};

using offset_buffer = std::span<offset_access, max_lanes>;

/// The accesses of a kernel as offsets in its threads' memory. As `access_source`: each warp's steps are asked for in
/// order, the last one also again, and step 0 at any time; 0 accesses are the end.
class offset_source {
public:
    offset_source() = default;
    offset_source(const offset_source&) = delete;
    offset_source& operator=(const offset_source&) = delete;
    virtual ~offset_source() = default;

    virtual std::size_t step(std::uint32_t warp, std::uint64_t index, offset_buffer out) = 0;
};

/// `accesses` where `where` places them. Threads and offsets must be within its memory. Cost: a few ns an access more.
std::unique_ptr<access_source> placed(std::unique_ptr<offset_source> accesses, const placement& where);

/// The inverse: the offsets of accesses that were placed by `where`, so that a trace recorded under one layout can be
/// placed by another. `from` outlives the result. Accesses of what is no thread's memory keep an offset beyond it.
std::unique_ptr<offset_source> offsets_of(access_source& from, const placement& where);

}  // namespace orchard::uvm_model
