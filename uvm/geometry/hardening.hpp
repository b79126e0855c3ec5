// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>

namespace orchard {

/// How a heap guards its blocks against a program's faults. docs/hardening.md says what each level finds, and its cost.
/// In text: `off`, `detect`, `guard`.
enum class hardening : int {
    off,     ///< invalid frees are counted
    detect,  ///< every block is checked when it is freed, and once more before its memory is used again
    guard,   ///< the same, and the first fault ends the kernel
};

/// The bytes of a block that a hardened heap returns. In text: `unchanged`, `zero`, `junk`.
enum class block_fill : int {
    unchanged,  ///< whatever the memory held before
    zero,       ///< as by `calloc`: a program that reads what it has not written repeats its results
    junk,       ///< 0xcd: such a program is easy to see
};

/// The greatest tag of a block (`heap_ref::malloc` with a tag). A tag has the 22 bits that a thread's index, below
/// 1,024, leaves of half a word.
inline constexpr std::uint32_t max_block_tag = (1u << 22) - 1;

/// The faults that a hardened heap finds.
enum class block_fault_kind : std::uint32_t {
    none,
    overflow,        ///< bytes behind the end of the block were written
    use_after_free,  ///< the block was written after it was freed
    double_free,     ///< the block was freed a second time
    invalid_free,    ///< no block begins at the address that was freed
};

}  // namespace orchard
