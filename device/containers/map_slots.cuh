// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The buckets of a hash map: their header, and keys and values as words in slots.
///
/// A node is a bucket or an overflow block of one. Both have the same form, and a node is one line of 128 B unless
/// fewer than four slots fit:
///
///     word      0        1      2 ...
///             header | next | slot 0 | slot 1 | ...       next: address of the first (or next) overflow block; 0: none
///
/// Keys and values are stored as words of 64 bits, so that a slot can be read while another lane writes it. A key and a
/// value of up to 4 B each share one word. Then 14 slots fit in a line, and 7 if both have 8 B.
///
/// The header of a bucket:
///
///     63            23 22        9 8     3   2       1        0
///     |    version    |   used    | depth | reused chained  locked |
///
/// `used` has a bit for each slot with a key. The header of an overflow block has `used` alone.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "device/simt/address.cuh"
#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"

namespace orchard {

/// The type of the values of a set: none.
struct no_value {};

}  // namespace orchard

namespace orchard::device {

/// Returns the parts of a header, and a header with a part changed.
struct map_header {
    static constexpr std::uint64_t locked = 1;   ///< a lane changes the bucket
    static constexpr std::uint64_t chained = 2;  ///< the bucket has overflow blocks; all of its own slots are used then
    /// A slot that once had a key has lost it, and may have got another: a reader that finds a key has to look at the
    /// header again.
    static constexpr std::uint64_t reused = 4;
    static constexpr std::uint32_t depth_shift = 3;
    static constexpr std::uint32_t depth_bits = 6;
    static constexpr std::uint32_t used_shift = depth_shift + depth_bits;
    static constexpr std::uint32_t max_slots = 14;
    static constexpr std::uint64_t one_version = std::uint64_t{1} << (used_shift + max_slots);

    /// The number of low bits of the hash that all keys of the bucket share with its number; 0 for a bucket that does
    /// not exist yet.
    ORCHARD_INLINE static std::uint32_t depth(std::uint64_t header) {
        return static_cast<std::uint32_t>(header >> depth_shift) & ((1u << depth_bits) - 1);
    }
    ORCHARD_INLINE static std::uint32_t used(std::uint64_t header) {
        return static_cast<std::uint32_t>(header >> used_shift) & ((1u << max_slots) - 1);
    }
    ORCHARD_INLINE static std::uint64_t make(std::uint32_t depth, std::uint32_t used) {
        return std::uint64_t{depth} << depth_shift | std::uint64_t{used} << used_shift;
    }
    /// Returns the header of the next version, without the lock, with these slots in use.
    ORCHARD_INLINE static std::uint64_t next(std::uint64_t header, std::uint32_t used) {
        const std::uint64_t slots = ((std::uint64_t{1} << max_slots) - 1) << used_shift;
        return ((header & ~slots & ~locked) | std::uint64_t{used} << used_shift) + one_version;
    }
};

/// A bucket or an overflow block, as far as it does not depend on the types of keys and values.
struct map_node {
    simt::device_word<std::uint64_t> header;
    simt::device_word<std::uint64_t> next;

    [[nodiscard]] ORCHARD_INLINE static map_node* at(std::uint64_t address) {
        return simt::global_pointer<map_node>(address);
    }
    [[nodiscard]] ORCHARD_INLINE std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(this); }
    /// Returns word `i` of the slots, which lie behind these two words.
    [[nodiscard]] ORCHARD_INLINE simt::device_word<std::uint64_t>* word(std::uint32_t i) {
        return reinterpret_cast<simt::device_word<std::uint64_t>*>(this) + 2 + i;
    }
};

/// A key, a value, or both, as words.
template <std::uint32_t Count>
struct map_words {
    std::uint64_t w[Count];
};

/// How keys `K` and values `V` lie in slots, of which a node has at most `Most`.
template <class K, class V, std::uint32_t Most = map_header::max_slots>
struct map_slots {
    static_assert(std::is_trivially_copyable_v<K> && std::is_trivially_copyable_v<V>,
                  "keys and values of a hash map are copied as bytes");
    static_assert(
        std::has_unique_object_representations_v<K>,
        "keys of a hash map are compared as bytes: a key must have no padding, and floating-point numbers are "
        "no keys; use an integer with the same bits");

    static_assert(std::is_default_constructible_v<K> && std::is_default_constructible_v<V>);

