// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The functions in the machine code of a kernel; for the recorder in a program. CUPTI names a sample by the kernel,
/// and gives its distance from the kernel's begin; functions that the compiler did not inline lie behind it, in the
/// same section:
///
///     section .text.walk_graph
///         0x0000   walk_graph                                        the kernel
///         0x1a00   $walk_graph$_ZN7orchard6device11search_pageE...   a function that it calls
///         0x2f80   $walk_graph$_ZN7orchard6device15record_failureE...

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orchard::profiling {

/// The functions of the modules (cubins) that the process has loaded. Not thread-safe.
class cubin_symbols {
public:
    /// Adds the functions of a cubin, an ELF file of 64 bits. One that is malformed adds those that could be read.
    /// @param crc  the number by which CUPTI's samples refer to the cubin
    void add(std::uint64_t crc, std::string_view cubin);

    /// Returns the name, as the compiler made it, of the function at `offset` from the begin of `kernel`; `kernel`
    /// itself if nothing is known of it.
    [[nodiscard]] std::string function_at(std::uint64_t crc, const std::string& kernel, std::uint64_t offset) const;

private:
    struct function {
        std::uint64_t begin;
        std::uint64_t end;
        std::string name;
    };
    std::set<std::uint64_t> added_;  ///< cubins
    /// By cubin and kernel.
    std::map<std::pair<std::uint64_t, std::string>, std::vector<function>> functions_;
};

}  // namespace orchard::profiling
