// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The description of a machine as JSON, for programs. The library itself needs no JSON.

#include <nlohmann/json.hpp>

#include "runtime/machine/machine_info.hpp"

namespace orchard {

/// Returns a JSON object: "host", "cuda", "gpus". Sizes are in bytes, versions numbered as in CUDA (13000 is 13.0).
nlohmann::ordered_json json_of(const machine_info& machine);

/// Returns the member "device" of the document: the choice of `automatic` as "kind" and once more as "auto", and its
/// "reason".
nlohmann::ordered_json automatic_device_json(const machine_info& machine);

}  // namespace orchard
