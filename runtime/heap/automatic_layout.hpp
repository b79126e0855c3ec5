// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What `layout::automatic()` stands for in a heap: docs/layouts.md.

#include "runtime/heap/recommended_layouts.hpp"
#include "runtime/options/options.hpp"

namespace orchard {

/// Whether the UVM driver moves a heap's memory between host and GPU. `made_with` as `make_backing` left it.
///
/// Not under the advice cpu_resident, and not the spill tier of an elastic heap: kernels reach both over the bus, and
/// nothing moves.
bool memory_moves(const options& made_with);

/// What the table recommends for the heap's pattern and capacity.
const recommended_layout& recommended_for(const options& made_with);

/// How arrays of lanes are to lie: `layout`, unless that is automatic and memory moves; then what is recommended, which
/// may be automatic again (a tile of one element, and linear for small groups).
layout automatic_layout(const options& made_with);

}  // namespace orchard
