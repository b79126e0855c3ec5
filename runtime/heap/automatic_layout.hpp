// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The layout that `layout::automatic()` means in a heap: docs/layouts.md.

#include "runtime/heap/recommended_layouts.hpp"
#include "runtime/options/options.hpp"

namespace orchard {

/// Returns true if the UVM driver moves a heap's memory between host and GPU. `made_with` is as `make_backing` left it.
///
/// Memory does not move under the advice cpu_resident, nor in the spill tier of an elastic heap: kernels reach both
/// over the bus.
bool memory_moves(const options& made_with);

/// Returns the table's recommendation for the heap's pattern and capacity.
const recommended_layout& recommended_for(const options& made_with);

/// Returns the layout for arrays of lanes: the option `layout`, unless it is automatic and memory moves. In that case
/// returns the recommended layout, which may be automatic again (a tile of one element, and linear for small groups).
layout automatic_layout(const options& made_with);

}  // namespace orchard
