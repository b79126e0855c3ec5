// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The format of trace files: the events of one heap, in a compact form that can be checked.
///
///     "\x89OTRACE\n" | version (4 bytes) | section "HEAD" | section "EVTS" ... | section "FOOT"
///     section:  kind (4 letters) | bytes of the content (4) | events (4) | CRC-32 (4) | content
///
/// The checksum is that of the 12 bytes before it and of the content. Numbers of 4 bytes are little-endian; all others
/// are varints (varint.hpp).
///
///     HEAD   mode, device, base, range, capacity, start time, then the options as JSON (length, text)
///     EVTS   events, each encoded by its difference from the one before; the first one of a section from zeros, so
///            that a section can be read without those before it
///     FOOT   events, lost, notes lost, beyond the limit, then the waits of kernels and those of the host's threads (of
///            each their number and ns), then the number of names, and of each its tag and text
///
/// One event:
///
///     kind and flags | time | at | [bytes] | [thread] | [detail]
///       bits 0-4: kind; bit 5: the thread is that of the event before; bit 6: detail 0;
///       bit 7: the bytes are those of the last event of its kind in this section
///       time, at, thread: the difference, as zigzag numbers
///
/// Eight bytes on average for blocks of a walk.
///
/// Version 2 differs from version 1 in one field: the detail of `block_allocated`, which was always 0, is the word of a
/// `block_request`. Version 3 differs from version 2 in the footer, which had no waits.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/events/event.hpp"
#include "host/events/event_mode.hpp"
#include "host/events/event_waits.hpp"

namespace orchard {

/// What the header of a trace says.
struct trace_info {
    event_mode mode = event_mode::sampled;
    bool on_cuda = false;
    std::uint64_t base = 0;      ///< address of the heap's first byte
    std::uint64_t range = 0;     ///< bytes of its addresses
    std::uint64_t capacity = 0;  ///< most bytes that it may commit
    std::uint64_t start_ns = 0;  ///< by the clock of the events
    std::string options_json;    ///< an object: each option's name and its value as text

    friend bool operator==(const trace_info&, const trace_info&) = default;
};

/// The waits for the trace: a cost of a complete one beside its own work.
struct trace_waits {
    event_waits kernels;  ///< of groups of lanes that found the ring full, by the device's clock
    event_waits host;     ///< of the heap's threads and callers that found their queue full

    friend trace_waits operator-(const trace_waits& a, const trace_waits& b) {
        return {a.kernels - b.kernels, a.host - b.host};
    }
    friend bool operator==(const trace_waits&, const trace_waits&) = default;
};

/// What the footer of a trace says.
struct trace_counts {
    std::uint64_t events = 0;
    std::uint64_t lost = 0;                      ///< events without which a complete trace cannot be replayed
    std::uint64_t lost_notes = 0;                ///< of slabs and shortages, which never wait
    std::uint64_t beyond_limit = 0;              ///< events that came when the file had reached its limit
    std::optional<trace_waits> waits;            ///< none: the trace is of version 1 or 2
    std::map<std::uint32_t, std::string> names;  ///< of tags

    friend bool operator==(const trace_counts&, const trace_counts&) = default;
};

/// Returns whether a trace with these tells of every block, so that it can be replayed.
inline bool can_replay(const trace_info& info, const trace_counts& counts) {
    return info.mode == event_mode::complete && counts.lost == 0 && counts.beyond_limit == 0;
}

namespace detail::trace {

inline constexpr std::string_view magic{"\x89OTRACE\n", 8};
/// Traces of `oldest_version` and later can be read.
inline constexpr std::uint32_t version = 3;
inline constexpr std::uint32_t oldest_version = 1;
/// The footers of traces of this version and later have waits.
inline constexpr std::uint32_t version_with_waits = 3;
inline constexpr std::string_view header_kind = "HEAD";
inline constexpr std::string_view events_kind = "EVTS";
inline constexpr std::string_view footer_kind = "FOOT";
inline constexpr std::size_t prefix_bytes = 12;   ///< magic and version
inline constexpr std::size_t section_bytes = 16;  ///< before the content
/// A writer ends a section of events when its content has reached this.
inline constexpr std::size_t full_section = std::size_t{64} << 10;
/// No content is longer; a reader needs no more memory for a section.
inline constexpr std::size_t longest_content = std::size_t{4} << 20;

/// Returns the CRC-32 (of zlib, Ethernet) of one text after another.
std::uint32_t crc32(std::string_view first, std::string_view second = {});

/// Returns a whole section.
std::string section(std::string_view kind, std::uint32_t events, std::string_view content);

std::string encode(const trace_info& info);
std::string encode(const trace_counts& counts);
/// Return false if the content is none of that kind.
bool decode(std::string_view content, trace_info& info);
/// @param found  the version of the trace
bool decode(std::string_view content, std::uint32_t found, trace_counts& counts);

/// The state from which the next event differs.
struct delta_state {
    event last{};
    std::uint64_t bytes_of[32] = {};
};
void encode(const event& e, delta_state& state, std::string& out);
/// Appends the events of a content. Returns false if it is no such content, or has another number of events.
bool decode(std::string_view content, std::uint32_t events, std::vector<event>& out);

/// Returns the number of 4 bytes at a place of `text`, which has them.
inline std::uint32_t word_at(std::string_view text, std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        value |= std::uint32_t{static_cast<std::uint8_t>(text[at + i])} << 8 * i;
    }
    return value;
}

}  // namespace detail::trace
}  // namespace orchard
