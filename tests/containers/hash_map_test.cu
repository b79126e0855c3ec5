// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `hash_map`, `hash_set`: what calls return and what the map then holds is what a map of the host says, while it grows
// a thousandfold, ages, and runs out of memory.

#include "runtime/containers/hash_map.hpp"

#include <gmock/gmock.h>

#include <map>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using simt::order;
using word = simt::device_word<std::uint32_t>;
using word64 = simt::device_word<std::uint64_t>;

/// Returns `full`, or `reduced` where a sanitizer or the library's own checks slow everything down.
constexpr std::uint32_t sized([[maybe_unused]] std::uint32_t full, [[maybe_unused]] std::uint32_t reduced) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return reduced;
#else
    return simt::checked ? reduced : full;
#endif
}

ORCHARD_FN inline std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

/// A key and a value of several words.
struct wide_key {
    std::uint64_t a = 0;
    std::uint32_t b = 0;
    std::uint32_t c = 0;
};
struct wide_value {
    std::uint64_t parts[6] = {};
};
struct huge_value {
    std::uint64_t parts[130] = {};
};

// Keys and values from numbers, and back.
template <class T>
ORCHARD_FN T made(std::uint64_t n) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(n);
    } else if constexpr (std::is_same_v<T, wide_key>) {
        return {n * 3, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(~n)};
    } else {
        T value;
        for (auto& part : value.parts) {
            part = n;
        }
        return value;
    }
}
/// The number of a value; ~0 if it is none that `made` makes, because it was read half changed.
template <class T>
ORCHARD_FN std::uint64_t number(const T& value) {
    if constexpr (std::is_integral_v<T>) {
        return value;
    } else if constexpr (std::is_same_v<T, wide_key>) {
        return value.b;
    } else {
        for (const auto& part : value.parts) {
            if (part != value.parts[0]) {
                return ~std::uint64_t{0};
            }
        }
        return value.parts[0];
    }
}

// --- scripts: each thread has keys of its own, and its calls return what they would in a map of its own ---

enum class call : std::uint32_t { insert, assign, upsert, erase, find, contains, count };

struct script {
    std::uint64_t thread;
    std::uint64_t threads;
    std::uint32_t keys;  ///< of each thread

    [[nodiscard]] ORCHARD_FN std::uint64_t random(std::uint32_t step) const { return mixed(thread << 32 | step); }
    [[nodiscard]] ORCHARD_FN call what(std::uint32_t step) const {
        return static_cast<call>(random(step) % static_cast<std::uint32_t>(call::count));
    }
    [[nodiscard]] ORCHARD_FN std::uint64_t key(std::uint32_t step) const {
        return thread + threads * (random(step) / 64 % keys);
    }
    [[nodiscard]] ORCHARD_FN std::uint64_t value(std::uint32_t step) const { return random(step) >> 40; }
};

template <class K, class V>
struct run_scripts {
    hash_map_ref<K, V> map;
    std::uint32_t steps;
    std::uint32_t keys;
    std::uint64_t* results;  ///< [thread][step]

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const script s{at.global_thread(), at.threads(), keys};
        for (std::uint32_t step = 0; step < steps; ++step) {
            const K key = made<K>(s.key(step));
            const V value = made<V>(s.value(step));
            std::uint64_t result = 0;
            switch (s.what(step)) {
                case call::insert: result = static_cast<std::uint64_t>(map.insert(key, value)); break;
                case call::assign: result = static_cast<std::uint64_t>(map.insert_or_assign(key, value)); break;
                case call::upsert:
                    result = static_cast<std::uint64_t>(
                        map.upsert(key, value, [](const V& old) { return made<V>(number(old) + 1); }));
                    break;
                case call::erase: result = map.erase(key) ? 1 : 0; break;
                case call::find: {
                    V found{};
                    result = map.find(key, found) ? number(found) : ~std::uint64_t{0} - 1;
                    break;
                }
                default: result = map.contains(key) ? 1 : 0; break;
            }
            results[s.thread * steps + step] = result;
        }
    }
};

