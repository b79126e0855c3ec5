// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Memory for the nodes of a tree that only grows: nodes are allocated one by one and released all at once.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace orchard::baselines {

/// Hands out memory from chunks. The chunks double from 1 KiB to 1 MiB, so that a small tree stays small and a large
/// one has at most 1 MiB that it does not use. A moved-from arena must not be used. Not thread-safe.
class node_arena {
public:
    /// Returns `count` new objects, value-initialised: numbers are 0, pointers null. They live as long as the arena.
    /// Cost: O(count).
    template <class T>
    T* make(std::size_t count = 1) {
        static_assert(std::is_trivially_destructible_v<T>, "the arena runs no destructor");
        static_assert(alignof(T) <= unit && sizeof(T) % unit == 0, "chunks are cut in units");
        const std::size_t bytes = count * sizeof(T);
        if (bytes > left_) {
            add_chunk(bytes);
        }
        std::byte* const place = std::exchange(next_, next_ + bytes);
        left_ -= bytes;
        return new (place) T[count]();
    }

private:
    static constexpr std::size_t unit = 8;  // bytes
    static constexpr std::size_t first_chunk = std::size_t{1} << 10;
    static constexpr std::size_t largest_chunk = std::size_t{1} << 20;

    void add_chunk(std::size_t at_least) {
        left_ = std::max(at_least, chunk_);
        chunk_ = std::min(2 * chunk_, largest_chunk);
        chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(left_));
        next_ = chunks_.back().get();
    }

    std::vector<std::unique_ptr<std::byte[]>> chunks_;
    std::byte* next_ = nullptr;  ///< where the next object begins
    std::size_t left_ = 0;       ///< bytes from `next_` to the end of its chunk
    std::size_t chunk_ = first_chunk;
};

}  // namespace orchard::baselines
