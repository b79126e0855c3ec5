// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `hash_map` and `hash_set`, the owners of hash maps in a heap that grow while kernels run.

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "device/containers/hash_set.cuh"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard {

/// What a map consists of.
struct hash_map_statistics {
    std::uint64_t keys = 0;
    std::uint64_t buckets = 0;          ///< that are there
    std::uint64_t buckets_ready = 0;    ///< that have memory, those included
    std::uint64_t overflow_blocks = 0;  ///< taken from the heap, in use or free
    std::uint64_t bytes = 0;            ///< of buckets and overflow blocks
};

namespace detail {

/// The kernels of the host's functions.
template <class Map>
struct begin_map {
    Map map;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            (void)map.memory().begin();
        }
    }
};
template <class Map>
struct free_chains {
    Map map;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const heap_ref heap = map.memory().heap();
        map.for_each_node(at.global_thread(), at.threads(), [&](device::map_node* n, std::uint32_t, bool is_block) {
            if (is_block) {
                heap.free(n);
            }
        });
    }
};
template <class Map>
struct free_pieces {
    Map map;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        map.memory().free_all(at.thread, at.threads_per_block);
    }
};
template <class Map>
struct forget_map {
    Map map;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            map.memory().forget();
        }
    }
};
template <class Map, class K, class V>
struct copy_map {
    Map map;
    simt::device_word<std::uint64_t>* count;
    K* keys;
    V* values;
    std::uint64_t room;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        map.for_each(at.global_thread(), at.threads(), [&](const K& key, const V& value) {
            const std::uint64_t i = count->fetch_add<simt::order::relaxed>(std::uint64_t{1});
            if (i < room) {
                keys[i] = key;
                values[i] = value;
            }
        });
    }
};

}  // namespace detail

/// Owns a hash map in a heap, which threads of any kernel read and write (`hash_map_ref`). It grows while kernels run,
/// without a return to the host. The heap must outlive it. Move-only; one thread of the host at a time.
///
///     auto map = orchard::hash_map<std::uint64_t, std::uint32_t>::create(heap);     // absl::StatusOr
///     count_words<<<blocks, threads>>>(map->ref(), ...);                            // map.upsert(word, 1, plus_one)
///     map->size();                                                                  // after the kernel
///
/// `K`, `V`: as `hash_map_ref` says. Memory: with 4 B and 4 B, 13 to 16 B for each key at the default load, with 8 B
/// and 8 B, 26 to 31 B; beyond that, a quarter as much is held ahead of need, up to 16.5 MiB, and at least the rest of
/// a piece of 512 KiB.
template <class K, class V>
class hash_map {
public:
    using ref_type = hash_map_ref<K, V>;

    /// Returns an empty map, which has 32 buckets.
    /// @param load  the share of the slots that have keys when the map grows, in percent, 10 to 95. A bucket whose
    /// slots
    ///     are all used gets overflow blocks, which cost time: at 70 % they are few.
    /// Errors: InvalidArgument; ResourceExhausted if the heap has no memory; those of `device_array` and of a launch.
    /// Cost on CUDA: a `cudaMalloc`, which may wait for kernels, and a kernel.
    static absl::StatusOr<hash_map> create(const orchard::heap& heap, int load = 70) {
        if (load < 10 || load > 95) {
            return absl::InvalidArgumentError(absl::StrFormat("load = %d: a map's load is 10 to 95 percent", load));
        }
        auto state = device_array<hash_map_state>::create(heap.executor(), 1);
        if (!state.ok()) {
            return state.status();
        }
        hash_map made;
        made.state_ = *std::move(state);
        made.on_ = heap.executor();
        const std::uint32_t keys_in_100 = ref_type::slots_per_bucket * static_cast<std::uint32_t>(load);
        made.ref_ = ref_type(heap.ref(), made.state_.data(), (100u << 16) / keys_in_100);
        if (absl::Status s = made.begin(); !s.ok()) {
            return s;
        }
        return made;
    }
    hash_map(hash_map&& other) noexcept { swap(other); }
    hash_map& operator=(hash_map&& other) noexcept {
        swap(other);
        return *this;
    }
    /// Frees all memory. No kernel may use the map any more.
    ~hash_map() {
        if (state_.data() != nullptr) {
            (void)free_memory();
        }
    }

