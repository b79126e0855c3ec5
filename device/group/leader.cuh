// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The leader of a group of lanes: the lowest lane of its mask. It acts for all of them.

#include "device/simt/lane.cuh"

namespace orchard::device {

/// Returns the leader's `value` in every lane of `mask`. All lanes of `mask` call it.
template <class T>
ORCHARD_INLINE T from_leader(simt::lane_mask mask, T value) {
    return simt::shuffle(mask, value, simt::leader_of(mask));
}

/// Returns whether this lane, which is in `mask`, is its leader.
ORCHARD_INLINE bool is_leader(simt::lane_mask mask) { return simt::lane_id() == simt::leader_of(mask); }

}  // namespace orchard::device
