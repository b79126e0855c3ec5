// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lookups in a B+ tree whose nodes lie in the memory of all threads: every lookup goes from the root to a leaf. The
/// nodes of a path lie in the memory of unrelated threads; the upper levels are read by all.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "profiling/uvm/applications/b_plus_tree.cuh"
#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

constexpr std::uint64_t keys_of_scale = 64;  // of a thread
constexpr std::uint64_t lookups = 32;        // of a thread
using namespace kernels::b_plus_tree;

/// The tree as words, built on the host.
struct tree {
    std::vector<std::uint32_t> words;  ///< node after node
    std::uint32_t root = 0;            ///< number of the root node
    std::uint32_t levels = 0;          ///< of inner nodes

    /// Builds the tree from ascending keys: leaves first, then levels of inner nodes above them, until there is one
    /// node.
    tree(const std::vector<std::uint32_t>& keys, const std::vector<std::uint32_t>& values) {
        // At first the entries are keys and values; then, level by level, the least keys of nodes and their numbers.
        std::vector<std::uint32_t> least = keys;
        std::vector<std::uint32_t> below = values;
        for (bool leaves = true;; leaves = false) {
            std::vector<std::uint32_t> nodes;
            std::vector<std::uint32_t> least_of_nodes;
            for (std::size_t i = 0; i < below.size(); i += filled) {
                const std::size_t count = std::min<std::size_t>(filled, below.size() - i);
                nodes.push_back(static_cast<std::uint32_t>(words.size() / node_words));
                least_of_nodes.push_back(least[i]);
                words.resize(words.size() + node_words);
                std::uint32_t* const node = &words[words.size() - node_words];
                node[0] = static_cast<std::uint32_t>(count);
                for (std::size_t k = 0; k < count; ++k) {
                    node[first_key + k] = least[i + k];
                    node[first_child + k] = below[i + k];
                }
            }
            levels += leaves ? 0 : 1;
            below = nodes;
            least = least_of_nodes;
            if (below.size() == 1) {
                root = below.front();
                return;
            }
        }
    }
};

/// Fills the tree, looks up, and compares with the sorted keys: key i is one of eight numbers, so that its index
/// follows from the key.
void search(session& s, const parameters& p) {
    const std::uint64_t count = p.threads * keys_of_scale * p.scale;
    std::vector<std::uint32_t> keys(count);
    std::vector<std::uint32_t> values(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        keys[i] = static_cast<std::uint32_t>(i * key_spacing) + static_cast<std::uint32_t>(value(p, 1, i, key_spacing));
        values[i] = static_cast<std::uint32_t>(value(p, 2, i, absent));
    }
    const auto of_wanted = [&](std::uint64_t i) {  // half of them exist
        // Keys at even places exist; those at odd places exist only by chance.
        const auto any = static_cast<std::uint64_t>(value(p, 3, i, count * key_spacing));
        return i % 2 == 0 ? keys[any / key_spacing] : static_cast<std::uint32_t>(any);
    };
    const tree t(keys, values);
    // A node is 32 words, and no node lies in two parts.
    const auto nodes = s.array<index>(t.words.size(), node_words,
                                      [&](std::uint64_t i) { return i < t.words.size() ? t.words[i] : 0; });
    const auto wanted = s.array<index>(p.threads * lookups, lookups, of_wanted);
    const auto found = s.array<index>(p.threads * lookups, lookups, [](std::uint64_t) { return 0; });
    s.launch(look_up<std::uint32_t>{nodes.view(), wanted.view(), found.view(), p.threads, lookups, 0, lookups, t.root,
                                    t.levels});
    std::vector<std::int64_t> right;
    for (std::uint64_t i = 0; i < p.threads * lookups; ++i) {
        const std::uint32_t key = of_wanted(i);
        right.push_back(keys[key / key_spacing] == key ? values[key / key_spacing] : absent);
    }
    s.expect("b-plus-tree", s.contents(found, right.size()), right);
}

}  // namespace

absl::StatusOr<uvm_model::trace> b_plus_tree(const parameters& p) {
    const std::uint64_t keys = p.threads * keys_of_scale * p.scale;
    if (keys * key_spacing > absent) {
        return absl::InvalidArgumentError("b-plus-tree: too many keys for 32 bits: fewer threads, or a smaller scale");
    }
    // A node has twelve entries, except the last one of each level; twice as many nodes as leaves are enough.
    return run_session(p, 2 * node_words * 4 * (keys / filled + 1) + 8 * p.threads * lookups,
                       [&](session& s) { search(s, p); });
}

}  // namespace orchard::applications