/// Counts finds of keys that are in the map all the time and were not found, and of values half changed.
template <class K, class V>
struct check_constant {
    hash_map_ref<K, V> map;
    std::uint64_t first;
    std::uint64_t count;
    std::uint64_t value;
    word* wrong;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            V found{};
            if (!map.find(made<K>(first + i), found) || number(found) != value) {
                wrong->fetch_add<order::relaxed>(1);
            }
        }
    }
};

class containers_hash_map : public heap_contract {
protected:
    std::uint32_t word_of(const device_array<word>& words, std::size_t i = 0) {
        return to_host(words)[i].load<order::relaxed>();
    }

    template <class K, class V>
    void expect_as_scripts(std::uint32_t threads, std::uint32_t steps, std::uint32_t keys) {
        auto map = hash_map<K, V>::create(h());
        ASSERT_TRUE(map.ok()) << map.status();
        const auto results = array<std::uint64_t>(std::uint64_t{threads} * steps);
        launch({threads / 32, 32}, run_scripts<K, V>{map->ref(), steps, keys, results.data()});
        const std::vector<std::uint64_t> got = to_host(results);
        std::map<std::uint64_t, std::uint64_t> all;
        for (std::uint64_t thread = 0; thread < threads; ++thread) {
            const script s{thread, threads, keys};
            for (std::uint32_t step = 0; step < steps; ++step) {
                const std::uint64_t key = number(made<K>(s.key(step)));
                const std::uint64_t value = number(made<V>(s.value(step)));
                const auto at = all.find(key);
                const bool is_there = at != all.end();
                std::uint64_t expected = is_there ? 1 : 0;
                switch (s.what(step)) {
                    case call::insert: all.emplace(key, value); break;
                    case call::assign: all[key] = value; break;
                    case call::upsert: is_there ? ++at->second : all[key] = value; break;
                    case call::erase: all.erase(key); break;
                    case call::find: expected = is_there ? at->second : ~std::uint64_t{0} - 1; break;
                    default: break;
                }
                ASSERT_EQ(got[thread * steps + step], expected) << "thread " << thread << ", step " << step;
            }
        }
        const auto contents = map->contents();
        ASSERT_TRUE(contents.ok()) << contents.status();
        std::map<std::uint64_t, std::uint64_t> held;
        for (const auto& [key, value] : *contents) {
            EXPECT_TRUE(held.emplace(number(key), number(value)).second) << "key " << number(key) << " twice";
        }
        EXPECT_EQ(held, all);
    }
};
INSTANTIATE_TEST_SUITE_P(all, containers_hash_map, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(containers_hash_map, calls_return_what_a_map_of_the_host_does) {
    const auto steps = sized(150, 50);
    expect_as_scripts<std::uint32_t, std::uint32_t>(256, steps, 20);
    expect_as_scripts<std::uint64_t, std::uint64_t>(256, steps, 20);
    expect_as_scripts<std::uint64_t, std::uint32_t>(128, steps, 20);
    expect_as_scripts<wide_key, wide_value>(128, steps, 20);
    expect_as_scripts<std::uint32_t, huge_value>(32, steps, 10);
    expect_empty();
}

TEST_P(containers_hash_map, lies_in_a_hardened_heap) {
    options o = GetParam().values();
    o.hardened = hardening::detect;
    remake(o);
    expect_as_scripts<std::uint32_t, std::uint32_t>(128, 50, 20);
    expect_as_scripts<std::uint64_t, std::uint64_t>(128, 50, 20);
}

// --- growth ---

/// Threads insert, look for what they and others have inserted, and erase every fourth key again.
template <class K, class V>
struct grow_map {
    hash_map_ref<K, V> map;
    std::uint32_t each;
    word* wrong;
    word* nulls;

    ORCHARD_FN static std::uint64_t value_of(std::uint64_t key) { return mixed(key) >> 40; }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t threads = at.threads();
        const std::uint64_t mine = at.global_thread();
        for (std::uint32_t i = 0; i < each; ++i) {
            const std::uint64_t key = mine + threads * i;
            const map_result r = map.insert(made<K>(key), made<V>(value_of(key)));
            if (r != map_result::inserted) {
                (r == map_result::present ? wrong : nulls)->fetch_add<order::relaxed>(1);
            }
            V found{};
            // One's own is there; another's is there with its value, or is not.
            if (i != 0 && (!map.find(made<K>(key - threads), found) || number(found) != value_of(key - threads))) {
                wrong->fetch_add<order::relaxed>(1);
            }
            const std::uint64_t other = (mine * 7 + 1) % threads + threads * (i / 2);
            if (map.find(made<K>(other), found) && number(found) != value_of(other)) {
                wrong->fetch_add<order::relaxed>(1);
            }
            if (i % 4 == 3 && !map.erase(made<K>(key - 2 * threads))) {
                wrong->fetch_add<order::relaxed>(1);
            }
        }
    }
};

