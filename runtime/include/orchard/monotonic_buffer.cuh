// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `orchard::monotonic_buffer`: memory in a heap for many small objects, which are freed together (docs/containers.md).
/// C++17 gets the view for kernels, `monotonic_buffer_ref`; C++20 also the owner on the host.

#include "device/containers/monotonic_buffer.cuh"
#if __cplusplus >= 202002L
#include "runtime/containers/monotonic_buffer.hpp"
#endif