    static constexpr bool has_value = !std::is_same_v<V, no_value>;
    static constexpr std::uint32_t value_bytes = has_value ? static_cast<std::uint32_t>(sizeof(V)) : 0;
    static constexpr bool packed = has_value && sizeof(K) <= 4 && value_bytes <= 4;
    static constexpr std::uint32_t key_words = (sizeof(K) + 7) / 8;
    static constexpr std::uint32_t value_words = packed ? 0 : (value_bytes + 7) / 8;
    static constexpr std::uint32_t slot_words = key_words + value_words;
    static_assert(slot_words <= 510, "a key and its value have at most 4,080 B");

    /// Returns the bytes of a node: the least power of two from 128 on that four slots fit in.
    static constexpr std::uint32_t bytes_of_node() {
        std::uint32_t bytes = 128;
        while (bytes < 8 * (2 + 4 * slot_words)) {
            bytes *= 2;
        }
        return bytes;
    }
    static constexpr std::uint32_t node_bytes = bytes_of_node();
    static constexpr std::uint32_t fitting = (node_bytes / 8 - 2) / slot_words;
    static constexpr std::uint32_t slots = fitting < Most ? fitting : Most;
    /// Two slots of one word each are read together.
    static constexpr bool paired = slot_words == 1;
    static_assert(!paired || slots % 2 == 0);
    /// A value of several words can be read half changed.
    static constexpr bool tears = value_words > 1;

    using words = map_words<slot_words>;

    ORCHARD_INLINE static words of_key(const K& key) {
        words all{};
        std::memcpy(all.w, &key, sizeof(K));
        return all;
    }
    ORCHARD_INLINE static words of(const K& key, const V& value) {
        words all = of_key(key);
        if constexpr (packed) {
            std::uint32_t low = 0;
            std::memcpy(&low, &value, sizeof(V));
            all.w[0] |= std::uint64_t{low} << 32;
        } else if constexpr (has_value) {
            std::memcpy(all.w + key_words, &value, sizeof(V));
        }
        return all;
    }
    ORCHARD_INLINE static K key_of(const words& all) {
        K key;
        std::memcpy(static_cast<void*>(&key), all.w, sizeof(K));
        return key;
    }
    ORCHARD_INLINE static V value_of(const words& all) {
        V value;
        if constexpr (packed) {
            const auto high = static_cast<std::uint32_t>(all.w[0] >> 32);
            std::memcpy(static_cast<void*>(&value), &high, sizeof(V));
        } else if constexpr (has_value) {
            std::memcpy(static_cast<void*>(&value), all.w + key_words, sizeof(V));
        }
        return value;
    }
    /// Returns the words of the key alone.
    ORCHARD_INLINE static std::uint64_t key_part(std::uint64_t word) { return packed ? word & 0xffffffffu : word; }
    ORCHARD_INLINE static bool same_key(const words& a, const words& b) {
        bool same = key_part(a.w[0]) == key_part(b.w[0]);
        for (std::uint32_t i = 1; i < key_words; ++i) {
            same = same && a.w[i] == b.w[i];
        }
        return same;
    }

    /// Returns the hash of a key. The low bits choose the bucket, the highest the first slot. Source: the finalizer of
    /// MurmurHash3 (fmix64, A. Appleby), once for each word.
    ORCHARD_INLINE static std::uint64_t hash(const words& all) {
        std::uint64_t h = 0;
        for (std::uint32_t i = 0; i < key_words; ++i) {
            h += key_part(all.w[i]) + 0x9e3779b97f4a7c15u;
            h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
            h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
            h ^= h >> 33;
        }
        return h;
    }

    /// Returns the slots of `set` from slot `first` on, and then those before it, so that `first` is bit 0.
    ORCHARD_INLINE static std::uint32_t turned(std::uint32_t set, std::uint32_t first) {
        return (set >> first | set << (slots - first)) & ((1u << slots) - 1);
    }
    ORCHARD_INLINE static std::uint32_t turned_back(std::uint32_t bit, std::uint32_t first) {
        return bit + first < slots ? bit + first : bit + first - slots;
    }
    /// Returns the slot that a key of this hash takes first if it is free.
    ORCHARD_INLINE static std::uint32_t first_slot(std::uint64_t hash) {
        constexpr std::uint32_t steps = paired ? slots / 2 : slots;
        const auto step = static_cast<std::uint32_t>((hash >> 40) * steps >> 24);
        return paired ? 2 * step : step;
    }
    /// Returns the free slot that a key of this hash takes; `used` is not all slots.
    ORCHARD_INLINE static std::uint32_t free_slot(std::uint32_t used, std::uint64_t hash) {
        const std::uint32_t first = first_slot(hash);
        const std::uint32_t free = turned(~used & all_slots, first);
        return turned_back(static_cast<std::uint32_t>(simt::lowest_bit(free)), first);
    }
    static constexpr std::uint32_t all_slots = (1u << slots) - 1;
    static constexpr std::uint32_t none = ~0u;

