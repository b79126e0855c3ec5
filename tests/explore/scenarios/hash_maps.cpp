// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes insert into a hash map, look up, change and erase, while its buckets are split. A bucket has two slots and the
/// first map two buckets, so that splits, chains and new pieces come with every few keys.
///
/// Each lane has keys of its own, of which it knows the state at any time; some keys are in the map from the beginning
/// to the end; others are inserted and erased by all lanes, and each of these is there once or not at all. Every value
/// says which key it belongs to.
///
/// In the first scenario a key and its value share a word, in the second each has a word. In the third the heap has one
/// to three segments, each of which serves one size: an insert may find no memory for a bucket, a block or a directory,
/// and then changes nothing. A lane that has a segment to itself frees it meanwhile, so that a later insert finds some.

#include <array>
#include <map>

#include "device/containers/hash_map.cuh"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

struct small_map_shape {
    static constexpr std::uint32_t most_slots = 2;
    static constexpr std::uint32_t log_first = 1;
    static constexpr std::uint32_t log_piece = 2;
    static constexpr std::uint64_t pieces_ahead = 1;
};
constexpr std::uint32_t small_map_buckets_per_key = (100u << 16) / (2 * 85);

// Common keys from 0, lasting ones from 50, those of lane i from 100 + 16 i.
constexpr int common_keys = 3;
constexpr int lasting_keys = 4;

template <class Number>
class map_world {
    using map_type = hash_map_ref<Number, Number, small_map_shape>;

public:
    /// @param lacks  the heap may have no memory for an insert
    map_world(world& w, heap_world& heap, bool lacks)
        : w_{w}, heap_{heap}, map_{heap.ref, &state_, small_map_buckets_per_key}, lacks_{lacks} {}

    bool begin() {
        w_.s.add_kernel({{1}}, [&](simt::thread_position) {
            w_.s.check(map_.memory().begin(), "no memory for an empty map");
            for (int i = 0; i < lasting_keys; ++i) {
                const map_result r = map_.insert(key(50 + i), value_of(key(50 + i)));
                w_.s.check(r == map_result::inserted || (lacks_ && r == map_result::no_memory), "a first key");
                lasts_[static_cast<std::size_t>(i)] = r == map_result::inserted;
            }
        });
        return w_.s.run();
    }

    void use(std::uint64_t me) {
        std::map<Number, Number> mine;
        for (int i = 0; i < 5 * w_.size.operations; ++i) {
            const Number own = key(static_cast<int>(100 + 16 * me + w_.s.pick(5)));
            switch (w_.s.pick(6)) {
                case 0:
                case 1: insert_own(own, mine); break;
                case 2: erase_own(own, mine); break;
                case 3: find_own(own, mine); break;
                case 4: use_common(); break;
                default: find_other(); break;
            }
        }
        for (const auto& [k, v] : mine) {
            expected_.emplace(k, v);
        }
    }

    /// Checks the contents after all lanes have ended, and frees the memory.
    bool end() {
        w_.s.add_kernel({{1}}, [&](simt::thread_position) {
            std::map<Number, Number> held;
            map_.for_each(
                0, 1, [&](Number k, Number v) { w_.s.check(held.emplace(k, v).second, "a key is in the map twice"); });
            for (int i = 0; i < lasting_keys; ++i) {
                if (lasts_[static_cast<std::size_t>(i)]) {
                    expected_.emplace(key(50 + i), value_of(key(50 + i)));
                }
            }
            for (int i = 0; i < common_keys; ++i) {
                const int there = common_[static_cast<std::size_t>(i)];
                w_.s.check(there == 0 || there == 1, "a key was inserted or erased twice");
                if (there == 1) {
                    expected_.emplace(key(i), value_of(key(i)));
                }
            }
            w_.s.check(held == expected_, "the map does not hold what was inserted");
            w_.s.check(map_.size() == held.size(), "the map counts wrongly");
            map_.for_each_node(0, 1, [&](device::map_node* n, std::uint32_t used, bool is_block) {
                w_.s.check(!is_block || used != 0, "an empty block is in a chain");
                if (is_block) {
                    heap_.ref.free(n);
                }
            });
            map_.memory().free_all(0, 1);
            map_.memory().forget();
        });
        return w_.s.run();
    }

private:
    static Number key(int i) { return static_cast<Number>(i); }
    static Number value_of(Number k) { return static_cast<Number>(k * 1000 + 7); }

