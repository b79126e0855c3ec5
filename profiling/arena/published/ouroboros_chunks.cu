// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The variants of Ouroboros whose queues hold chunks.

#include "profiling/arena/published/ouroboros.hpp"

namespace orchard::arena {
namespace {

using device::ouroboros::variant;

const registrar of_arrays{ouroboros_allocator<variant::s_chunks>("ouroboros_s_chunks")};
const registrar of_array_hierarchies{ouroboros_allocator<variant::va_chunks>("ouroboros_va_chunks")};
const registrar of_linked_chunks{ouroboros_allocator<variant::vl_chunks>("ouroboros_vl_chunks")};

}  // namespace
}  // namespace orchard::arena
