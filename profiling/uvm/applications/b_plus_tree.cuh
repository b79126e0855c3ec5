// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernel of `b-plus-tree`, and the form of a node.

#include <cstdint>

#include "profiling/uvm/applications/parts.cuh"

namespace orchard::applications::kernels::b_plus_tree {

inline constexpr std::uint64_t key_spacing = 8;  // the i-th key is one of as many numbers
inline constexpr std::uint32_t absent = ~std::uint32_t{0};

// A node, in words. An inner node has children 0 to count - 1; its keys 1 to count - 1 are the least keys below these
// children. A leaf has values for its keys 0 to count - 1.
//
//      0       1 ... 15   16       17 ... 31
//     | count | keys     | unused | children or values |
inline constexpr std::uint64_t node_words = 32;
inline constexpr std::uint64_t first_key = 1;
inline constexpr std::uint64_t first_child = 17;
inline constexpr std::uint64_t filled = 12;  // children or keys of a node when it is built

/// Each thread looks up its keys `first` to `last` - 1, one after the other, and stores the value or `absent`. `Word`
/// is the type of keys, values and children.
template <class Word>
struct look_up {
    parts<simt::plain<Word>> nodes;   ///< words of all nodes
    parts<simt::plain<Word>> wanted;  ///< [threads][each]: keys
    parts<simt::plain<Word>> found;   ///< [threads][each]: results
    std::uint64_t threads;
    std::uint64_t each;   ///< lookups of a thread
    std::uint64_t first;  ///< of each thread's lookups of this launch
    std::uint64_t last;   ///< behind them
    Word root;
    std::uint32_t levels;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        for (std::uint64_t i = t * each + first; t < threads && i < t * each + last; ++i) {
            const Word key = wanted[i].get();
            Word node = root;
            for (std::uint32_t level = 0; level < levels; ++level) {
                node = word(node, first_child + place_of(node, key));
            }
            const std::uint32_t place = place_of(node, key);
            const Word answer = word(node, first_key + place) == key ? word(node, first_child + place) : absent;
            // The lanes meet behind loops that end at different times, here and in `place_of`.
            reconverge();
            found[i].set(answer);
        }
    }
    [[nodiscard]] ORCHARD_FN Word word(Word node, std::uint64_t at) const {
        return nodes[node * node_words + at].get();
    }
    /// Returns the index of the last of the node's keys that is not above `key`; 0 if all are above it.
    [[nodiscard]] ORCHARD_FN std::uint32_t place_of(Word node, Word key) const {
        const Word count = word(node, 0);
        std::uint32_t place = 0;
        while (place + 1 < count && word(node, first_key + place + 1) <= key) {
            ++place;
        }
        reconverge();
        return place;
    }
};

}  // namespace orchard::applications::kernels::b_plus_tree
