// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The checks of a map, in the order in which they rely on each other:
///
///     members       each is there and has its type; numbers are whole and within their limits
///     uses          cover all segments; from them, the use of each segment
///     slabs         lie in order in segments that are slabs, and are all of these
///     portions      lie in order, each in one segment that has portions
///     chunks        lie in order in segments of chunks, and are all of these; tails are portions
///     extents       lie in order
///     tiers         cover the segments that have memory
///     statistics    agree with all that, if the map is exact

#include "runtime/cli/map/read_map.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/input_file.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard::command_line {
namespace {

using json = nlohmann::ordered_json;  // options keep their order

/// Reads one map. Each function returns false after it has set `error_`, which keeps the first one.
class map_reader {
public:
    absl::StatusOr<heap_map> run(std::string_view text) {
        document_ = json::parse(text.begin(), text.end(), nullptr, false);
        if (!document_.is_object() || text_of("format") != "orchard heap map") {
            return absl::DataLossError(
                document_.is_discarded()
                    ? "the text is no JSON; it was cut off, or is no map (write one with heap::dump)"
                    : "the text is JSON and no map of a heap; write one with heap::dump");
        }
        if (const std::uint64_t version = number_of("version", ~0u); error_.ok() && version != heap_map::version) {
            return absl::UnimplementedError(absl::StrFormat(
                "the map has version %d, and this program reads version %d; take the orchard that wrote it", version,
                int{heap_map::version}));
        }
        if (!error_.ok() || !read_members() || !read_statistics() || !read_uses() || !read_slabs() ||
            !read_portions() || !read_chunks() || !read_extents() || !read_tiers()) {
            return error_;
        }
        const std::string differs = map_.is_exact ? difference(map_) : "";
        if (!differs.empty()) {
            fail("the map says that it is exact, but %s", differs);
            return error_;
        }
        return std::move(map_);
    }

private:
    template <class... Args>
    bool fail(const absl::FormatSpec<Args...>& format, const Args&... args) {
        error_.Update(absl::DataLossError(absl::StrFormat(format, args...)));
        return false;
    }

    /// Returns the member as a number of at most `most`; 0, with an error, if it is none.
    std::uint64_t number_of(const char* name, std::uint64_t most) {
        const auto at = document_.find(name);
        if (at == document_.end() || !at->is_number_unsigned() || at->get<std::uint64_t>() > most) {
            fail("%s is missing, or no number from 0 to %d", name, most);
            return 0;
        }
        return at->get<std::uint64_t>();
    }
    /// Returns the member as a short text of printable characters; empty, with an error, if it is none.
    std::string text_of(const char* name) {
        constexpr std::size_t most = 200;
        const auto at = document_.find(name);
        std::string text = at != document_.end() && at->is_string() ? at->get<std::string>() : "\n";
        if (text.size() > most || std::any_of(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; })) {
            fail("%s is missing, or no text of printable ASCII characters", name);
            return "";
        }
        return text;
    }

    bool read_members() {
        map_.program = text_of("program");
        map_.device = text_of("device");
        map_.backing = text_of("backing");
        map_.policy = text_of("policy");
        map_.layout = text_of("layout");
        map_.pid = static_cast<std::int64_t>(number_of("pid", std::numeric_limits<std::int32_t>::max()));
        map_.segments = static_cast<std::uint32_t>(number_of("segments", max_segments));
        map_.capacity_bytes = number_of("capacity_bytes", std::numeric_limits<std::int64_t>::max());
        if (number_of("segment_bytes", ~std::uint64_t{0}) != segment_bytes ||
            number_of("leaf_bytes", ~std::uint64_t{0}) != big_page_bytes) {
            fail("segment_bytes and leaf_bytes are not %d and %d", segment_bytes, std::uint64_t{big_page_bytes});
        }
        if (!read_options()) {
            return false;
        }
        const auto exact = document_.find("exact");
        if (exact == document_.end() || !exact->is_boolean()) {
            return fail("exact is missing, or neither true nor false");
        }
        map_.is_exact = exact->get<bool>();
        return error_.ok();
    }

