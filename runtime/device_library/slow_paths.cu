// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The slow paths of a heap for GPU code that is compiled with -rdc=true. The functions are those of the GPU alone: the
/// host's are in device/slow_paths.cpp. This file therefore does not include their declarations, which are for both. If
/// a signature differs from its declaration, programs do not link.

#define ORCHARD_SLOW_FN __device__
#include "device/slow_path_definitions.cuh"
