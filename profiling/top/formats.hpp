// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Live pages as text for people, as JSON, and in Prometheus' format. All fields of a page are shown by its own table,
/// so that those of a newer program are, too.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "runtime/live/live_snapshot.hpp"

namespace orchard::top {

/// Returns the bucket's greatest value: 0, 1, 3, 7, ... The last bucket has none.
constexpr std::uint64_t top_of_bucket(std::uint32_t bucket) { return (std::uint64_t{1} << bucket) - 1; }

/// Returns the greatest value of the bucket in which the fraction `part` of a histogram's values is reached; 0 for an
/// empty histogram. @param cells  the buckets, then the sum
std::uint64_t percentile(std::span<const std::uint64_t> cells, double part);

/// Returns what each heap says: its fields, one line each, and the cells that are not 0 of those with an axis.
/// @param now_ns  by CLOCK_MONOTONIC
std::string to_text(const live::snapshot& heap, std::uint64_t now_ns);

/// Returns a heap's fields as a JSON object. A field with an axis is an object of the cells that are not 0; a histogram
/// has "buckets", by the greatest value of each, "sum" and "count".
nlohmann::ordered_json to_json(const live::snapshot& heap, std::uint64_t now_ns);

/// Returns the heaps in Prometheus' text exposition format, version 0.0.4: `orchard_heap_<field>`, counters with
/// `_total`, the labels gpu, uuid, pid and heap, and that of the field's axis. `orchard_heap_info` has the heap's texts
/// and the version of the statistics.
std::string to_prometheus(std::span<const live::snapshot> heaps, std::uint64_t now_ns);

}  // namespace orchard::top