    /// Options are what the heap says; none is known here.
    bool read_options() {
        const auto at = document_.find("options");
        if (at == document_.end()) {
            return true;
        }
        const auto is_word = [](const std::string& s) {
            return s.size() <= 200 && std::none_of(s.begin(), s.end(), [](char c) { return c < ' ' || c > '~'; });
        };
        if (!at->is_object()) {
            return fail("options are no object");
        }
        for (const auto& [name, value] : at->items()) {
            if (!is_word(name) || !value.is_string() || !is_word(value.get<std::string>())) {
                return fail("options have an entry that is no text of printable ASCII characters");
            }
            map_.options.emplace_back(name, value.get<std::string>());
        }
        return true;
    }

    /// Statistics that the file does not have are 0, and those that this program does not know are ignored.
    bool read_statistics() {
        const auto at = document_.find("statistics");
        if (at == document_.end() || !at->is_object()) {
            return fail("statistics are missing, or no object");
        }
        for (const statistic_info& s : statistic_table()) {
            if (!read_statistic(*at, s.name, map_.totals.*s.field)) {
                return false;
            }
        }
        for (std::uint32_t c = 0; c < class_count; ++c) {
            map_.totals.classes[c].page_bytes = class_bytes(c);
        }
        const auto classes = at->find("classes");
        if (classes == at->end()) {
            return true;
        }
        if (!classes->is_array()) {
            return fail("classes of the statistics are no list");
        }
        for (const json& one : *classes) {
            std::uint64_t bytes = 0;
            if (!one.is_object() || !read_statistic(one, "page_bytes", bytes) || bytes == 0 ||
                bytes > largest_page_bytes) {
                return fail("classes of the statistics have an entry without page_bytes");
            }
            class_statistics& of = map_.totals.classes[class_of(static_cast<std::uint32_t>(bytes))];
            for (const class_statistic_info& s : class_statistic_table()) {
                if (!read_statistic(one, s.name, of.*s.field)) {
                    return false;
                }
            }
        }
        return true;
    }
    bool read_statistic(const json& from, std::string_view name, std::uint64_t& to) {
        const auto at = from.find(std::string(name));
        if (at == from.end()) {
            return true;
        }
        if (!at->is_number_unsigned()) {
            return fail("the statistic %s is no number", std::string(name));
        }
        to = at->get<std::uint64_t>();
        return true;
    }

