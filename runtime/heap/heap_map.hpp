// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The map of a heap: what each of its segments is used for, at one time. `heap::map` makes it, `heap::dump` writes it
/// to a file, `orchard map` draws it (docs/map.md).
///
///     segment     0       1       2       3       4       5       6       7 ...
///     use         slab    slab    chunk   chunk   portions  cached  free    uncommitted ...
///     slabs       class 4 (80 B), 26,000 of 26,214 pages; class 12, 4,000 of 8,192
///     chunks      first leaf 64 (segment 2): 2 segments and a tail of 5 leaves, 32 lanes, of which 7 hold their block
///     portions    first leaf 128 (segment 4): 5 leaves, the tail of that chunk
///     extents     segments 0 to 6, committed by one call
///     tiers       segments 0 to 6 on the device
///
/// All lists are in the order of addresses and hold runs, so that a map of 500,000 segments (1 TiB) that are used alike
/// has a few lines.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/statistics/statistics.hpp"

namespace orchard {

/// The use of a segment.
enum class segment_use : std::uint8_t {
    uncommitted,  ///< has an address and no memory
    free,         ///< has memory; the host may hand it out
    cached,       ///< waits in the segment cache of the device
    stored,       ///< waits in the chunk store of the device, as a part of a chunk that was freed as a whole
    slab,         ///< is divided into pages of one class
    chunk,        ///< is a part of a warp chunk with a block that is not freed
    portions,     ///< is shared by portions: tails of chunks, and chunks of less than a segment
    held,         ///< was handed to the device, and is none of these: a kernel or the host is about to use or return it
};
inline constexpr std::uint32_t segment_uses = 8;

/// The use of a portion.
enum class portion_use : std::uint8_t {
    tail,    ///< the tail of a chunk that has segments
    chunk,   ///< a chunk of its own
    cached,  ///< waits in the segment cache
    stored,  ///< waits in the chunk store, as the tail of a chunk
    held,    ///< as `segment_use::held`
};
inline constexpr std::uint32_t portion_uses = 5;

/// Where memory lies.
enum class map_tier : std::uint8_t {
    device,
    host,
    managed,  ///< the UVM driver moves it
};
inline constexpr std::uint32_t map_tiers = 3;

/// Return the names in files: "uncommitted", "tail", "device".
std::string_view name_of(segment_use use);
std::string_view name_of(portion_use use);
std::string_view name_of(map_tier tier);

/// The map of a heap. Numbers of segments and of leaves (64 KiB) count from the heap's first.
struct heap_map {
    /// Raised when a member of the file is removed or changes its meaning.
    static constexpr int version = 1;

    /// Adjacent segments of one use.
    struct use_run {
        segment_use use = segment_use::uncommitted;
        std::uint32_t count = 0;
        friend bool operator==(const use_run&, const use_run&) = default;
    };
    /// Adjacent slabs of one class, each with as many pages in use.
    struct slab_run {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
        std::uint32_t page_class = 0;
        std::uint32_t pages_in_use = 0;  ///< of each; with the policy `rw_malloc`, units of blocks
        friend bool operator==(const slab_run&, const slab_run&) = default;
    };
    /// A warp chunk with a block that is not freed.
    struct chunk {
        static constexpr std::uint32_t no_tail = ~std::uint32_t{0};

        std::uint32_t first_leaf = 0;
        std::uint32_t segments = 0;  ///< whole segments; 0: it is one portion
        std::uint32_t leaves = 0;    ///< those of its tail or of the portion
        std::uint32_t tail =
            no_tail;              ///< the tail's first leaf; for a portion, its own; `no_tail` if there are no leaves
        std::uint32_t lanes = 0;  ///< lanes that got a block or an array in it
        std::uint32_t live_lanes = 0;   ///< those of them that have not freed it
        bool interleaved = false;       ///< it holds interleaved arrays; otherwise blocks, one behind the other
        std::uint64_t asked_bytes = 0;  ///< what the lanes asked for, rounded up to units of 256 B
        friend bool operator==(const chunk&, const chunk&) = default;
    };
    /// Leaves that were handed out together.
    struct piece {
        std::uint32_t first_leaf = 0;
        std::uint32_t leaves = 0;
        portion_use use = portion_use::held;
        friend bool operator==(const piece&, const piece&) = default;
    };
    /// Adjacent committed segments: of one commit in `extents`, in one tier in `tiers`.
    struct memory_run {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
        map_tier tier = map_tier::device;
        friend bool operator==(const memory_run&, const memory_run&) = default;
    };

    std::string program;  ///< the version of Orchard that made the map: "0.1.0"
    std::string device;   ///< "cuda" or "emulated"
    std::string backing;  ///< as the option: "elastic"
    std::string policy;   ///< the policy of pages: "default", or a published algorithm
    std::string layout;   ///< the heap's layout of arrays, as the option
    std::int64_t pid = 0;
    std::vector<std::pair<std::string, std::string>> options;  ///< name and value of each, as text
    std::uint32_t segments = 0;
    std::uint64_t capacity_bytes = 0;

    /// Returns true if the map agrees with `totals`, as it does if no kernel ran while it was made. Otherwise its parts
    /// are of different moments, each right by itself.
    bool is_exact = false;
    statistics totals{};  ///< of the heap, read just before the rest

    std::vector<use_run> uses;  ///< of all segments, without gaps
    std::vector<slab_run> slabs;
    std::vector<chunk> chunks;
    std::vector<piece> portions;
    std::vector<memory_run> extents;
    std::vector<memory_run> tiers;

    friend bool operator==(const heap_map&, const heap_map&) = default;
};

/// The numbers of a map that are also statistics, computed from its lists.
struct map_totals {
    std::array<std::uint64_t, segment_uses> segments{};  ///< [segment_use]
    std::array<std::uint64_t, portion_uses> portions{};  ///< [portion_use]
    std::uint64_t committed = 0;                         ///< segments
    std::uint64_t granted = 0;                           ///< segments
    std::uint64_t on_host = 0;                           ///< segments
    std::uint64_t slabs = 0;
    std::uint64_t pages_in_use = 0;
    std::uint64_t chunks = 0;
    std::uint64_t portions_waiting = 0;  ///< cached or stored
};

/// Returns the totals of a map. Cost: a look at each entry.
map_totals totals_of(const heap_map& map);

/// Returns what the totals of the map's lists and its statistics do not agree on, as text: "slabs_in_use: the segments
/// say 3, the statistics 4". Empty if they agree.
std::string difference(const heap_map& map);

/// Returns the map as a JSON object without line breaks in its lists. docs/map.md describes its members.
std::string to_json(const heap_map& map);

}  // namespace orchard
