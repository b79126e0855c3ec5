// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A binary search tree of a graph's vertices, each with a list of its edges, which many threads build at once. Source:
/// KMA (R. Spliet, 2013), section 6.2.3.
///
///     search_node   key | left | right | edges --> list_edge --> list_edge
///                                                    | to: search_node of the edge's end
///
///     ensure(key)   descends to the node, or to a null child, where it puts a new node by a compare-and-swap. A node
///                   that another thread has put there meanwhile has the key, or the descent goes on from it
///
/// A thread keeps a node that it could not put for its next key, so that it allocates none in vain.

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/launch.cuh"

namespace orchard::examples {

using simt::device_word;
using simt::order;

struct search_node;

struct list_edge {
    search_node* to;
    list_edge* next;
};

struct search_node {
    std::uint64_t key;
    device_word<std::uint64_t> child[2];  ///< addresses of nodes: smaller keys, greater ones
    device_word<std::uint64_t> edges;     ///< address of the first edge
    search_node* made_before;             ///< the node that the same thread has made before this one
};

/// A directed edge of the input.
struct key_pair {
    std::uint32_t from;
    std::uint32_t to;
};

/// The words of a tree that all threads share.
struct search_tree {
    device_word<std::uint64_t> root;
    device_word<std::uint64_t> nodes;  ///< in the tree
    device_word<std::uint64_t> edges;
    device_word<std::uint64_t> spared;     ///< nodes that were allocated, and kept for another key or freed
    device_word<std::uint64_t> no_memory;  ///< edges that were left out for want of memory
};

/// Returns the node with a key; null if there is none.
[[nodiscard]] ORCHARD_FN inline search_node* find_node(const search_tree& tree, std::uint64_t key) {
    // Acquire pairs with the release that put the node there: its words are visible.
    auto* at = reinterpret_cast<search_node*>(tree.root.load<order::acquire>());
    while (at != nullptr && at->key != key) {
        at = reinterpret_cast<search_node*>(at->child[key > at->key ? 1 : 0].load<order::acquire>());
    }
    return at;
}

/// Adds edges to the tree; thread i those of its own part, until it finds no memory. `made[i]` becomes the last node
/// that thread i has made.
/// `Memory`: `void* malloc(std::uint64_t) const`, `void free(void*) const`.
template <class Memory>
struct build_search_tree {
    Memory memory;
    const key_pair* edges;
    std::uint64_t count;
    std::uint64_t threads;
    search_tree* tree;
    search_node** made;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t thread = at.global_thread();
        if (thread >= threads) {
            return;
        }
        search_node* spare = nullptr;
        search_node* last = nullptr;
        std::uint64_t left_out = 0;
        for (std::uint64_t i = thread; i < count; i += threads) {
            search_node* const from = ensure(edges[i].from, spare, last);
            search_node* const to = from == nullptr ? nullptr : ensure(edges[i].to, spare, last);
            auto* const e = to == nullptr ? nullptr : static_cast<list_edge*>(memory.malloc(sizeof(list_edge)));
            if (e == nullptr) {
                left_out = (count - i + threads - 1) / threads;
                break;
            }
            e->to = to;
            std::uint64_t first = from->edges.template load<order::relaxed>();
            do {
                e->next = reinterpret_cast<list_edge*>(first);
                // Release: the edge is read in a later kernel, or behind an acquire of this word.
            } while (!from->edges.template compare_exchange<order::release>(first, reinterpret_cast<std::uint64_t>(e)));
            tree->edges.template fetch_add<order::relaxed>(1);
        }
        if (spare != nullptr) {
            memory.free(spare);
        }
        if (left_out != 0) {
            tree->no_memory.template fetch_add<order::relaxed>(left_out);
        }
        made[thread] = last;
    }

private:
    /// Returns the node with a key, which it adds if there is none; null without memory.
    ORCHARD_FN search_node* ensure(std::uint64_t key, search_node*& spare, search_node*& last) const {
        device_word<std::uint64_t>* link = &tree->root;
        for (;;) {
            auto* const at = reinterpret_cast<search_node*>(link->template load<order::acquire>());
            if (at != nullptr) {
                if (at->key == key) {
                    return at;
                }
                link = &at->child[key > at->key ? 1 : 0];
                continue;
            }
            spare = spare != nullptr ? spare : static_cast<search_node*>(memory.malloc(sizeof(search_node)));
            if (spare == nullptr) {
                return nullptr;
            }
            spare->key = key;
            spare->child[0].template store<order::relaxed>(0);
            spare->child[1].template store<order::relaxed>(0);
            spare->edges.template store<order::relaxed>(0);
            spare->made_before = last;
            std::uint64_t none = 0;
            if (link->template compare_exchange<order::release>(none, reinterpret_cast<std::uint64_t>(spare))) {
                last = spare;
                spare = nullptr;
                tree->nodes.template fetch_add<order::relaxed>(1);
                return last;
            }
            tree->spared.template fetch_add<order::relaxed>(1);
        }
    }
};

/// What the tree says of one key, to be compared with the input.
struct key_record {
    std::uint32_t is_there;
    std::uint32_t edges;
    std::uint64_t sum;  ///< of `mix_key` of the ends of its edges
};

[[nodiscard]] ORCHARD_FN constexpr std::uint64_t mix_key(std::uint64_t key) {
    return (key + 1) * 0x9e3779b97f4a7c15u ^ (key << 40);
}

/// Thread i reads what the tree has of key i.
struct read_search_tree {
    const search_tree* tree;
    std::uint64_t keys;
    key_record* records;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t key = at.global_thread();
        if (key >= keys) {
            return;
        }
        const search_node* const found = find_node(*tree, key);
        key_record r{};
        if (found != nullptr) {
            r.is_there = 1;
            for (auto* e = reinterpret_cast<const list_edge*>(found->edges.load<order::relaxed>()); e != nullptr;
                 e = e->next) {
                ++r.edges;
                r.sum += mix_key(e->to->key);
            }
        }
        records[key] = r;
    }
};

/// Each thread frees the nodes that it has made, with their edges.
template <class Memory>
struct free_search_tree {
    Memory memory;
    std::uint64_t threads;
    search_node* const* made;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t thread = at.global_thread();
        for (search_node* n = thread < threads ? made[thread] : nullptr; n != nullptr;) {
            auto* e = reinterpret_cast<list_edge*>(n->edges.template load<order::relaxed>());
            while (e != nullptr) {
                list_edge* const gone = e;
                e = e->next;
                memory.free(gone);
            }
            search_node* const gone = n;
            n = n->made_before;
            memory.free(gone);
        }
    }
};

}  // namespace orchard::examples
