// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The totals of a map, and its text in a file. A list is an array of arrays, one a line:
///
///     "slabs": [
///     [0,12,4,26214],
///     [12,1,4,300]],

#include "runtime/heap/heap_map.hpp"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace orchard {
namespace {

constexpr std::array<std::string_view, segment_uses> use_names{"uncommitted", "free",  "cached",   "stored",
                                                               "slab",        "chunk", "portions", "held"};
constexpr std::array<std::string_view, portion_uses> portion_names{"tail", "chunk", "cached", "stored", "held"};
constexpr std::array<std::string_view, map_tiers> tier_names{"device", "host", "managed"};

template <std::size_t N, class Value>
std::string_view name_in(const std::array<std::string_view, N>& names, Value value) {
    const auto index = static_cast<std::size_t>(value);
    return index < N ? names[index] : "unknown";
}

/// Returns Abseil's own type of text, which may differ from the standard one.
absl::string_view as_abseil(std::string_view s) { return {s.data(), s.size()}; }

/// Returns a JSON string. The texts are words of options, names and versions.
std::string json_word(std::string_view s) {
    std::string result = "\"";
    for (const char c : s) {
        if (c == '"' || c == '\\') {
            result += '\\';
        }
        result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
    return result + '"';
}

/// Appends `"name": [` and each entry on a line of its own.
template <class List, class Append>
void append_list(std::string& to, std::string_view name, const List& list, Append append) {
    absl::StrAppend(&to, ",\n\"", as_abseil(name), "\": [");
    const char* separator = "\n";
    for (const auto& entry : list) {
        to += separator;
        append(entry);
        separator = ",\n";
    }
    to += "]";
}

}  // namespace

std::string_view name_of(segment_use use) { return name_in(use_names, use); }
std::string_view name_of(portion_use use) { return name_in(portion_names, use); }
std::string_view name_of(map_tier tier) { return name_in(tier_names, tier); }

map_totals totals_of(const heap_map& map) {
    map_totals t;
    for (const auto& run : map.uses) {
        t.segments[static_cast<std::size_t>(run.use)] += run.count;
        t.committed += run.use != segment_use::uncommitted ? run.count : 0;
        t.granted += run.use > segment_use::free ? run.count : 0;
    }
    for (const auto& run : map.slabs) {
        t.slabs += run.count;
        t.pages_in_use += std::uint64_t{run.count} * run.pages_in_use;
    }
    for (const auto& run : map.tiers) {
        t.on_host += run.tier == map_tier::host ? run.count : 0;
    }
    for (const auto& p : map.portions) {
        ++t.portions[static_cast<std::size_t>(p.use)];
    }
    t.chunks = map.chunks.size();
    t.portions_waiting = t.portions[static_cast<std::size_t>(portion_use::cached)] +
                         t.portions[static_cast<std::size_t>(portion_use::stored)];
    return t;
}

std::string difference(const heap_map& map) {
    const map_totals t = totals_of(map);
    const statistics& s = map.totals;
    const auto segments = [&t](segment_use use) { return t.segments[static_cast<std::size_t>(use)]; };
    struct pair {
        std::string_view name;
        std::uint64_t map;
        std::uint64_t statistics;
    };
    const pair pairs[] = {
        {"segments_committed", t.committed, s.segments_committed},
        {"segments_granted", t.granted, s.segments_granted},
        {"segments_free", segments(segment_use::free), s.segments_free},
        {"segments_in_cache", segments(segment_use::cached) + segments(segment_use::stored), s.segments_in_cache},
        {"portion_blocks", segments(segment_use::portions), s.portion_blocks},
        {"portions_granted", map.portions.size(), s.portions_granted},
        {"portions_in_cache", t.portions_waiting, s.portions_in_cache},
        {"slabs_in_use", t.slabs, s.slabs_in_use},
        {"live_chunks", t.chunks, s.live_chunks},
        // The statistic of that policy counts blocks, and the map their units.
        {"pages_in_use", map.policy == "rw_malloc" ? s.pages_in_use : t.pages_in_use, s.pages_in_use},
        {"host_bytes", t.on_host << segment_shift, s.host_bytes},
    };
    for (const pair& p : pairs) {
        if (p.map != p.statistics) {
            return absl::StrFormat("%s: the segments say %d, the statistics %d", as_abseil(p.name), p.map,
                                   p.statistics);
        }
    }
    return "";
}

/// Written by hand, since the library has no JSON library. Each list ends with its last entry's line.
std::string to_json(const heap_map& map) {
    std::string options;
    for (const auto& [name, value] : map.options) {
        absl::StrAppend(&options, options.empty() ? "" : ", ", json_word(name), ": ", json_word(value));
    }
    std::string s = absl::StrFormat(
        "{\"format\": \"orchard heap map\", \"version\": %d, \"program\": %s,\n"
        "\"device\": %s, \"backing\": %s, \"policy\": %s, \"layout\": %s, \"pid\": %d,\n"
        "\"segments\": %d, \"segment_bytes\": %d, \"leaf_bytes\": %d, \"capacity_bytes\": %d, \"exact\": %s,\n"
        "\"options\": {%s},\n"
        "\"statistics\": %s",
        heap_map::version, json_word(map.program), json_word(map.device), json_word(map.backing), json_word(map.policy),
        json_word(map.layout), map.pid, map.segments, segment_bytes, big_page_bytes, map.capacity_bytes,
        map.is_exact ? "true" : "false", options, to_json(map.totals));
    std::array<std::uint32_t, class_count> classes{};
    for (std::uint32_t c = 0; c < class_count; ++c) {
        classes[c] = c;
    }
    append_list(s, "classes", classes,
                [&](std::uint32_t c) { absl::StrAppend(&s, "[", class_bytes(c), ",", class_pages(c), "]"); });
    append_list(s, "uses", map.uses, [&](const heap_map::use_run& r) {
        absl::StrAppend(&s, "[\"", as_abseil(name_of(r.use)), "\",", r.count, "]");
    });
    append_list(s, "slabs", map.slabs, [&](const heap_map::slab_run& r) {
        absl::StrAppend(&s, "[", r.first, ",", r.count, ",", r.page_class, ",", r.pages_in_use, "]");
    });
    append_list(s, "chunks", map.chunks, [&](const heap_map::chunk& c) {
        const std::int64_t tail = c.tail == heap_map::chunk::no_tail ? -1 : std::int64_t{c.tail};
        absl::StrAppend(&s, "[", c.first_leaf, ",", c.segments, ",", c.leaves, ",", tail, ",", c.lanes, ",");
        absl::StrAppend(&s, c.live_lanes, ",", c.interleaved ? "\"interleaved\"" : "\"blocks\"", ",", c.asked_bytes,
                        "]");
    });
    append_list(s, "portions", map.portions, [&](const heap_map::piece& p) {
        absl::StrAppend(&s, "[", p.first_leaf, ",", p.leaves, ",\"", as_abseil(name_of(p.use)), "\"]");
    });
    const auto append_memory = [&](const heap_map::memory_run& r) {
        absl::StrAppend(&s, "[", r.first, ",", r.count, ",\"", as_abseil(name_of(r.tier)), "\"]");
    };
    append_list(s, "extents", map.extents, append_memory);
    append_list(s, "tiers", map.tiers, append_memory);
    return s + "}\n";
}

}  // namespace orchard
