// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The counters of a heap, as numbers, as text and as JSON.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "uvm/geometry/size_classes.hpp"

namespace orchard {

/// The counters of one page class. runtime/statistics/class_statistics.def describes the fields, their units and their
/// meaning.
struct class_statistics {
#define ORCHARD_CLASS_STATISTIC(name, unit, help) std::uint64_t name = 0;
#include "runtime/statistics/class_statistics.def"
#undef ORCHARD_CLASS_STATISTIC

    /// Returns true if the class has slabs or has ever received a request.
    [[nodiscard]] constexpr bool in_use() const { return slabs != 0 || groups != 0 || nulls != 0; }
    friend constexpr bool operator==(const class_statistics&, const class_statistics&) = default;
};

/// A snapshot of a heap's counters. runtime/statistics/statistics.def describes the fields, their units and their
/// meaning.
///
/// The counters are read one after another while kernels may run, so a sum of several is exact only if no kernel runs.
/// Fields are added at the end of their group. A field is removed, or changes its meaning, only with a new `version`.
struct statistics {
    /// Raised when a field is removed or changes its meaning; part of the JSON.
    static constexpr int version = 2;

#define ORCHARD_STATISTIC(source, name, unit, help) std::uint64_t name = 0;
#include "runtime/statistics/statistics.def"
#undef ORCHARD_STATISTIC

    std::array<class_statistics, class_count> classes{};  ///< [class], small pages first

    friend constexpr bool operator==(const statistics&, const statistics&) = default;
};

/// The kinds of statistics: a counter only grows; a gauge is a level, or the peak of one.
enum class statistic_kind : std::uint8_t { counter, gauge };

/// Returns the kind of a statistic by its help, which says "so far" of a counter alone (statistics.def).
constexpr statistic_kind kind_of(std::string_view help) {
    return help.find("so far") != std::string_view::npos ? statistic_kind::counter : statistic_kind::gauge;
}

/// Identifies a field of `statistics`.
using statistic_field = std::uint64_t statistics::*;

/// One line of the table of statistics.
struct statistic_info {
    std::string_view name;
    std::string_view unit;  ///< count, bytes, segments, slabs or pages
    std::string_view help;
    statistic_field field;

    [[nodiscard]] constexpr statistic_kind kind() const { return kind_of(help); }
};

/// Returns all statistics, in the order of the struct.
std::span<const statistic_info> statistic_table();

/// Identifies a field of `class_statistics`.
using class_statistic_field = std::uint64_t class_statistics::*;

/// One line of the table of a class's statistics.
/// As `statistic_info`.
struct class_statistic_info {
    std::string_view name;
    std::string_view unit;
    std::string_view help;
    class_statistic_field field;

    [[nodiscard]] constexpr statistic_kind kind() const { return kind_of(help); }
};

/// Returns all statistics of a class, in the order of the struct.
std::span<const class_statistic_info> class_statistic_table();

/// Returns a text for people: a line with the version, then a table with one line for each statistic: name, value
/// (bytes also in binary units), unit, meaning. If page classes are in use, a second table follows after an empty line,
/// with one line for each such class.
std::string to_text(const statistics& values);

/// Returns a JSON object: "version", then each statistic by name, in the order of the struct, then "classes", an array
/// with an object for each class in use, by size of page. Indented by two blanks, without a final newline.
std::string to_json(const statistics& values);

}  // namespace orchard
