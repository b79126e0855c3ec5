// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The applications in KMA (docs/kma.md), and in XMalloc before a heap (docs/xmalloc.md).

#include "examples/published/in_allocator.cuh"

namespace orchard::examples {
namespace {

const applications_in in_kma{"kma", create_kma, kma_largest};
const applications_in in_xmalloc{"xmalloc", create_xmalloc, any_size};

}  // namespace
}  // namespace orchard::examples
