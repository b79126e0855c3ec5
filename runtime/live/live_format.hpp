// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The layout of a live page: what a heap shows of itself to other processes, in shared memory. docs/live.md describes
/// it for readers that are not written in C++.
///
///     word  0         32               200                  table_first         values_first
///           | header  | command block  | (room)             | table             | values           |
///                                                           a row: 32 words     words, as the table says
///
/// A page is an array of 64-bit words, each of which is read and written by itself. All numbers and places but the
/// first eight words of the header are found by the header and the table, so that a reader of another minor version
/// can show every field.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "host/single_writer_counter.hpp"

namespace orchard::live {

static_assert(std::endian::native == std::endian::little, "a text lies in its words byte by byte");

/// "ORCHLIVE", its first byte lowest.
inline constexpr std::uint64_t magic_word = 0x4556494c4843524full;
/// A reader of the same major version understands the page; a minor version adds at ends.
inline constexpr std::uint32_t major_version = 1;
inline constexpr std::uint32_t minor_version = 0;
inline constexpr std::uint64_t version_word = std::uint64_t{major_version} << 32 | minor_version;

inline constexpr std::size_t word_bytes = 8;
/// The largest page that a reader takes.
inline constexpr std::uint64_t max_page_bytes = 16 << 20;

/// The words of the header.
enum class header : std::uint32_t {
    magic,
    version,       ///< `version_word`
    page_bytes,    ///< of the whole page
    pid,           ///< of the owner
    start_ticks,   ///< when the owner began: field 22 of /proc/PID/stat
    heap,          ///< number of the heap in its process, from 0 on
    heartbeat_ns,  ///< by CLOCK_MONOTONIC, when the owner last looked at the page
    state,         ///< a `page_state`
    sequence,      ///< odd while the values are being written
    table_first,
    table_rows,
    row_words,
    values_first,
    values_words,
    command_first,
    command_words,
    statistics_version,  ///< `statistics::version`
};
inline constexpr std::uint32_t header_words = 32;

enum class page_state : std::uint64_t { making = 0, live = 1, ended = 2 };

/// The words of the command block, from `command_first` on. A reader takes the block by `claim`, writes the command,
/// and raises `requested`, which the owner answers by the same number in `acknowledged`.
///
///     reader   claim: 0 -> its mark   kind, number, argument   requested = t     ...     result     claim = 0
///     owner                                                       begun = t   result, status   acknowledged = t
///
/// The claim of a reader that has ended may be taken over.
enum class command_word : std::uint32_t {
    claim = 0,      ///< 0, or `claim_of` the reader
    requested = 1,  ///< ticket of the newest command
    kind = 2,       ///< a `command`
    number = 3,     ///< its number: bytes of a reserve
    argument = 4,   ///< its text: `argument_words` words
    begun = 36,
    acknowledged = 37,
    status = 38,  ///< an `absl::StatusCode`
    result = 39,  ///< text: `result_words` words
    /// Until then, by CLOCK_MONOTONIC in ns, somebody watches: the owner reads the device's counters.
    watched_until_ns = 167,
};
inline constexpr std::uint32_t argument_words = 32;
inline constexpr std::uint32_t result_words = 128;
inline constexpr std::uint32_t command_words = 168;

/// The commands that a reader may send. The numbers are part of the layout.
enum class command : std::uint64_t { none, trim, validate, dump, reserve, budget, trace_start, trace_stop };
inline constexpr std::string_view command_names[] = {"none",    "trim",   "validate",    "dump",
                                                     "reserve", "budget", "trace_start", "trace_stop"};

/// The kinds of fields. A text has 4 words a cell if it names the cells of an axis, or more.
enum class field_kind : std::uint64_t { counter, gauge, histogram, text };
inline constexpr std::string_view kind_names[] = {"counter", "gauge", "histogram", "text"};

/// A row of the table. `first` counts from `values_first`; the field has `count` cells of `cell_words` words.
///
///     word   0      5      7      9      28     29      30      31
///            | name | unit | axis | help | kind | first | count | cell_words |
///
/// The axis of a field with several cells is the name of the text field that names them. A histogram's last cell is the
/// sum of all values; the others are its buckets (`power_histogram`).
namespace row {
inline constexpr std::uint32_t name = 0, unit = 5, axis = 7, help = 9, kind = 28, first = 29, count = 30,
                               cell_words = 31, words = 32;
inline constexpr std::uint32_t name_bytes = (unit - name) * 8, unit_bytes = (axis - unit) * 8,
                               axis_bytes = (help - axis) * 8, help_bytes = (kind - help) * 8;
}  // namespace row

inline constexpr std::uint32_t label_words = 4;       ///< of a text that names a cell of an axis
inline constexpr std::uint32_t long_text_words = 16;  ///< of another text
inline constexpr std::uint32_t histogram_cells = power_histogram::buckets + 1;

/// A field, as the owner of a page describes it. The views live as long as the description.
struct field_description {
    std::string name;  ///< lower case, digits and `_`
    std::string_view unit;
    std::string_view axis;  ///< empty: one cell
    std::string_view help;
    field_kind kind = field_kind::gauge;
    std::uint32_t count = 1;
    std::uint32_t cell_words = 1;

    [[nodiscard]] std::uint32_t words() const { return count * cell_words; }
};

/// Returns the text in `words`, up to its first zero byte. Bytes that are not printable become `?`.
inline std::string text_in(std::span<const std::uint64_t> words) {
    std::string text(words.size() * word_bytes, '\0');
    std::memcpy(text.data(), words.data(), text.size());
    text.resize(std::min(text.find('\0'), text.size()));
    for (char& c : text) {
        const auto byte = static_cast<unsigned char>(c);
        c = byte < 0x20 || byte >= 0x7f ? '?' : c;
    }
    return text;
}

/// Writes a text into `words`, cut off where it is too long; the last byte stays zero.
inline void put_text(std::span<std::uint64_t> words, std::string_view text) {
    std::fill(words.begin(), words.end(), 0);
    if (!words.empty()) {
        std::memcpy(words.data(), text.data(), std::min(text.size(), words.size() * word_bytes - 1));
    }
}

/// Returns the mark of a process in `claim`: never 0.
constexpr std::uint64_t claim_of(std::uint32_t pid, std::uint64_t start_ticks) {
    return std::uint64_t{pid} << 32 | (start_ticks & 0xffffffffu);
}

}  // namespace orchard::live