struct insert_range {
    hash_map_ref<std::uint32_t, std::uint32_t> map;
    std::uint32_t first;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            map.insert(first + static_cast<std::uint32_t>(i), 0);
        }
    }
};

TEST_P(containers_hash_map, grows_a_thousandfold_while_it_is_read_and_written) {
    const auto each = sized(300, 20);
    constexpr std::uint32_t blocks = 8;
    constexpr std::uint32_t threads = 192;
    auto map = hash_map<std::uint32_t, std::uint32_t>::create(h());
    ASSERT_TRUE(map.ok()) << map.status();
    const auto counts = array<word>(2);
    launch({blocks, threads},
           grow_map<std::uint32_t, std::uint32_t>{map->ref(), each, counts.data(), counts.data() + 1});
    EXPECT_EQ(word_of(counts, 0), 0u);
    EXPECT_EQ(word_of(counts, 1), 0u);
    const auto all = map->contents();
    ASSERT_TRUE(all.ok()) << all.status();
    std::vector<bool> seen(std::uint64_t{blocks} * threads * each);
    for (const auto& [key, value] : *all) {
        ASSERT_LT(key, seen.size());
        EXPECT_FALSE(seen[key]) << key << " twice";
        seen[key] = true;
        ASSERT_EQ(value, (grow_map<std::uint32_t, std::uint32_t>::value_of(key)));
        ASSERT_NE(key / (blocks * threads) % 4, 1u) << "was erased";
    }
    EXPECT_EQ(all->size(), std::uint64_t{blocks} * threads * (each - each / 4));
    // One warp catches up with splits that were left out while other threads waited for memory.
    const std::uint64_t more = all->size() / 10;
    launch({1, 32}, insert_range{map->ref(), static_cast<std::uint32_t>(seen.size()), more});
    const auto s = map->statistics();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->keys, all->size() + more);
    EXPECT_GE(s->buckets * 10, s->keys * 3 / 4);
    EXPECT_LE(s->buckets * 10, s->keys * 2);
    EXPECT_LE(s->buckets_ready, s->buckets * 4);
    EXPECT_TRUE(map->clear().ok());
    EXPECT_EQ(*map->size(), 0u);
    launch({1, 32}, grow_map<std::uint32_t, std::uint32_t>{map->ref(), 4, counts.data(), counts.data() + 1});
    EXPECT_EQ(*map->size(), 96u) << "it can be used again";
    *map = *hash_map<std::uint32_t, std::uint32_t>::create(h());
    EXPECT_EQ(*map->size(), 0u) << "another map";
}

