// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `orchard::array_list`: an array in a heap, to which threads of running kernels append (docs/containers.md). C++17
/// gets the view for kernels, `array_list_ref`; C++20 also the owner on the host.

#include "device/containers/array_list.cuh"
#if __cplusplus >= 202002L
#include "runtime/containers/array_list.hpp"
#endif
