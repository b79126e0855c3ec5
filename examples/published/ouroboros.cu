// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The applications in the variants of Ouroboros (docs/ouroboros.md).

#include "examples/published/in_allocator.cuh"

namespace orchard::examples {
namespace {

using device::ouroboros::variant;

template <variant V>
applications_in in_variant(const char* name) {
    return {name, create_ouroboros<V>, ouroboros_largest};
}

const applications_in all[] = {
    in_variant<variant::s_pages>("ouroboros_s_pages"),   in_variant<variant::s_chunks>("ouroboros_s_chunks"),
    in_variant<variant::va_pages>("ouroboros_va_pages"), in_variant<variant::va_chunks>("ouroboros_va_chunks"),
    in_variant<variant::vl_pages>("ouroboros_vl_pages"), in_variant<variant::vl_chunks>("ouroboros_vl_chunks"),
};

}  // namespace
}  // namespace orchard::examples
