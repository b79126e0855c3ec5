// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The slow paths of a heap, compiled once for the host.

#include "device/slow_paths.cuh"

#include "device/slow_path_definitions.cuh"