    /// Calls `each(entry, index)` for each entry of a list, which must have `width` members; ends at the first error.
    template <class Each>
    bool for_each_entry(const char* list, std::size_t width, Each each) {
        const auto at = document_.find(list);
        if (at == document_.end() || !at->is_array()) {
            return fail("%s are missing, or no list", list);
        }
        std::size_t index = 0;
        for (const json& entry : *at) {
            list_ = list;
            index_ = index++;
            if (!entry.is_array() || entry.size() != width) {
                return fail_entry("it has not %d members", width);
            }
            if (!each(entry)) {
                return false;
            }
        }
        return true;
    }
    template <class... Args>
    bool fail_entry(const absl::FormatSpec<Args...>& format, const Args&... args) {
        return fail("%s, entry %d: %s", list_, index_, absl::StrFormat(format, args...));
    }
    /// Gets member `i` of an entry as a number from `least` to `most`.
    template <class Number>
    bool get(const json& entry, std::size_t i, const char* name, std::uint64_t least, std::uint64_t most, Number& to) {
        const json& value = entry[i];
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least || value.get<std::uint64_t>() > most) {
            return fail_entry("%s is no number from %d to %d", name, least, most);
        }
        to = static_cast<Number>(value.get<std::uint64_t>());
        return true;
    }
    /// Gets member `i` of an entry as an enumerator, of which there are `count`, by its name.
    template <class Enum>
    bool get_name(const json& entry, std::size_t i, std::uint32_t count, Enum& to) {
        const std::string name = entry[i].is_string() ? entry[i].get<std::string>() : "";
        for (std::uint32_t value = 0; value < count; ++value) {
            if (name == name_of(static_cast<Enum>(value))) {
                to = static_cast<Enum>(value);
                return true;
            }
        }
        return fail_entry("there is no use or tier '%s'", absl::CHexEscape(name.substr(0, 40)));
    }
    /// Gets members 0 and 1, first and count of a run of segments that begins at or behind `*end`, which becomes its
    /// end.
    bool get_run(const json& entry, std::uint64_t* end, std::uint32_t& first, std::uint32_t& count) {
        if (!get(entry, 0, "the first segment", 0, map_.segments, first) ||
            !get(entry, 1, "the number of segments", 1, map_.segments, count)) {
            return false;
        }
        if (first < *end || std::uint64_t{first} + count > map_.segments) {
            return fail_entry("segments %d to %d are not behind those before, or not in the heap", first,
                              std::uint64_t{first} + count - 1);
        }
        *end = std::uint64_t{first} + count;
        return true;
    }
    /// Checks that segments of a run have a use.
    bool have_use(std::uint32_t first, std::uint32_t count, segment_use use) {
        for (std::uint32_t i = first; i < first + count; ++i) {
            if (uses_[i] != use) {
                return fail_entry("segment %d has the use '%s'", i, std::string(name_of(uses_[i])));
            }
        }
        return true;
    }
    /// Checks that a list had all `found` segments of a use.
    bool has_all(const char* list, std::uint64_t found, segment_use use) {
        const auto all = static_cast<std::uint64_t>(std::ranges::count(uses_, use));
        return found == all || fail("%s have %d segments, and %d have that use", list, found, all);
    }

    bool read_uses() {
        const bool read = for_each_entry("uses", 2, [&](const json& entry) {
            heap_map::use_run r;
            if (!get_name(entry, 0, segment_uses, r.use) ||
                !get(entry, 1, "the number of segments", 1, map_.segments - uses_.size(), r.count)) {
                return false;
            }
            uses_.insert(uses_.end(), r.count, r.use);
            map_.uses.push_back(r);
            return true;
        });
        return read && (uses_.size() == map_.segments ||
                        fail("uses have %d segments, the heap has %d", uses_.size(), map_.segments));
    }

    bool read_slabs() {
        std::uint64_t end = 0;
        std::uint64_t found = 0;
        const bool read = for_each_entry("slabs", 4, [&](const json& entry) {
            heap_map::slab_run r;
            if (!get_run(entry, &end, r.first, r.count) ||
                !get(entry, 2, "the class", 0, class_count - 1, r.page_class) ||
                !get(entry, 3, "the number of pages in use", 0, class_pages(r.page_class), r.pages_in_use) ||
                !have_use(r.first, r.count, segment_use::slab)) {
                return false;
            }
            found += r.count;
            map_.slabs.push_back(r);
            return true;
        });
        return read && has_all("slabs", found, segment_use::slab);
    }

    bool read_portions() {
        std::uint64_t end = 0;
        const std::uint64_t leaves = std::uint64_t{map_.segments} * leaves_per_segment;
        return for_each_entry("portions", 3, [&](const json& entry) {
            heap_map::piece p;
            if (!get(entry, 0, "the first leaf", end, leaves, p.first_leaf) ||
                !get(entry, 1, "the number of leaves", 1, leaves_per_segment - 1, p.leaves) ||
                !get_name(entry, 2, portion_uses, p.use)) {
                return false;
            }
            end = std::uint64_t{p.first_leaf} + p.leaves;
            const std::uint32_t segment = p.first_leaf / leaves_per_segment;
            if (p.first_leaf % leaves_per_segment + p.leaves > leaves_per_segment || segment >= map_.segments) {
                return fail_entry("leaves %d to %d are not in one segment", p.first_leaf, end - 1);
            }
            map_.portions.push_back(p);
            return have_use(segment, 1, segment_use::portions);
        });
    }

    bool read_chunks() {
        std::uint64_t end = 0;
        std::uint64_t found = 0;
        const bool read = for_each_entry("chunks", 8, [&](const json& entry) {
            heap_map::chunk c;
            if (!read_chunk(entry, end, c)) {
                return false;
            }
            end = std::uint64_t{c.first_leaf} + 1;
            found += c.segments;
            map_.chunks.push_back(c);
            return true;
        });
        return read && has_all("chunks", found, segment_use::chunk);
    }
    bool read_chunk(const json& entry, std::uint64_t least_leaf, heap_map::chunk& c) {
        const std::uint64_t leaves = std::uint64_t{map_.segments} * leaves_per_segment;
        if (!get(entry, 0, "the first leaf", least_leaf, leaves, c.first_leaf) ||
            !get(entry, 1, "the number of segments", 0, map_.segments, c.segments) ||
            !get(entry, 2, "the number of leaves", c.segments == 0 ? 1 : 0, leaves_per_segment - 1, c.leaves) ||
            !get(entry, 4, "the number of lanes", 1, simt::warp_size, c.lanes) ||
            !get(entry, 5, "the number of live lanes", 0, c.lanes, c.live_lanes) ||
            !get(entry, 7, "the number of bytes asked for", 0,
                 c.segments * segment_bytes + c.leaves * std::uint64_t{big_page_bytes}, c.asked_bytes)) {
            return false;
        }
        if (entry[6] != "blocks" && entry[6] != "interleaved") {
            return fail_entry("it holds neither 'blocks' nor 'interleaved'");
        }
        c.interleaved = entry[6] == "interleaved";
        if (c.leaves == 0) {
            if (entry[3] != -1) {
                return fail_entry("it has no leaves, but a place for them");
            }
        } else if (!get(entry, 3, "the first leaf of the tail", 0, leaves - c.leaves, c.tail)) {
            return false;
        }
        if (c.segments == 0) {
            return c.tail == c.first_leaf || fail_entry("its leaves begin elsewhere than itself");
        }
        const std::uint32_t first = c.first_leaf / leaves_per_segment;
        if (c.first_leaf % leaves_per_segment != 0 || std::uint64_t{first} + c.segments > map_.segments ||
            first < chunks_end_) {
            return fail_entry("its segments are not whole, not in the heap, or another chunk's");
        }
        chunks_end_ = std::uint64_t{first} + c.segments;
        return have_use(first, c.segments, segment_use::chunk) && has_tail(c);
    }
    /// Checks that the leaves of a chunk are a portion; only of an exact map.
    bool has_tail(const heap_map::chunk& c) {
        if (!map_.is_exact || c.leaves == 0) {
            return true;
        }
        const auto at = std::ranges::lower_bound(map_.portions, c.tail, {}, &heap_map::piece::first_leaf);
        return (at != map_.portions.end() && at->first_leaf == c.tail && at->leaves == c.leaves) ||
               fail_entry("its tail of %d leaves at leaf %d is no portion", c.leaves, c.tail);
    }

    bool read_extents() {
        std::uint64_t end = 0;
        return for_each_entry("extents", 3, [&](const json& entry) {
            heap_map::memory_run r;
            if (!get_run(entry, &end, r.first, r.count) || !get_name(entry, 2, map_tiers, r.tier)) {
                return false;
            }
            map_.extents.push_back(r);
            return true;
        });
    }

    bool read_tiers() {
        std::uint64_t end = 0;
        std::uint64_t found = 0;
        const bool read = for_each_entry("tiers", 3, [&](const json& entry) {
            heap_map::memory_run r;
            if (!get_run(entry, &end, r.first, r.count) || !get_name(entry, 2, map_tiers, r.tier)) {
                return false;
            }
            for (std::uint32_t i = r.first; i < r.first + r.count; ++i) {
                if (uses_[i] == segment_use::uncommitted) {
                    return fail_entry("segment %d has no memory", i);
                }
            }
            found += r.count;
            map_.tiers.push_back(r);
            return true;
        });
        return read && has_all("tiers", map_.segments - found, segment_use::uncommitted);
    }

    json document_;
    heap_map map_;
    absl::Status error_;
    std::vector<segment_use> uses_;  ///< [segment]
    std::uint64_t chunks_end_ = 0;   ///< first segment behind the chunks so far
    const char* list_ = "";          ///< the list that is read
    std::size_t index_ = 0;          ///< and its entry
};

}  // namespace

absl::StatusOr<heap_map> parse_map(std::string_view text) { return map_reader().run(text); }

absl::StatusOr<heap_map> read_map(const std::string& path) {
    constexpr std::size_t most = std::size_t{1} << 30;
    auto file = detail::open_to_read(path);
    if (!file.ok()) {
        return file.status();
    }
    std::string text;
    char buffer[1 << 16];
    while (*file && text.size() <= most) {
        file->read(buffer, sizeof(buffer));
        text.append(buffer, static_cast<std::size_t>(file->gcount()));
    }
    if (text.size() > most) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%s: the file has more than 1 GiB, and no map has; name a file of heap::dump", path));
    }
    if (!file->eof()) {
        return absl::DataLossError(absl::StrFormat("%s: cannot be read to its end; copy it elsewhere", path));
    }
    auto map = parse_map(text);
    return map.ok() ? std::move(map)
                    : absl::Status(map.status().code(), absl::StrCat(path, ": ", map.status().message()));
}

}  // namespace orchard::command_line
