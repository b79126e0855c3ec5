// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Summaries of the free runs below an OR-tree node, and the search in a node's 64 children.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "host/word_runs.hpp"

namespace orchard::detail {

/// The free runs of one node, in segments.
///
///     segments   1 1 1 0 1 1 1 1 1 0 0 1 1
///                prefix=3  longest=5   suffix=2      (a node that is all free has all three equal to its span)
struct run_summary {
    std::uint32_t prefix = 0;   ///< free segments from the first segment on
    std::uint32_t suffix = 0;   ///< free segments up to the last segment
    std::uint32_t longest = 0;  ///< length of the longest run inside the node
    friend constexpr bool operator==(const run_summary&, const run_summary&) = default;
};

/// Returns the summary of one leaf word, whose lowest segment is bit 0: its prefix is the number of trailing ones.
constexpr run_summary summary_of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(std::countr_one(word)), static_cast<std::uint32_t>(std::countl_one(word)),
            longest_run_of(word)};
}

/// Where the lowest run of a node begins: inside one child (`child`), or `offset` segments after the node's first, for
/// a run across children. Exactly one of the two is not `none`. A run inside a child is searched further there. A run
/// across children needs no further search, since the suffix of its first child says where it begins.
struct run_place {
    static constexpr std::uint32_t none = 0xffffffffu;
    std::uint32_t child = none;
    std::uint32_t offset = none;
};

/// Returns the index of the first nonzero byte of 64; 64 if all are zero. Cost: at most eight compares, of eight bytes
/// each.
inline std::uint32_t first_set(const std::uint8_t (&flags)[word_bits]) {
    static_assert(std::endian::native == std::endian::little, "the lowest index is the least significant byte");
    for (std::uint32_t i = 0; i < word_bits; i += 8) {
        std::uint64_t eight;
        std::memcpy(&eight, flags + i, sizeof eight);
        if (eight != 0) {
            return i + static_cast<std::uint32_t>(std::countr_zero(eight)) / 8;
        }
    }
    return word_bits;
}

/// The summaries of a node's 64 children, each `Span` segments wide. They are stored as arrays of the narrowest type
/// `T` that holds 2 * Span, the longest run across two neighbours. The loops over them have 64 steps and no branches,
/// so that compilers turn each into a few vector instructions. A child past the end of the tree has the summary of a
/// child without free segments.
///
/// A free run of a node is of one of three kinds, and each is found in its own way (here Span = 4):
///
///     child i                    0         1         2         3
///     segments               | 1 1 0 1 | 1 1 0 1 | 1 1 1 1 | 1 0 0 0 |
///     inside one child         x x                                        longest[0] = 2
///     across two neighbours          x   x x                              suffix[0] + prefix[1] = 1 + 2 = 3
///     over full children                       x   x x x x   x            suffix[1] + 4 + prefix[3] = 1 + 4 + 1 = 6
template <class T, std::uint32_t Span>
struct alignas(64) run_block {
    static constexpr std::uint32_t span = Span;  ///< number of segments below one child

    T longest[word_bits] = {};
    T suffix[word_bits] = {};
    T prefix[word_bits + 1] = {};  ///< the last one stays 0: child 63 has no right neighbour in this node
    std::uint64_t full = 0;        ///< bit i: all segments of child i are free

    /// Returns the summary of `child`.
    [[nodiscard]] run_summary get(std::uint32_t child) const {
        return {static_cast<std::uint32_t>(prefix[child]), static_cast<std::uint32_t>(suffix[child]),
                static_cast<std::uint32_t>(longest[child])};
    }

    /// Stores the summary of `child`. Returns true if it has changed.
    bool set(std::uint32_t child, run_summary s) {
        if (get(child) == s) {
            return false;
        }
        prefix[child] = static_cast<T>(s.prefix);
        suffix[child] = static_cast<T>(s.suffix);
        longest[child] = static_cast<T>(s.longest);
        full = (full & ~bit_of(child)) | (s.prefix == Span ? bit_of(child) : 0);
        return true;
    }

