// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The description of a machine as JSON, for programs. The library itself needs no JSON.

#include <string>

#include "runtime/machine/machine_info.hpp"

namespace orchard {

/// Returns a JSON object: "version" (of the program), "host", "cuda", "gpus", "device" (the choice of `automatic` and
/// its reason).
std::string to_json(const machine_info& machine);

}  // namespace orchard
