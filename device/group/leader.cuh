// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The leader of a group of lanes: the lowest lane of its mask. It acts for all of them: one lane performs the atomics
/// of a group and writes its requests, so that 32 lanes cost as much as one.
///
/// Shuffles and ballots move values between lanes and order no memory accesses. An acquire by the leader holds for the
/// other lanes only after `simt::sync` of the mask. A release by the leader covers the other lanes' writes only if a
/// `simt::sync` came before it.

#include "device/simt/lane.cuh"

namespace orchard::device {

/// Returns the leader's `value` in every lane of `mask`. All lanes of `mask` call it, converged. The other lanes'
/// `value` is ignored, so that only the leader needs to compute it. Cost: one shuffle, no memory access.
template <class T>
ORCHARD_INLINE T from_leader(simt::lane_mask mask, T value) {
    return simt::shuffle(mask, value, simt::leader_of(mask));
}

/// Returns whether this lane, which is in `mask`, is its leader. No collective.
ORCHARD_INLINE bool is_leader(simt::lane_mask mask) { return simt::lane_id() == simt::leader_of(mask); }

}  // namespace orchard::device
