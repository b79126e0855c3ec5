// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The device side of Orchard: `orchard::heap_ref`. C++17 and later; a source that includes this file alone takes about
/// a second longer to compile with nvcc -rdc=true, and about four without.

#include "device/heap_ref.cuh"
#include "device/sampled_array.cuh"
