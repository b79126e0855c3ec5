// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard bench maps`: a hash map that grows while all threads insert, beside a table of the final size.
///
///     map           growing: `hash_map`; fixed: `fixed_map`, with as many slots as give a load of 70 %
///     bytes         of a key, and of a value
///     begin         keys that are there before the kernel that is measured; 0: 32 buckets
///     insert_us     a kernel in which each thread inserts one new key
///     find_us       the same threads find each of these keys
///     miss_us       the same threads look for as many keys that are not there
///     erase_us      the same threads erase the keys (growing alone)
///     ..._per_us    keys in a microsecond; thousands of these are G/s
///     bytes_per_key memory of buckets and overflow blocks, or of the table, for each key
///     nulls, wrong  of all launches: calls without memory; results that are not what they should be
///     note          of a row that took more than 5 s: the larger sizes of its series were left out
///
/// Keys are distinct random numbers. Each repetition begins with an empty map, whose memory the heap has committed
/// before, but for the first repetition. A series has one map, one size of keys, and either beginning. Each row is also
/// printed on standard error when it is known, since the large sizes take long.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "profiling/bench/bench.hpp"
#include "profiling/bench/fixed_map.cuh"
#include "profiling/bench/repetitions.hpp"
#include "runtime/containers/hash_map.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;
using simt::order;

struct map_faults {
    simt::device_word<std::uint64_t> nulls;
    simt::device_word<std::uint64_t> wrong;
};

/// Returns key number `i`: another one for each i below 2^32. A step of a multiplication by an odd number, or of a
/// shift that is undone by itself, loses nothing.
template <class K>
ORCHARD_FN K key_number(std::uint64_t i) {
    auto x = static_cast<std::uint32_t>(i);
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    x ^= x >> 16;
    if constexpr (sizeof(K) == 4) {
        return x;
    } else {
        return K{x} << 32 | static_cast<std::uint32_t>(i);
    }
}

/// The longest time that one row may take without ending its series.
constexpr absl::Duration longest_row = absl::Seconds(5);

enum class map_call { insert, find, miss, erase };

/// Thread i calls the map with key `first` + i, for i < `count`.
template <class Map, class K, map_call Call>
struct call_map {
    /// So that 768 threads run at once on an SM with 65,536 registers. `insert` would take 128. With 64, a third more
    /// threads run, but what lanes keep while they insert together is spilled more often, and inserts are slower.
    static constexpr int max_registers = 80;
    Map map;
    std::uint64_t first;
    std::uint64_t count;
    map_faults* found;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= count) {
            return;
        }
        const K key = key_number<K>(first + i);
        K value{};
        bool right = false;
        if constexpr (Call == map_call::insert) {
            const map_result result = map.insert(key, static_cast<K>(~key));
            if (result == map_result::no_memory) {
                found->nulls.fetch_add<order::relaxed>(1);
            }
            right = result != map_result::present;
        } else if constexpr (Call == map_call::erase) {
            right = map.erase(key);
        } else {
            const bool is_there = map.find(key, value);
            right = Call == map_call::miss ? !is_there : is_there && value == static_cast<K>(~key);
        }
        if (!right) {
            found->wrong.fetch_add<order::relaxed>(1);
        }
    }
};
struct clear_table {
    simt::device_word<std::uint64_t>* words;
    std::uint64_t count;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() < count) {
            words[at.global_thread()].store<order::relaxed>(~std::uint64_t{0});
        }
    }
};

/// The times of the calls, one for each repetition.
struct map_times {
    std::vector<double> insert;
    std::vector<double> find;
    std::vector<double> miss;
    std::vector<double> erase;
};

template <map_call Call, class K, class Map>
absl::Status call(const simt::executor& on, const Map& map, std::uint64_t first, std::uint64_t count, map_faults* found,
                  std::vector<double>* times) {
    const auto done = simt::launch(on, simt::grid_for(count), call_map<Map, K, Call>{map, first, count, found});
    if (!done.ok) {
        return absl::InternalError(done.error);
    }
    if (times != nullptr) {
        times->push_back(done.microseconds);
    }
    return absl::OkStatus();
}

/// One repetition: `begin` keys, then those up to `count`.
template <class K, class Map>
absl::Status repeat(const simt::executor& on, const Map& map, std::uint64_t begin, std::uint64_t count,
                    map_faults* found, map_times& times) {
    absl::Status status;
    if (begin != 0) {
        status.Update(call<map_call::insert, K>(on, map, 0, begin, found, nullptr));
    }
    status.Update(call<map_call::insert, K>(on, map, begin, count - begin, found, &times.insert));
    status.Update(call<map_call::find, K>(on, map, begin, count - begin, found, &times.find));
    status.Update(call<map_call::miss, K>(on, map, std::uint64_t{1} << 31, count - begin, found, &times.miss));
    return status;
}

ordered_json row_of(const char* name, std::uint64_t key_bytes, std::uint64_t keys, std::uint64_t begin,
                    const map_times& times) {
    ordered_json row{{"map", name}, {"bytes", key_bytes}, {"keys", keys}, {"begin", begin}};
    const auto add = [&](const std::string& what, const std::vector<double>& us) {
        if (!us.empty()) {
            // A row that was ended early has one repetition.
            const double median = median_after(us.size() == 1 ? 0 : 1, us);
            row[what + "_us"] = median;
            row[what + "_per_us"] = static_cast<double>(keys - begin) / std::max(median, 1e-3);
        }
    };
    add("insert", times.insert);
    add("find", times.find);
    add("miss", times.miss);
    add("erase", times.erase);
    row["insert_first_us"] = times.insert.front();
    return row;
}

