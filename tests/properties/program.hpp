// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Random programs for a heap: how they are made up, made smaller once one fails, and written down.

#include <rapidcheck.h>

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "tests/properties/perform.hpp"

namespace orchard::test {

/// The sizes that the lanes of a burst request.
enum class spread : std::uint32_t {
    alike,  ///< all the same
    up_to,  ///< each up to that
    mixed,  ///< each that, half of it, or a quarter; and a few bytes
};

/// Some lanes of one warp do the same kind of thing at once.
struct burst {
    std::uint32_t warp = 0;
    std::uint32_t lanes = 1;  ///< a mask
    action what = action::malloc;
    std::uint64_t bytes = 1;
    spread sizes = spread::alike;
    std::uint64_t alignment = 16;  ///< of `aligned_alloc`
    std::uint32_t salt = 0;        ///< decides what differs from lane to lane, and which blocks are meant

    /// Returns the size that a lane allocates, or to which it reallocates a block.
    [[nodiscard]] std::uint64_t bytes_of(std::uint32_t lane) const;
    [[nodiscard]] bool has(std::uint32_t lane) const { return (lanes >> lane & 1) != 0; }
};

/// One launch: each warp's bursts one after another, those of several warps at the same time.
struct step {
    std::vector<burst> bursts;
};

struct program {
    std::vector<step> steps;
};

/// Programs for a heap of so many bytes: 1 to `max_steps` steps.
rc::Gen<program> programs(std::uint64_t capacity, int max_steps);

/// Prints a counterexample: a line for each burst.
void showValue(const program& p, std::ostream& out);

}  // namespace orchard::test
