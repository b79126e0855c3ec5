// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lookups in a B+ tree on real memory. The tree is that of ascending keys, twelve to a node, so that each node is a
/// function of its number; keys wanted and values found take a sixteenth of the bytes. A pass does the first lookups of
/// each thread.
///
///     node        0 1 2 ... | n ...   | ...   | root
///                 leaves    | level 1 | ...   |           `level_begin` has the number of each level's first node
///
/// Check: values found, from the seed: half of the wanted keys exist, the others by chance.

#include "profiling/uvm/applications/b_plus_tree.cuh"

#include "profiling/apps/app_run.cuh"

namespace orchard::apps {
namespace of_b_plus_tree {
namespace {

using namespace applications::kernels::b_plus_tree;

constexpr std::uint32_t max_levels = 16;  // 12^16 keys
constexpr std::uint64_t no_value = absent;

/// The shape of a tree. Level 0 has the leaves.
struct shape {
    std::uint64_t keys = 0;
    std::uint32_t levels = 0;                    ///< of inner nodes
    std::uint64_t level_begin[max_levels] = {};  ///< number of each level's first node
    std::uint64_t nodes = 0;

    explicit shape(std::uint64_t count) : keys{count} {
        // Each level has a node for twelve entries of the level below, until there is one node.
        std::uint64_t entries = count;
        for (std::uint32_t level = 0; level < max_levels; ++level) {
            entries = (entries + filled - 1) / filled;
            level_begin[level] = nodes;
            nodes += entries;
            levels = level;
            if (entries == 1) {
                break;
            }
        }
    }
};

/// The keys and values, ascending.
struct entries {
    std::uint64_t seed;
    std::uint64_t keys;

    [[nodiscard]] ORCHARD_FN std::uint64_t key(std::uint64_t i) const {
        return i * key_spacing + static_cast<std::uint64_t>(applications::value(seed, 1, i, key_spacing));
    }
    [[nodiscard]] ORCHARD_FN std::uint64_t value(std::uint64_t i) const {
        return static_cast<std::uint64_t>(applications::value(seed, 2, i, absent));
    }
    /// Returns the key that lookup `i` wants. Those of even lookups exist.
    [[nodiscard]] ORCHARD_FN std::uint64_t wanted(std::uint64_t i) const {
        const auto any = static_cast<std::uint64_t>(applications::value(seed, 3, i, keys * key_spacing));
        return i % 2 == 0 ? key(any / key_spacing) : any;
    }
};

/// The words of all nodes; 0 behind them.
struct node_word {
    shape tree;
    entries all;

    ORCHARD_FN std::uint64_t operator()(std::uint64_t i) const {
        const std::uint64_t node = i / node_words;
        const std::uint64_t at = i % node_words;
        if (node >= tree.nodes) {
            return 0;
        }
        // The level, and the number of keys below an entry of a node there.
        std::uint32_t level = 0;
        std::uint64_t below_entry = 1;
        while (level < tree.levels && node >= tree.level_begin[level + 1]) {
            ++level;
            below_entry *= filled;
        }
        const std::uint64_t first = (node - tree.level_begin[level]) * filled;  // entry of the level
        const std::uint64_t all_entries = (tree.keys + below_entry - 1) / below_entry;
        const std::uint64_t count = all_entries - first < filled ? all_entries - first : filled;
        if (at == 0) {
            return count;
        }
        if (at >= first_key && at < first_key + count) {
            return all.key((first + at - first_key) * below_entry);
        }
        if (at >= first_child && at < first_child + count) {
            const std::uint64_t entry = first + at - first_child;
            return level == 0 ? all.value(entry) : tree.level_begin[level - 1] + entry;
        }
        return 0;
    }
};

struct wanted_key {
    entries all;
    ORCHARD_FN std::uint64_t operator()(std::uint64_t i) const { return all.wanted(i); }
};

struct is_found {
    parts<wide> found;
    entries all;
    std::uint64_t each;  ///< lookups of a thread
    std::uint64_t last;  ///< those that were done

    ORCHARD_FN bool operator()(std::uint64_t result) const {
        const std::uint64_t i = result / last * each + result % last;
        const std::uint64_t key = all.wanted(i);
        const std::uint64_t place = key / key_spacing;
        return found[i].get() == (all.key(place) == key ? all.value(place) : no_value);
    }
};

/// Returns the greatest tree of at most `nodes` nodes; at least one leaf.
shape largest_tree(std::uint64_t nodes) {
    // Eleven of twelve nodes are leaves.
    std::uint64_t keys = std::max<std::uint64_t>(nodes * (filled - 1), filled);
    while (keys > filled && shape(keys).nodes > nodes) {
        keys -= filled;
    }
    return shape(keys);
}

}  // namespace
}  // namespace of_b_plus_tree

void run_b_plus_tree(app_run& s) {
    using namespace of_b_plus_tree;
    constexpr std::uint64_t lookup_bytes = 16;  // key and value
    constexpr std::uint64_t node_bytes = 8 * node_words;
    const std::uint64_t threads = s.threads();
    const std::uint64_t each = s.at_least_one(s.what().bytes / 16 / (lookup_bytes * threads), "lookups");
    const std::uint64_t lookups = each * threads;
    const std::uint64_t for_nodes = s.what().bytes - std::min(s.what().bytes, lookups * lookup_bytes);
    const shape tree = largest_tree(for_nodes / node_bytes);
    const entries all{s.seed(), tree.keys};
    const auto found = s.array<wide>(lookups, each, constant{});
    const auto wanted = s.array<wide>(lookups, each, wanted_key{all});
    const auto nodes = s.array<wide>(tree.nodes * node_words, node_words, node_word{tree, all});
    // Of a node: its count, 77 / 12 keys on average, a child or a value; of a leaf its key once more.
    const double accesses = (tree.levels + 1) * (1 + 77.0 / 12 + 1) + 1 + 2;
    const std::uint64_t last = s.passes({each, accesses, 8 * accesses}, [&](item_range r) {
        s.timed(
            look_up<std::uint64_t>{nodes, wanted, found, threads, each, r.first, r.last, tree.nodes - 1, tree.levels});
    });
    s.check(found, threads * last, is_found{found, all, each, last});
}

}  // namespace orchard::apps
