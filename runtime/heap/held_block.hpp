// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The blocks that a program names when it has a heap validated (`heap::validate`).

#include <cstdint>

namespace orchard {

/// A block that a program holds: the result of a `malloc` that was not freed, and the bytes that were asked for.
struct held_block {
    const void* address = nullptr;  ///< a device address
    std::uint64_t bytes = 0;
};

}  // namespace orchard