    /// Returns the view for kernels.
    [[nodiscard]] ref_type ref() const { return ref_; }
    /// Returns the number of keys. Errors: those of the copy. Cost: waits for the executor's stream, and a copy.
    [[nodiscard]] absl::StatusOr<std::uint64_t> size() const {
        const auto all = statistics();
        if (!all.ok()) {
            return all.status();
        }
        return all->keys;
    }
    /// Returns the map's numbers. Errors and cost: as `size`.
    [[nodiscard]] absl::StatusOr<hash_map_statistics> statistics() const {
        std::vector<hash_map_state> words(1);
        if (absl::Status s = state_.download(words); !s.ok()) {
            return s;
        }
        const auto value = [](const auto& word) { return word.template load<simt::order::relaxed>(); };
        hash_map_statistics all;
        all.keys = value(words[0].keys);
        all.buckets_ready = value(words[0].ready);
        all.buckets = std::min(value(words[0].buckets), all.buckets_ready);
        all.overflow_blocks = value(words[0].blocks);
        all.bytes = (all.buckets_ready + all.overflow_blocks) * device::map_slots<K, V>::node_bytes;
        return all;
    }
    /// Removes all keys and gives the memory back to the heap. No kernel may use the map meanwhile. Errors:
    /// ResourceExhausted if the heap has no memory for an empty map, which cannot be used then; those of a launch.
    /// Cost: four kernels.
    absl::Status clear() {
        if (absl::Status s = free_memory(); !s.ok()) {
            return s;
        }
        return begin();
    }
    /// Returns all keys with their values, in no order. Errors: those of `size`, of memory for a copy on the device,
    /// and of a launch.
    [[nodiscard]] absl::StatusOr<std::vector<std::pair<K, V>>> contents() const {
        const auto count = size();
        if (!count.ok()) {
            return count.status();
        }
        std::vector<std::pair<K, V>> all(*count);
        if (all.empty()) {
            return all;
        }
        auto keys = device_array<K>::create(on_, *count);
        auto values = device_array<V>::create(on_, *count);
        auto next = device_array<simt::device_word<std::uint64_t>>::create(on_, 1);
        for (const absl::Status& s : {keys.status(), values.status(), next.status()}) {
            if (!s.ok()) {
                return s;
            }
        }
        const simt::launch_result done =
            simt::launch(on_, simt::grid_for(buckets_of(*count)),
                         detail::copy_map<ref_type, K, V>{ref_, next->data(), keys->data(), values->data(), *count});
        if (!done.ok) {
            return to_status(done);
        }
        std::vector<simt::device_word<std::uint64_t>> found(1);
        std::vector<K> all_keys(*count);
        std::vector<V> all_values(*count);
        for (const absl::Status& s : {next->download(found), keys->download(all_keys), values->download(all_values)}) {
            if (!s.ok()) {
                return s;
            }
        }
        const std::uint64_t copied = found[0].template load<simt::order::relaxed>();
        if (copied != *count) {
            return absl::InternalError(absl::StrFormat("%d keys found in a map that counts %d", copied, *count));
        }
        for (std::uint64_t i = 0; i < *count; ++i) {
            all[i] = {all_keys[i], all_values[i]};
        }
        return all;
    }

private:
    hash_map() = default;
    void swap(hash_map& other) noexcept {
        std::swap(ref_, other.ref_);
        std::swap(state_, other.state_);
        std::swap(on_, other.on_);
    }
    /// Returns the threads for a kernel over a map with so many keys.
    static std::uint64_t buckets_of(std::uint64_t keys) {
        return std::clamp<std::uint64_t>(keys / ref_type::slots_per_bucket, 32, std::uint64_t{1} << 18);
    }
    template <class Kernel>
    absl::Status run(simt::grid shape, const Kernel& kernel) {
        const simt::launch_result done = simt::launch(on_, shape, kernel);
        return done.ok ? absl::OkStatus() : to_status(done);
    }
    absl::Status begin() {
        if (absl::Status s = run({1, 32}, detail::begin_map<ref_type>{ref_}); !s.ok()) {
            return s;
        }
        const auto all = statistics();
        if (!all.ok()) {
            return all.status();
        }
        return all->buckets_ready != 0
                   ? absl::OkStatus()
                   : absl::ResourceExhaustedError(absl::StrFormat("the heap has no memory for an empty map of %d B",
                                                                  32 * device::map_slots<K, V>::node_bytes));
    }
    absl::Status free_memory() {
        const auto all = statistics();
        if (!all.ok()) {
            return all.status();
        }
        const std::uint64_t threads = std::clamp<std::uint64_t>(all->buckets, 32, std::uint64_t{1} << 18);
        if (absl::Status s = run(simt::grid_for(threads), detail::free_chains<ref_type>{ref_}); !s.ok()) {
            return s;
        }
        if (absl::Status s = run({1, 256}, detail::free_pieces<ref_type>{ref_}); !s.ok()) {
            return s;
        }
        return run({1, 32}, detail::forget_map<ref_type>{ref_});
    }

    ref_type ref_;
    device_array<hash_map_state> state_;
    simt::executor on_{};
};

/// Owns a hash set in a heap: a hash map of keys without values. All that `hash_map` says holds. Memory: with keys of
/// up to 8 B, 13 to 16 B for each key.
template <class K>
class hash_set {
    using map_type = hash_map<K, no_value>;

public:
    using ref_type = hash_set_ref<K>;

    /// Returns an empty set: `hash_map::create`.
    static absl::StatusOr<hash_set> create(const orchard::heap& heap, int load = 70) {
        auto map = map_type::create(heap, load);
        if (!map.ok()) {
            return map.status();
        }
        return hash_set(*std::move(map));
    }
    [[nodiscard]] ref_type ref() const { return ref_type(map_.ref()); }
    [[nodiscard]] absl::StatusOr<std::uint64_t> size() const { return map_.size(); }
    [[nodiscard]] absl::StatusOr<hash_map_statistics> statistics() const { return map_.statistics(); }
    absl::Status clear() { return map_.clear(); }
    /// Returns all keys, in no order. Errors: those of `hash_map::contents`.
    [[nodiscard]] absl::StatusOr<std::vector<K>> contents() const {
        const auto all = map_.contents();
        if (!all.ok()) {
            return all.status();
        }
        std::vector<K> keys;
        keys.reserve(all->size());
        for (const auto& [key, none] : *all) {
            keys.push_back(key);
        }
        return keys;
    }

private:
    explicit hash_set(map_type map) : map_{std::move(map)} {}

    map_type map_;
};

}  // namespace orchard
