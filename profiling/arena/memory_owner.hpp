// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// An owner for an allocator that needs memory and some words of zeros, and nothing else of the host.

#include <cstdint>
#include <utility>

#include "profiling/arena/adapter.hpp"

namespace orchard::arena {

/// Owns the memory of a view with three members: `Words` words, zero at first; the memory, aligned to 64 B at least;
/// its size in bytes. `initialise` makes the words zero again, which must make the allocator empty.
template <class View, std::uint64_t Words = 1>
class memory_owner {
public:
    /// Errors: those of the two arrays.
    static absl::StatusOr<memory_owner> create(const simt::executor& on, std::uint64_t bytes) {
        auto words = device_array<word>::create(on, Words);
        auto memory = device_array<char>::create(on, bytes);
        if (!words.ok() || !memory.ok()) {
            return words.ok() ? memory.status() : words.status();
        }
        return memory_owner{*std::move(words), *std::move(memory)};
    }
    [[nodiscard]] View ref() const { return {words_.data(), memory_.data(), memory_.size()}; }
    absl::Status initialise() { return words_.zero(); }

private:
    using word = simt::device_word<std::uint64_t>;

    memory_owner(device_array<word> words, device_array<char> memory)
        : words_{std::move(words)}, memory_{std::move(memory)} {}

    device_array<word> words_;
    device_array<char> memory_;
};

}  // namespace orchard::arena
