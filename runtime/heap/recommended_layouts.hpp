// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the model of the UVM driver's paging recommends where memory moves between host and GPU: docs/layouts.md.
///
/// Made by `orchard uvm --recommend --header`, for the machine h200; a test holds the two together.

#include <array>

#include "uvm/geometry/access_pattern.hpp"
#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard {

/// How arrays of lanes are to lie, and how warps share VA blocks.
struct recommended_layout {
    layout arrays;  ///< `automatic`: in tiles of one element
    portion_policy portions;
};

/// Where all memory fits the GPU, and where it does not.
struct recommendation {
    recommended_layout fits;
    recommended_layout oversubscribed;
};

/// By pattern, in the order of `access_pattern`.
inline constexpr std::array<recommendation, access_pattern_names.size()> recommended_layouts{{
    // unknown
    {{layout::automatic(), portion_policy::packed}, {layout::interleaved(tile::k64), portion_policy::packed}},
    // same-index
    {{layout::interleaved(tile::k64), portion_policy::packed},
     {layout::interleaved(tile::k64), portion_policy::packed}},
    // random
    {{layout::linear(), portion_policy::packed}, {layout::linear(), portion_policy::packed}},
    // sequential
    {{layout::interleaved(tile::k64), portion_policy::packed},
     {layout::interleaved(tile::k64), portion_policy::packed}},
    // strided
    {{layout::automatic(), portion_policy::packed}, {layout::interleaved(tile::k64), portion_policy::packed}},
    // growth
    {{layout::linear(), portion_policy::packed}, {layout::interleaved(tile::k64), portion_policy::packed}},
    // graph-walk
    {{layout::linear(), portion_policy::packed}, {layout::linear(), portion_policy::packed}},
}};

}  // namespace orchard
