// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A hash table of a fixed size without locks, for comparison with `hash_map`: open addressing by linear probing. A key
/// and a value of 4 B share a word, which one compare-and-swap claims; with 8 and 8 B the key is claimed, and the value
/// stored behind it, so that a find beside an insert may see a key without its value. The key ~0 means "empty", and
/// nothing can be erased.

#include <cstdint>

#include "device/containers/hash_map.cuh"

namespace orchard::bench {

template <class K>
class fixed_map {
    using word = simt::device_word<std::uint64_t>;
    using slots = device::map_slots<K, K>;
    static constexpr std::uint64_t empty = ~std::uint64_t{0};
    static constexpr std::uint32_t stride = slots::slot_words;

public:
    /// @param words  `words_for(count)` words, all of them `empty`
    fixed_map(word* words, std::uint64_t count) : words_{words}, count_{count} {}
    static std::uint64_t words_for(std::uint64_t count) { return count * stride; }

    ORCHARD_FN map_result insert(const K& key, const K& value) const {
        const auto wanted = slots::of(key, value);
        for (std::uint64_t i = first(wanted);; i = i + 1 == count_ ? 0 : i + 1) {
            std::uint64_t found = words_[i * stride].template load<simt::order::relaxed>();
            if (found == empty &&
                words_[i * stride].template compare_exchange<simt::order::relaxed>(found, wanted.w[0])) {
                if constexpr (stride == 2) {
                    words_[i * stride + 1].template store<simt::order::relaxed>(wanted.w[1]);
                }
                return map_result::inserted;
            }
            if (slots::key_part(found) == slots::key_part(wanted.w[0])) {
                return map_result::present;
            }
        }
    }
    ORCHARD_FN bool find(const K& key, K& value) const {
        const auto wanted = slots::of_key(key);
        for (std::uint64_t i = first(wanted);; i = i + 1 == count_ ? 0 : i + 1) {
            typename slots::words found{};
            found.w[0] = words_[i * stride].template load<simt::order::relaxed>();
            if (found.w[0] == empty) {
                return false;
            }
            if (slots::key_part(found.w[0]) == slots::key_part(wanted.w[0])) {
                if constexpr (stride == 2) {
                    found.w[1] = words_[i * stride + 1].template load<simt::order::relaxed>();
                }
                value = slots::value_of(found);
                return true;
            }
        }
    }

private:
    [[nodiscard]] ORCHARD_INLINE std::uint64_t first(const typename slots::words& wanted) const {
        // The high half of the product: a number below `count_`, which has 32 bits.
        return (slots::hash(wanted) >> 32) * count_ >> 32;
    }

    word* words_;
    std::uint64_t count_;
};

}  // namespace orchard::bench
