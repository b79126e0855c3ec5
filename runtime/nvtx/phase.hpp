// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Phases of a program as ranges in Nsight's tools:
///
///     {
///         const orchard::nvtx::phase now(orchard::nvtx::phase::compute, items);
///         kernel<<<...>>>(...);
///         cudaDeviceSynchronize();
///     }
///
/// Nsight Compute profiles the kernels of one phase by `ncu --nvtx --nvtx-include "orchard@compute/" PROGRAM`
/// (docs/nsight.md). A phase covers what the host does between its beginning and its end: wait for the kernels in it,
/// or their ends lie behind it.

#include <cstdint>

#include "runtime/nvtx/domain.hpp"

namespace orchard::nvtx {

/// A range of the calling thread, from the constructor to the destructor; phases nest. Cost without a tool: a load and
/// a test.
class phase {
public:
    static constexpr name build = name::build;        ///< data and structures are made
    static constexpr name allocate = name::allocate;  ///< kernels allocate
    static constexpr name compute = name::compute;    ///< kernels use what was allocated
    static constexpr name free = name::free;          ///< kernels free
    static constexpr name migrate = name::migrate;    ///< memory moves between device and host

    /// @param amount  shown with the range: items, bytes, what the program likes
    explicit phase(name of, std::uint64_t amount = 0) { push(of, amount); }
    ~phase() { pop(); }
    phase(const phase&) = delete;
    phase& operator=(const phase&) = delete;
};

}  // namespace orchard::nvtx
