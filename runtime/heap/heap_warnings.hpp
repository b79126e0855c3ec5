// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <string>
#include <vector>

#include "device/simt/launch.cuh"
#include "runtime/options/options.hpp"

namespace orchard::detail {

/// What `warnings_of` judges a heap by.
struct heap_circumstances {
    simt::device_kind device = simt::device_kind::emulated;
    backing_option asked = backing_option::automatic;  ///< `options::backing` as the caller gave it
    bool loads_kernels_eagerly = true;
};

/// The lines of `heap::warnings` that follow from what a heap was asked for and what it became; those of its backing
/// are not among them. `values`: the heap's configuration.
std::vector<std::string> warnings_of(const heap_circumstances& how, const options& values);

}  // namespace orchard::detail
