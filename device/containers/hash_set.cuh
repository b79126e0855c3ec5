// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `hash_set_ref`: a hash set in a heap that grows while the threads of kernels read and write it.

#include <cstdint>

#include "device/containers/hash_map.cuh"

namespace orchard {

/// The view of a `hash_set` in kernels: a map of keys without values. All that `hash_map_ref` says holds.
template <class K>
class hash_set_ref {
public:
    using map_type = hash_map_ref<K, no_value>;

    hash_set_ref() = default;
    explicit hash_set_ref(const map_type& map) : map_{map} {}

    /// Adds `key` if the set does not have it.
    ORCHARD_FN map_result insert(const K& key) const { return map_.insert(key); }
    /// Returns whether the set has `key`.
    [[nodiscard]] ORCHARD_FN bool contains(const K& key) const { return map_.contains(key); }
    /// Removes `key`. Returns whether the set had it.
    ORCHARD_FN bool erase(const K& key) const { return map_.erase(key); }
    /// Returns the number of keys.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t size() const { return map_.size(); }
    /// Calls `visit(key)` for each key in the buckets of this thread, as `hash_map_ref::for_each`.
    template <class Visit>
    ORCHARD_FN void for_each(std::uint64_t thread, std::uint64_t threads, Visit visit) const {
        map_.for_each(thread, threads, [&](const K& key, const no_value&) { visit(key); });
    }
    [[nodiscard]] ORCHARD_INLINE const map_type& map() const { return map_; }

private:
    map_type map_;
};

}  // namespace orchard
