// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The warnings that follow from a heap's options and its machine: a part of `heap::warnings`.

#include <string>
#include <vector>

#include "device/simt/launch.cuh"
#include "runtime/options/options.hpp"

namespace orchard::detail {

/// The circumstances that `warnings_of` evaluates. They are arguments, so that tests can ask for machines that are not
/// there.
struct heap_circumstances {
    simt::device_kind device = simt::device_kind::emulated;
    backing_option asked = backing_option::automatic;  ///< `options::backing` as the caller gave it
    bool loads_kernels_eagerly = true;
    /// Why a heap with the device `automatic` is on the emulated device although the build has CUDA; else empty.
    std::string no_gpu = {};
};

/// Returns the lines of `heap::warnings` that follow from the requested options and the chosen ones; the warnings of
/// the backing are not included. `values`: the heap's configuration.
std::vector<std::string> warnings_of(const heap_circumstances& how, const options& values);

}  // namespace orchard::detail
