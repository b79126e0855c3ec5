// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The variants of Ouroboros whose queues hold pages.

#include "profiling/arena/published/ouroboros.hpp"

namespace orchard::arena {
namespace {

using device::ouroboros::variant;

const registrar of_arrays{ouroboros_allocator<variant::s_pages>("ouroboros_s_pages")};
const registrar of_array_hierarchies{ouroboros_allocator<variant::va_pages>("ouroboros_va_pages")};
const registrar of_linked_chunks{ouroboros_allocator<variant::vl_pages>("ouroboros_vl_pages")};

}  // namespace
}  // namespace orchard::arena
