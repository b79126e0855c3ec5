// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The emulated device's recording as accesses of a managed space, so that a kernel that ran on the emulated device can
/// be run through the paging model. docs/uvm_traces.md describes the recorder.

#include <memory>

#include "device/simt/emulated/recorder.hpp"
#include "uvm/model/access.hpp"

namespace orchard::uvm_model {

/// Returns the accesses of `recorder`, which must outlive the result and record nothing meanwhile. Addresses count from
/// the VA block in which its range begins; the space ends with the last VA block accessed. If nothing was launched, the
/// result is one warp without steps. Step 0 may be requested at any time. Cost: one pass over all accesses in this
/// call, then a few ns an access.
std::unique_ptr<access_source> recorded(const simt::emulated::access_recorder& recorder);

}  // namespace orchard::uvm_model