    /// Returns the node's own summary. The first loop finds the longest run inside a child or across two neighbours; it
    /// misses runs that span a full child, which `every_full_run` adds. The node's prefix is its leading full children
    /// and the prefix of the child after them; its suffix likewise. Cost: one pass over 64 children, and one step for
    /// each run of full children.
    [[nodiscard]] run_summary summary() const {
        if (~full == 0) {
            return {Span * word_bits, Span * word_bits, Span * word_bits};
        }
        T most = 0;
        for (std::uint32_t i = 0; i < word_bits; ++i) {
            // For child 63 this is its suffix alone: prefix[64] is 0.
            const T across = static_cast<T>(suffix[i] + prefix[i + 1]);
            most = std::max(most, std::max(across, longest[i]));
        }
        const auto low = static_cast<std::uint32_t>(std::countr_one(full));
        const auto high = static_cast<std::uint32_t>(std::countl_one(full));
        run_summary s{low * Span + prefix[low], high * Span + suffix[word_bits - 1 - high],
                      static_cast<std::uint32_t>(most)};
        every_full_run([&](std::uint32_t, std::uint32_t length) {
            s.longest = std::max(s.longest, length);
            return true;
        });
        return s;
    }

    /// Returns the lowest run of `k` segments; `summary().longest >= k >= 1` must hold. Cost: as `summary`.
    [[nodiscard]] run_place find(std::uint32_t k) const { return k <= Span ? find_short(k) : find_long(k); }

private:
    /// Returns the lowest run of a length that fits into one child. The first child with such a run, inside or across
    /// its upper border, has the lowest one: a run that begins in a lower child would have been found there. If the
    /// child has a run inside as well as across its border, the one inside begins no higher. Runs over full children
    /// need no care, since a full child itself holds k segments.
    [[nodiscard]] run_place find_short(std::uint32_t k) const {
        const T wanted = static_cast<T>(k);
        std::uint8_t flags[word_bits];
        for (std::uint32_t i = 0; i < word_bits; ++i) {
            const T across = static_cast<T>(suffix[i] + prefix[i + 1]);
            flags[i] = std::max(across, longest[i]) >= wanted;
        }
        const std::uint32_t i = first_set(flags);
        if (longest[i] >= wanted) {
            return {.child = i};
        }
        return {.offset = (i + 1) * Span - suffix[i]};
    }

    /// Returns the lowest run that is longer than a child: the end of one child, any number of full children, and the
    /// beginning of another child. With a full child in it, `every_full_run` finds it. Without one, it lies in two
    /// neighbours, so that it is shorter than two children.
    [[nodiscard]] run_place find_long(std::uint32_t k) const {
        std::uint32_t start = run_place::none;
        every_full_run([&](std::uint32_t offset, std::uint32_t length) {
            start = length >= k ? offset : start;
            return length < k;
        });
        if (k < 2 * Span) {
            const T wanted = static_cast<T>(k);
            std::uint8_t flags[word_bits];
            for (std::uint32_t i = 0; i < word_bits; ++i) {
                flags[i] = static_cast<T>(suffix[i] + prefix[i + 1]) >= wanted;
            }
            // If the lower child is full, the loop above has found this run, and where it really begins.
            if (const std::uint32_t i = first_set(flags); i < word_bits) {
                start = std::min(start, (i + 1) * Span - suffix[i]);
            }
        }
        return {.offset = start};
    }

    /// Calls `visit(offset, length)`, both in segments, for each run that includes at least one full child, in order,
    /// until a call returns false. Such a run is a maximal sequence of full children, the free end of the child before
    /// it and the free beginning of the child after it.
    template <class Visit>
    void every_full_run(Visit&& visit) const {
        for (std::uint64_t rest = full; rest != 0;) {
            const auto begin = static_cast<std::uint32_t>(std::countr_zero(rest));
            const auto many = static_cast<std::uint32_t>(std::countr_one(rest >> begin));
            const std::uint32_t before = begin == 0 ? 0 : suffix[begin - 1];
            if (!visit(begin * Span - before, before + many * Span + prefix[begin + many])) {
                return;
            }
            rest &= ~bits_from(begin, many);
        }
    }
};

}  // namespace orchard::detail
