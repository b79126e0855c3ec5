// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Hash maps and sets in a heap: `orchard::hash_map_ref`, `hash_set_ref` in kernels (C++17 and later), and their owners
/// `orchard::hash_map`, `hash_set` on the host (C++20). docs/containers.md describes them.

#include "device/containers/hash_set.cuh"
#if __cplusplus >= 202002L
#include "runtime/containers/hash_map.hpp"
#endif