template <class K>
absl::StatusOr<ordered_json> growing_row(heap& h, std::uint64_t begin, std::uint64_t count, int repeats) {
    simt::executor on = h.executor();
    on.timed = true;
    auto found = device_array<map_faults>::create(on, 1);
    auto map = hash_map<K, K>::create(h);
    absl::Status status = found.status();
    status.Update(map.status());
    map_times times;
    hash_map_statistics numbers;
    const absl::Time end = absl::Now() + longest_row;
    for (int i = 0; i < repeats && status.ok() && absl::Now() < end; ++i) {
        status.Update(repeat<K>(on, map->ref(), begin, count, found->data(), times));
        const auto now = map->statistics();
        status.Update(now.status());
        numbers = now.ok() ? *now : numbers;
        status.Update(call<map_call::erase, K>(on, map->ref(), begin, count - begin, found->data(), &times.erase));
        status.Update(map->clear());
    }
    map_faults faults;
    if (status.ok()) {
        status.Update(copy_to_host(on, &faults, found->data(), sizeof(faults)));
    }
    if (!status.ok()) {
        return status;
    }
    ordered_json row = row_of("growing", sizeof(K), count, begin, times);
    row["bytes_per_key"] =
        static_cast<double>(numbers.bytes) / static_cast<double>(std::max<std::uint64_t>(numbers.keys, 1));
    row["buckets"] = numbers.buckets;
    row["overflow_blocks"] = numbers.overflow_blocks;
    row["nulls"] = faults.nulls.load<order::relaxed>();
    row["wrong"] = faults.wrong.load<order::relaxed>();
    return row;
}

template <class K>
absl::StatusOr<ordered_json> fixed_row(simt::executor on, std::uint64_t begin, std::uint64_t count, int repeats) {
    on.timed = true;
    const std::uint64_t slots = count * 10 / 7;
    const std::uint64_t words = fixed_map<K>::words_for(slots);
    auto found = device_array<map_faults>::create(on, 1);
    auto table = device_array<simt::device_word<std::uint64_t>>::create(on, words);
    absl::Status status = found.status();
    status.Update(table.status());
    map_times times;
    const absl::Time end = absl::Now() + longest_row;
    for (int i = 0; i < repeats && status.ok() && absl::Now() < end; ++i) {
        const auto cleared = simt::launch(on, simt::grid_for(words), clear_table{table->data(), words});
        if (!cleared.ok) {
            return absl::InternalError(cleared.error);
        }
        status.Update(repeat<K>(on, fixed_map<K>(table->data(), slots), begin, count, found->data(), times));
    }
    map_faults faults;
    if (status.ok()) {
        status.Update(copy_to_host(on, &faults, found->data(), sizeof(faults)));
    }
    if (!status.ok()) {
        return status;
    }
    ordered_json row = row_of("fixed", sizeof(K), count, begin, times);
    row["bytes_per_key"] = 8.0 * static_cast<double>(words) / static_cast<double>(count);
    row["nulls"] = faults.nulls.load<order::relaxed>();
    row["wrong"] = faults.wrong.load<order::relaxed>();
    return row;
}

/// Adds the rows of one series, up to the first one that takes too long. `row_for(begin, count)` measures one.
template <class RowFor>
absl::Status add_series(const std::vector<std::uint64_t>& counts, bool from_empty, ordered_json& rows, RowFor row_for) {
    for (const std::uint64_t count : counts) {
        const absl::Time began = absl::Now();
        absl::StatusOr<ordered_json> row = row_for(from_empty ? 0 : count / 1000, count);
        if (!row.ok()) {
            return row.status();
        }
        const bool is_last = absl::Now() - began > longest_row;
        if (is_last) {
            (*row)["note"] = "took more than 5 s; the series ends here";
        }
        absl::FPrintF(stderr, "maps: %s\n", row->dump());
        rows.push_back(*std::move(row));
        if (is_last) {
            break;
        }
    }
    return absl::OkStatus();
}
template <class K>
absl::Status add_rows(heap& h, const std::vector<std::uint64_t>& counts, int repeats, ordered_json& rows) {
    absl::Status status;
    for (const bool from_empty : {true, false}) {
        status.Update(add_series(counts, from_empty, rows, [&](std::uint64_t begin, std::uint64_t count) {
            return growing_row<K>(h, begin, count, repeats);
        }));
        status.Update(add_series(counts, from_empty, rows, [&](std::uint64_t begin, std::uint64_t count) {
            return fixed_row<K>(h.executor(), begin, count, repeats);
        }));
    }
    return status;
}

absl::StatusOr<ordered_json> run_maps(const settings& s) {
    options values = s.heap;
    const bool cuda = s.device == simt::device_kind::cuda;
    values.device = cuda ? device_option::cuda : device_option::emulated;
    auto h = heap::create(values);
    if (!h.ok()) {
        return h.status();
    }
    std::vector<std::uint64_t> counts{20'000};
    if (cuda && s.quick) {
        counts = {20'000, 1u << 18, 1u << 22};
    } else if (cuda) {
        counts = {1u << 16, 1u << 18, 1u << 20, 1u << 22, 1u << 24, 1u << 26};
    }
    ordered_json rows = ordered_json::array();
    absl::Status status = add_rows<std::uint32_t>(*h, counts, std::min(s.repeats, 10), rows);
    status.Update(add_rows<std::uint64_t>(*h, counts, std::min(s.repeats, 10), rows));
    status.Update(h->trim());
    status.Update(h->validate());
    if (!status.ok()) {
        return status;
    }
    return rows;
}

const registrar maps_registered{
    {"maps", "a hash map that grows while it is filled, beside a table of the final size", run_maps,
     "times are medians after one round that does not count; insert_first_us is that round, which commits memory"}};

}  // namespace
}  // namespace orchard::bench