/// Each thread inserts one key.
struct insert_one {
    hash_map_ref<std::uint32_t, std::uint32_t> map;
    word* wrong;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (map.insert(static_cast<std::uint32_t>(at.global_thread()), 0) != map_result::inserted) {
            wrong->fetch_add<order::relaxed>(1);
        }
    }
};
/// Adds up the nodes that finds of all keys read, and counts the buckets.
struct measure_finds {
    hash_map_ref<std::uint32_t, std::uint32_t> map;
    word64* nodes;
    word64* buckets;
    word* longest;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint32_t length = 0;
        std::uint64_t made = 0;
        map.for_each_node(at.global_thread(), at.threads(), [&](device::map_node*, std::uint32_t used, bool is_block) {
            length = is_block ? length + 1 : 1;
            made += is_block ? 0 : 1;
            longest->raise<order::relaxed>(length);
            nodes->fetch_add<order::relaxed>(std::uint64_t{length} * static_cast<std::uint64_t>(simt::popcount(used)));
        });
        buckets->fetch_add<order::relaxed>(made);
    }
};

// All threads begin at once with a map of 32 buckets, which gets hundreds of times as many keys. No bucket may
// get many more keys than its share meanwhile: chains would be long, and on a GPU most of the time would go into them.
TEST_P(containers_hash_map, chains_stay_short_however_many_threads_insert_at_once) {
    const auto blocks = sized(128, 32);
    constexpr std::uint32_t threads = 256;
    const std::uint64_t keys = std::uint64_t{blocks} * threads;
    auto map = hash_map<std::uint32_t, std::uint32_t>::create(h());
    ASSERT_TRUE(map.ok()) << map.status();
    const auto wrong = array<word>(2);
    const auto sums = array<word64>(2);
    launch({blocks, threads}, insert_one{map->ref(), wrong.data()});
    EXPECT_EQ(word_of(wrong), 0u);
    const auto s = map->statistics();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->keys, keys);
    // The load is 70 % of 14 slots: 9.8 keys for each bucket.
    EXPECT_NEAR(static_cast<double>(s->buckets), static_cast<double>(keys) / 9.8,
                1.0 + 0.01 * static_cast<double>(keys) / 9.8);
    launch({4, 64}, measure_finds{map->ref(), sums.data(), sums.data() + 1, wrong.data() + 1});
    const auto found = to_host(sums);
    const auto nodes = found[0].load<order::relaxed>();
    const auto made = found[1].load<order::relaxed>();
    EXPECT_EQ(made, s->buckets) << "every bucket that is due has been made";
    EXPECT_LE(word_of(wrong, 1), 4u) << "the longest chain, with its bucket";
    // With every bucket made, the expected value is below 1.15 for any number of keys.
    EXPECT_LE(static_cast<double>(nodes), 1.2 * static_cast<double>(keys));
    // With all blocks that buckets have given back. A GPU, which runs all threads at once, made half as many as
    // buckets.
    const bool on_cuda = h().executor().kind == simt::device_kind::cuda;
    EXPECT_LE(s->overflow_blocks, on_cuda ? s->buckets : s->buckets / 2);
}

// --- duplicates ---

struct insert_same {
    hash_map_ref<std::uint64_t, std::uint64_t> map;
    hash_set_ref<std::uint32_t> set;
    std::uint32_t keys;
    word* inserted;
    word* in_set;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint32_t i = 0; i < keys; ++i) {
            // Lanes go through the keys in step, and then in other orders.
            const std::uint32_t key = i < keys / 2 ? i : static_cast<std::uint32_t>(i + at.thread) % keys;
            if (map.upsert(key, 1, [](std::uint64_t old) { return old + 1; }) == map_result::inserted) {
                inserted->fetch_add<order::relaxed>(1);
            }
            if (set.insert(key) == map_result::inserted) {
                in_set->fetch_add<order::relaxed>(1);
            }
        }
    }
};

