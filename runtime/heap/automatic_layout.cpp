// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Chooses the layout that `layout::automatic()` stands for, once, when a heap is created.

#include "runtime/heap/automatic_layout.hpp"

namespace orchard {

/// Only managed memory moves, and only if the advice does not keep it on the host.
bool memory_moves(const options& made_with) {
    return made_with.backing == backing_option::managed && made_with.advice != managed_advice::cpu_resident;
}

/// The table has a row for each pattern. Whether memory fits the GPU is not known when a heap is created; the
/// permission to oversubscribe stands for it.
const recommended_layout& recommended_for(const options& made_with) {
    const recommendation& of = recommended_layouts[static_cast<std::size_t>(made_with.access_pattern)];
    return made_with.allow_oversubscription ? of.oversubscribed : of.fits;
}

/// A layout that the user has chosen is never replaced.
layout automatic_layout(const options& made_with) {
    return made_with.layout == layout::automatic() && memory_moves(made_with) ? recommended_for(made_with).arrays
                                                                              : made_with.layout;
}

}  // namespace orchard