    ORCHARD_INLINE static words load(map_node& n, std::uint32_t slot) {
        words all;
        if constexpr (slot_words == 2) {
            const simt::word_pair both = simt::load_pair(n.word(slot * 2));
            all.w[0] = both.first;
            all.w[1] = both.second;
        } else {
            for (std::uint32_t i = 0; i < slot_words; ++i) {
                all.w[i] = n.word(slot * slot_words + i)->template load<simt::order::relaxed>();
            }
        }
        return all;
    }
    ORCHARD_INLINE static void store(map_node& n, std::uint32_t slot, const words& all) {
        for (std::uint32_t i = 0; i < slot_words; ++i) {
            n.word(slot * slot_words + i)->template store<simt::order::relaxed>(all.w[i]);
        }
    }
    /// Stores the value alone.
    ORCHARD_INLINE static void store_value(map_node& n, std::uint32_t slot, const words& all) {
        for (std::uint32_t i = packed ? 0 : key_words; i < slot_words; ++i) {
            n.word(slot * slot_words + i)->template store<simt::order::relaxed>(all.w[i]);
        }
    }

    /// Slots of one or two words, in a node of one line, are loaded all at once.
    static constexpr bool at_once = node_bytes == 128 && slot_words <= 2;

    /// Returns the slot among `used` that has the key of `wanted`, with its words in `found`; `none` if no slot has it.
    /// Loads all slots before it compares the first one, if they are few: so a lane waits for memory once, and the
    /// lanes of a warp take the same path.
    ORCHARD_FN static std::uint32_t find_at_once(map_node& n, std::uint32_t used, const words& wanted,
                                                 std::uint64_t hash, words& found) {
        if constexpr (!at_once) {
            return find(n, used, wanted, hash, found);
        } else {
            constexpr std::uint32_t pairs = slots * slot_words / 2;
            simt::word_pair all[pairs];
            ORCHARD_UNROLL
            for (std::uint32_t i = 0; i < pairs; ++i) {
                all[i] = simt::load_pair(n.word(2 * i));
            }
            std::uint32_t slot = none;
            ORCHARD_UNROLL
            for (std::uint32_t i = 0; i < pairs; ++i) {
                words here[2 / slot_words];
                std::memcpy(here, &all[i], sizeof(here));
                ORCHARD_UNROLL
                for (std::uint32_t j = 0; j < 2 / slot_words; ++j) {
                    const std::uint32_t s = i * (2 / slot_words) + j;
                    if ((used >> s & 1) != 0 && same_key(here[j], wanted)) {
                        slot = s;
                        found = here[j];
                    }
                }
            }
            return slot;
        }
    }
    /// Returns the same. It loads one slot after the other, two if they have one word each, from the slot on that a key
    /// of this hash takes first, and ends with the key. Cost: a load for each slot or two looked at.
    ORCHARD_FN static std::uint32_t find(map_node& n, std::uint32_t used, const words& wanted, std::uint64_t hash,
                                         words& found) {
        const std::uint32_t first = first_slot(hash);
        std::uint32_t left = turned(used, first);
        while (left != 0) {
            const auto bit = static_cast<std::uint32_t>(simt::lowest_bit(left));
            if constexpr (paired) {
                const std::uint32_t even = bit & ~1u;
                const std::uint32_t slot = turned_back(even, first);
                const simt::word_pair both = simt::load_pair(n.word(slot));
                const std::uint64_t key = key_part(wanted.w[0]);
                const bool is_first = (left >> even & 1) != 0 && key_part(both.first) == key;
                const bool is_second = (left >> even & 2) != 0 && key_part(both.second) == key;
                if (is_first || is_second) {
                    found.w[0] = is_first ? both.first : both.second;
                    return is_first ? slot : slot + 1;
                }
                left &= ~(3u << even);
            } else {
                const std::uint32_t slot = turned_back(bit, first);
                found = load(n, slot);
                if (same_key(found, wanted)) {
                    return slot;
                }
                left &= left - 1;
            }
        }
        return none;
    }
};

}  // namespace orchard::device