TEST_P(containers_hash_map, a_key_that_all_lanes_insert_is_there_once) {
    const auto keys = sized(400, 60);
    constexpr std::uint32_t threads = 4 * 96;
    auto map = hash_map<std::uint64_t, std::uint64_t>::create(h());
    auto set = hash_set<std::uint32_t>::create(h());
    ASSERT_TRUE(map.ok() && set.ok());
    const auto counts = array<word>(2);
    launch({4, 96}, insert_same{map->ref(), set->ref(), keys, counts.data(), counts.data() + 1});
    EXPECT_EQ(word_of(counts, 0), keys);
    EXPECT_EQ(word_of(counts, 1), keys);
    const auto all = map->contents();
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(all->size(), keys);
    std::uint64_t sum = 0;
    for (const auto& [key, value] : *all) {
        sum += value;
    }
    EXPECT_EQ(sum, std::uint64_t{threads} * keys) << "each call counts once";
    const auto in_set = set->contents();
    ASSERT_TRUE(in_set.ok()) << in_set.status();
    EXPECT_EQ(in_set->size(), keys);
}

// --- ageing ---

/// Round after round, each thread erases its oldest key and inserts a new one.
struct age {
    hash_map_ref<std::uint32_t, std::uint32_t> map;
    std::uint32_t held;  ///< keys of each thread
    std::uint32_t begin;
    std::uint32_t end;
    word* wrong;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto threads = static_cast<std::uint32_t>(at.threads());
        const auto mine = static_cast<std::uint32_t>(at.global_thread());
        for (std::uint32_t i = begin; i < end; ++i) {
            const std::uint32_t key = mine + threads * i;
            if (i >= held && !map.erase(key - threads * held)) {
                wrong->fetch_add<order::relaxed>(1);
            }
            if (map.insert(key, i) != map_result::inserted) {
                wrong->fetch_add<order::relaxed>(1);
            }
        }
    }
};
/// Counts the nodes of the longest chain, and the overflow blocks in use.
struct measure_chains {
    hash_map_ref<std::uint32_t, std::uint32_t> map;
    word* longest;
    word* blocks;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint32_t length = 0;
        map.for_each_node(at.global_thread(), at.threads(), [&](device::map_node*, std::uint32_t used, bool is_block) {
            length = is_block ? length + 1 : 0;
            longest->raise<order::relaxed>(length);
            if (is_block) {
                blocks->fetch_add<order::relaxed>(1);
            }
            if (is_block && used == 0) {
                longest->raise<order::relaxed>(1000u);  // it should have been taken out
            }
        });
    }
};

TEST_P(containers_hash_map, ages_without_more_memory) {
    const auto rounds = sized(1000, 60);
    constexpr std::uint32_t held = 12;
    constexpr std::uint32_t threads = 4 * 64;
    auto map = hash_map<std::uint32_t, std::uint32_t>::create(h(), 85);
    ASSERT_TRUE(map.ok()) << map.status();
    const auto counts = array<word>(3);
    hash_map_statistics early;
    for (std::uint32_t i = 0; i < 5; ++i) {
        const std::uint32_t begin = i == 0 ? 0 : held + rounds * i / 5;
        launch({4, 64}, age{map->ref(), held, begin, held + rounds * (i + 1) / 5, counts.data()});
        const auto s = map->statistics();
        ASSERT_TRUE(s.ok()) << s.status();
        EXPECT_EQ(s->keys, std::uint64_t{threads} * held);
        if (i == 0) {
            early = *s;
        }
        EXPECT_LE(s->buckets * 14 * 85, std::uint64_t{threads} * held * 100 * 9 / 8);
        EXPECT_LE(s->overflow_blocks, early.overflow_blocks + 64);
        launch({1, 64}, measure_chains{map->ref(), counts.data() + 1, counts.data() + 2});
        EXPECT_LE(word_of(counts, 1), 4u) << "the longest chain";
    }
    EXPECT_EQ(word_of(counts, 0), 0u);
    const auto all = map->contents();
    ASSERT_TRUE(all.ok()) << all.status();
    for (const auto& [key, value] : *all) {
        EXPECT_EQ(key / threads, value);
        EXPECT_GE(value, rounds);
    }
}