    void insert_own(Number own, std::map<Number, Number>& mine) {
        const bool is_there = mine.contains(own);
        const Number next = is_there ? static_cast<Number>(mine[own] + 1) : value_of(own);
        const map_result r = w_.s.pick(2) == 0 ? map_.insert_or_assign(own, next)
                                               : map_.upsert(own, next, [](Number old) { return old + 1; });
        if (lacks_ && !is_there && r == map_result::no_memory) {
            return;
        }
        w_.s.check(r == (is_there ? map_result::present : map_result::inserted), "an insert of a lane's own key");
        mine[own] = next;
    }
    void erase_own(Number own, std::map<Number, Number>& mine) {
        w_.s.check(map_.erase(own) == (mine.erase(own) != 0), "an erase of a lane's own key");
    }
    void find_own(Number own, const std::map<Number, Number>& mine) {
        Number found = 0;
        const auto at = mine.find(own);
        w_.s.check(map_.find(own, found) == (at != mine.end()), "a find of a lane's own key");
        w_.s.check(at == mine.end() || found == at->second, "the value of a lane's own key");
    }
    void use_common() {
        const auto i = w_.s.pick(common_keys);
        const Number common = key(static_cast<int>(i));
        if (w_.s.pick(3) == 0) {
            common_[i] -= map_.erase(common) ? 1 : 0;
        } else {
            const map_result r = map_.insert(common, value_of(common));
            w_.s.check(lacks_ || r != map_result::no_memory, "no memory, although there is");
            common_[i] += r == map_result::inserted ? 1 : 0;
        }
    }
    void find_other() {
        Number found = 0;
        const auto which = w_.s.pick(lasting_keys);
        const Number lasting = key(static_cast<int>(50 + which));
        const bool is_there = map_.find(lasting, found);
        w_.s.check(is_there == lasts_[which] && (!is_there || found == value_of(lasting)),
                   "a key that always was there");
        const Number other = key(static_cast<int>(100 + 16 * w_.s.pick(4) + w_.s.pick(5)));
        if (map_.find(other, found)) {
            w_.s.check(found >= value_of(other) && found < value_of(other) + 100, "the value of another key");
        }
        const Number common = key(static_cast<int>(w_.s.pick(common_keys)));
        if (map_.find(common, found)) {
            w_.s.check(found == value_of(common), "the value of another key");
        }
    }

    world& w_;
    heap_world& heap_;
    hash_map_state state_{};
    map_type map_;
    bool lacks_;
    std::array<bool, lasting_keys> lasts_{};  ///< the keys that are there from the beginning to the end
    std::array<int, common_keys> common_{};   ///< inserts less erases
    std::map<Number, Number> expected_;
};

template <class Number>
void run_hash_map(world& w) {
    heap_world heap(w);
    map_world<Number> map(w, heap, false);
    if (!map.begin()) {
        return;
    }
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) { map.use(at.global_thread()); });
    if (w.s.run() && map.end()) {
        heap.check_counts();
    }
}

void run_hash_map_shortage(world& w) {
    const auto segments = static_cast<std::uint32_t>(2 + w.s.pick(3));
    heap_world heap(w, {.segments = segments,
                        .committed_at_start = segments,
                        .extent = 1,
                        .cache_target = static_cast<std::uint32_t>(w.s.pick(2)),
                        .refill_batch = 1});
    map_world<std::uint32_t> map(w, heap, true);
    void* held = nullptr;
    if (!map.begin()) {
        return;
    }
    w.s.add_kernel({{1}}, [&](simt::thread_position) { held = heap.take(segment_bytes); });
    if (!w.s.run()) {
        return;
    }
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
        if (at.global_thread() == 1 && held != nullptr) {
            heap.give(held, segment_bytes);
        }
        map.use(at.global_thread());
    });
    if (w.s.run() && map.end()) {
        heap.check_counts();
    }
}

const registrar hash_map_scenario{{"hash_map",
                                   "Lanes change a hash map and read it while its buckets are split.",
                                   {{{3, 2}, {3}}, 2},
                                   run_hash_map<std::uint32_t>}};
const registrar hash_map_shortage_scenario{{"hash_map_shortage",
                                            "The first, where the heap has no memory for some inserts.",
                                            {{{3, 2}, {3}}, 2},
                                            run_hash_map_shortage}};
const registrar hash_map_words_scenario{{"hash_map_words",
                                         "The same with keys and values that have a word each.",
                                         {{{3, 2}, {3}}, 2},
                                         run_hash_map<std::uint64_t>}};

}  // namespace
}  // namespace orchard::explore
