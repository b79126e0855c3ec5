// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the emulated device recorded, as accesses of a managed space.

#include <memory>

#include "device/simt/emulated/recorder.hpp"
#include "uvm/model/access.hpp"

namespace orchard::uvm_model {

/// The accesses of `recorder`, which outlives the result and records nothing meanwhile. Addresses count from the VA
/// block on in which its range begins; the space ends with the last VA block accessed. Where nothing was launched: one
/// warp without steps. Step 0 may be asked for at any time. Cost: of the first look: one pass; then a few ns an access.
std::unique_ptr<access_source> recorded(const simt::emulated::access_recorder& recorder);

}  // namespace orchard::uvm_model
