// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `orchard::work_queue`: a queue in a heap between threads of running kernels (docs/containers.md). C++17 gets the
/// view for kernels, `work_queue_ref`; C++20 also the owner on the host.

#include "device/containers/work_queue.cuh"
#if __cplusplus >= 202002L
#include "runtime/containers/work_queue.hpp"
#endif
