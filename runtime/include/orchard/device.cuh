// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The device side of Orchard: `orchard::heap_ref` and the SIMT seam.

#include "device/heap_ref.cuh"
#include "device/simt/launch.cuh"