// --- shortage ---

using large_map = hash_map_ref<std::uint64_t, huge_value>;
struct fill_map {
    large_map map;
    std::uint64_t first;
    std::uint32_t each;
    word* taken;
    word* failed;
    word* wrong;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint32_t failures = 0;
        for (std::uint32_t i = 0; i < each && failures < 3; ++i) {
            const std::uint64_t key = first + at.global_thread() + at.threads() * i;
            const map_result r = map.insert(key, made<huge_value>(key));
            (r == map_result::no_memory ? failed : taken)->fetch_add<order::relaxed>(1);
            failures += r == map_result::no_memory ? 1 : 0;
            huge_value found;
            if (map.find(key, found) != (r != map_result::no_memory) ||
                (r != map_result::no_memory && number(found) != key)) {
                wrong->fetch_add<order::relaxed>(1);
            }
        }
    }
};

TEST_P(containers_hash_map, a_shortage_is_a_result_and_can_be_tried_again) {
    remake([&] {
        options o = GetParam().values();
        o.capacity = GetParam().where == lies_in::its_own ? 8 * segment_bytes : o.capacity;
        o.range = 0;
        return o;
    }());
    auto map = hash_map<std::uint64_t, huge_value>::create(h());
    ASSERT_TRUE(map.ok()) << map.status();
    const auto counts = array<word>(3);
    // A third more than the heap has bytes.
    const auto each =
        static_cast<std::uint32_t>(heap_segments() * segment_bytes * 4 / 3 / sizeof(huge_value) / 128) + 1;
    std::uint64_t size = 0;
    for (int round = 0; round < 2; ++round) {
        launch({2, 64}, fill_map{map->ref(), 0, each, counts.data(), counts.data() + 1, counts.data() + 2});
        EXPECT_NE(word_of(counts, 1), 0u);
        EXPECT_EQ(word_of(counts, 2), 0u);
        const auto now = map->size();
        ASSERT_TRUE(now.ok());
        EXPECT_GE(*now, size);
        size = *now;
    }
    EXPECT_GT(size * sizeof(huge_value) * 4, heap_segments() * segment_bytes);
    // Memory that is there again is used again: another map's.
    EXPECT_TRUE(map->clear().ok());
    auto other = hash_map<std::uint64_t, huge_value>::create(h());
    ASSERT_TRUE(other.ok()) << other.status();
    launch({1, 64}, fill_map{other->ref(), 9, 2, counts.data(), counts.data() + 1, counts.data() + 2});
    EXPECT_EQ(*other->size(), 128u);
    EXPECT_EQ(word_of(counts, 2), 0u);
}

static_assert(std::is_trivially_copyable_v<hash_map_ref<std::uint32_t, float>>);
static_assert(std::is_trivially_copyable_v<hash_set_ref<std::uint64_t>>);

TEST(hash_map, says_which_loads_are_allowed) {
    options o;
    o.device = device_option::emulated;
    o.capacity = 16 << 20;
    auto made = heap::create(o);
    ASSERT_TRUE(made.ok());
    for (const int load : {-1, 9, 96, 1000}) {
        const auto map = hash_map<int, int>::create(*made, load);
        EXPECT_EQ(map.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(map.status().message().find("10 to 95"), std::string::npos);
    }
}

TEST(hash_map, has_lines_of_128_bytes) {
    using both4 = device::map_slots<std::uint32_t, float>;
    using both8 = device::map_slots<std::uint64_t, double>;
    EXPECT_EQ(both4::node_bytes, 128u);
    EXPECT_EQ(both4::slots, 14u);
    EXPECT_EQ(both8::node_bytes, 128u);
    EXPECT_EQ(both8::slots, 7u);
    EXPECT_EQ((device::map_slots<std::uint64_t, no_value>::slots), 14u);
    EXPECT_EQ((device::map_slots<wide_key, wide_value>::node_bytes), 512u);
}

}  // namespace
}  // namespace orchard::test
