// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The van Emde Boas tree of the textbooks; see veb_tree.hpp. Every function halves the bits at each step.

#include "profiling/baselines/veb_tree.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "host/word_runs.hpp"

namespace orchard::baselines {
namespace {

// A number of `bits` bits: the upper ones, rounded up, name the cluster, the lower ones the number in it.
constexpr std::uint32_t high_bits(std::uint32_t bits) { return bits - bits / 2; }
constexpr std::uint32_t low_bits(std::uint32_t bits) { return bits / 2; }
constexpr std::uint32_t high(std::uint32_t x, std::uint32_t bits) { return x >> low_bits(bits); }
constexpr std::uint32_t low(std::uint32_t x, std::uint32_t bits) { return x & ((1u << low_bits(bits)) - 1); }
constexpr std::uint32_t join(std::uint32_t h, std::uint32_t l, std::uint32_t bits) { return h << low_bits(bits) | l; }

}  // namespace

template <std::uint32_t LeafBits>
struct veb_tree<LeafBits>::node {
    std::uint32_t min;  ///< min > max: the tree is empty
    std::uint32_t max;
    slot* children;  ///< the clusters, then the summary; null if there have never been three numbers

    [[nodiscard]] bool empty() const { return min > max; }
    [[nodiscard]] slot& cluster(std::uint32_t x, std::uint32_t bits) const { return children[high(x, bits)]; }
    [[nodiscard]] slot& summary(std::uint32_t bits) const { return children[std::size_t{1} << high_bits(bits)]; }
};

template <std::uint32_t LeafBits>
veb_tree<LeafBits>::veb_tree(std::uint32_t universe, bool full)
    : universe_(universe), bits_(std::max(1u, static_cast<std::uint32_t>(std::bit_width(std::max(universe, 1u) - 1)))) {
    if (full && universe != 0) {
        root_ = range(bits_, 0, universe - 1);
    }
}

template <std::uint32_t LeafBits>
bool veb_tree<LeafBits>::is_empty(const slot& s, std::uint32_t bits) {
    return bits <= LeafBits ? s.word == 0 : s.child == nullptr || s.child->empty();
}

template <std::uint32_t LeafBits>
std::uint32_t veb_tree<LeafBits>::min_of(const slot& s, std::uint32_t bits) {
    return bits <= LeafBits ? static_cast<std::uint32_t>(std::countr_zero(s.word)) : s.child->min;
}

template <std::uint32_t LeafBits>
std::uint32_t veb_tree<LeafBits>::max_of(const slot& s, std::uint32_t bits) {
    return bits <= LeafBits ? static_cast<std::uint32_t>(std::bit_width(s.word)) - 1 : s.child->max;
}

template <std::uint32_t LeafBits>
bool veb_tree<LeafBits>::contains(std::uint32_t x) const {
    if (x >= universe_) {
        return false;
    }
    const slot* s = &root_;
    std::uint32_t bits = bits_;
    while (bits > LeafBits) {
        if (is_empty(*s, bits)) {
            return false;
        }
        const node& n = *s->child;
        if (x == n.min || x == n.max) {
            return true;
        }
        if (n.children == nullptr) {
            return false;
        }
        s = &n.cluster(x, bits);
        x = low(x, bits);
        bits = low_bits(bits);
    }
    return (s->word >> x & 1) != 0;
}

// The maximum of x's cluster says, in O(1), which of the two trees has the answer: the cluster or the summary.
template <std::uint32_t LeafBits>
std::uint32_t veb_tree<LeafBits>::successor_in(const slot& s, std::uint32_t bits, std::uint32_t x) {
    if (bits <= LeafBits) {
        // The bits above x. For x = 63 none is left, without a shift by 64.
        const std::uint64_t above = s.word & ~std::uint64_t{1} << x;
        return above == 0 ? none : static_cast<std::uint32_t>(std::countr_zero(above));
    }
    if (is_empty(s, bits) || x >= s.child->max) {
        return none;
    }
    const node& n = *s.child;
    if (x < n.min) {
        return n.min;
    }
    if (n.children == nullptr) {
        return n.max;
    }
    const slot& own = n.cluster(x, bits);
    if (!is_empty(own, low_bits(bits)) && low(x, bits) < max_of(own, low_bits(bits))) {
        return join(high(x, bits), successor_in(own, low_bits(bits), low(x, bits)), bits);
    }
    const std::uint32_t next = successor_in(n.summary(bits), high_bits(bits), high(x, bits));
    return next == none ? n.max : join(next, min_of(n.children[next], low_bits(bits)), bits);
}

// If the cluster was empty, its insertion is O(1), because a first number only becomes min and max; the summary is then
// the one tree that is gone down into.
template <std::uint32_t LeafBits>
bool veb_tree<LeafBits>::insert_in(slot& s, std::uint32_t bits, std::uint32_t x) {
    if (bits <= LeafBits) {
        const std::uint64_t before = std::exchange(s.word, s.word | std::uint64_t{1} << x);
        return before != s.word;
    }
    if (s.child == nullptr) {
        s.child = arena_.make<node>();
        s.child->min = 1;  // and max is 0: empty
    }
    node& n = *s.child;
    if (n.empty()) {
        n.min = n.max = x;
        return true;
    }
    if (x == n.min || x == n.max) {
        return false;
    }
    if (n.min == n.max) {
        (x < n.min ? n.min : n.max) = x;
        return true;
    }
    // A new extreme takes the place of the old one, which goes to the clusters.
    if (x < n.min) {
        std::swap(x, n.min);
    } else if (x > n.max) {
        std::swap(x, n.max);
    }
    add_children(n, bits);
    slot& cluster = n.cluster(x, bits);
    if (is_empty(cluster, low_bits(bits))) {
        insert_in(n.summary(bits), high_bits(bits), high(x, bits));
    }
    return insert_in(cluster, low_bits(bits), low(x, bits));
}

// The summary is gone down into only if the cluster has lost its last number, which is O(1).
template <std::uint32_t LeafBits>
bool veb_tree<LeafBits>::erase_in(slot& s, std::uint32_t bits, std::uint32_t x) {
    if (bits <= LeafBits) {
        const std::uint64_t before = std::exchange(s.word, s.word & ~(std::uint64_t{1} << x));
        return before != s.word;
    }
    if (is_empty(s, bits) || x < s.child->min || x > s.child->max) {
        return false;
    }
    node& n = *s.child;
    if (n.min == n.max) {
        n.min = 1;
        n.max = 0;
        return true;
    }
    if (n.children == nullptr || is_empty(n.summary(bits), high_bits(bits))) {
        // Two numbers: the other one becomes both extremes.
        const bool is_extreme = x == n.min || x == n.max;
        if (is_extreme) {
            n.min = n.max = x == n.min ? n.max : n.min;
        }
        return is_extreme;
    }
    // An extreme is replaced by the least or the greatest number of the clusters, which is then removed there.
    if (x == n.min) {
        const std::uint32_t h = min_of(n.summary(bits), high_bits(bits));
        x = n.min = join(h, min_of(n.children[h], low_bits(bits)), bits);
    } else if (x == n.max) {
        const std::uint32_t h = max_of(n.summary(bits), high_bits(bits));
        x = n.max = join(h, max_of(n.children[h], low_bits(bits)), bits);
    }
    slot& cluster = n.cluster(x, bits);
    if (!erase_in(cluster, low_bits(bits), low(x, bits))) {
        return false;
    }
    if (is_empty(cluster, low_bits(bits))) {
        erase_in(n.summary(bits), high_bits(bits), high(x, bits));
    }
    return true;
}

// Returns the tree of all numbers from `first` to `last`. Built from above, so that each node is written once: to
// insert the numbers one by one would be O(universe * log log universe).
template <std::uint32_t LeafBits>
typename veb_tree<LeafBits>::slot veb_tree<LeafBits>::range(std::uint32_t bits, std::uint32_t first,
                                                            std::uint32_t last) {
    slot s{};
    if (bits <= LeafBits) {
        s.word = orchard::detail::bits_from(first, last - first + 1);
        return s;
    }
    s.child = arena_.make<node>();
    node& n = *s.child;
    n.min = first;
    n.max = last;
    if (last - first < 2) {
        return s;
    }
    // What lies between the extremes: whole clusters, but for the first and the last one.
    add_children(n, bits);
    const std::uint32_t from = first + 1;
    const std::uint32_t to = last - 1;
    const std::uint32_t all = (1u << low_bits(bits)) - 1;
    for (std::uint32_t h = high(from, bits); h <= high(to, bits); ++h) {
        n.children[h] = range(low_bits(bits), h == high(from, bits) ? low(from, bits) : 0,
                              h == high(to, bits) ? low(to, bits) : all);
    }
    n.summary(bits) = range(high_bits(bits), high(from, bits), high(to, bits));
    return s;
}

// Allocates the clusters of `n`, all empty, and its summary, if it has none.
template <std::uint32_t LeafBits>
void veb_tree<LeafBits>::add_children(node& n, std::uint32_t bits) {
    if (n.children == nullptr) {
        n.children = arena_.make<slot>((std::size_t{1} << high_bits(bits)) + 1);
    }
}

template class veb_tree<1>;
template class veb_tree<6>;

}  // namespace orchard::baselines
