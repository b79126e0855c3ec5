// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Code that the parts of `orchard bench first` share. These files use only the library's public headers, device arrays
/// and bench.hpp. They can therefore be built against an older version of the library, and both versions measured in
/// one run.
///
/// The question of all parts: what does a program meet that uses a new heap for the first time? Medians over many
/// repetitions of one heap do not show it. Each figure is therefore a median over several new heaps.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <orchard/heap.hpp>

#include "profiling/bench/bench.hpp"

namespace orchard::bench::first {

inline constexpr double mib = 1 << 20;  ///< bytes; a double, for columns in MiB

/// Returns whether the full sizes are measured: on a GPU and without --quick.
inline bool is_large(const settings& s) { return s.device == simt::device_kind::cuda && !s.quick; }

/// Returns the divisor of all thread counts: 1 if a GPU is measured.
inline std::uint32_t divisor(const settings& s) {
    return is_large(s) ? 1 : s.device == simt::device_kind::cuda ? 10 : 100;
}

/// Returns the number of new heaps over which each figure is a median: --repeats, but at most `most`, or 3 if the full
/// sizes are not measured.
inline int heaps_of(const settings& s, int most) { return std::min(s.repeats, is_large(s) ? most : 3); }

/// Returns a heap's options: the defaults (or the command line's values), with the given backing.
/// @param capacity  in bytes, on a GPU; on the emulated device a heap has 1 GiB. A value of the command line comes
///     first
inline options options_of(const settings& s, backing_option backing, std::uint64_t capacity) {
    options values = s.heap;
    const bool cuda = s.device == simt::device_kind::cuda;
    values.device = cuda ? device_option::cuda : device_option::emulated;
    values.backing = backing;
    if (values.capacity == 0) {
        values.capacity = cuda ? capacity : std::uint64_t{1} << 30;
    }
    return values;
}

/// Waits after a heap has ended, because the driver clears released memory and slows down the next heap meanwhile.
inline void let_memory_rest(const settings& s) {
    if (is_large(s)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

/// The times of all heaps, [heap][repetition], in microseconds.
using times_of_heaps = std::vector<std::vector<double>>;

/// Returns the median over heaps of `of(times of one heap)`.
template <class Of>
double median_over(const times_of_heaps& all, Of of) {
    std::vector<double> values;
    for (const std::vector<double>& one : all) {
        values.push_back(of(one));
    }
    return median(std::move(values));
}

/// Returns the first repetition of those whose median is the settled time: the last twenty, or the last half of fewer
/// than forty.
inline std::size_t settled_from(std::size_t repetitions) {
    return repetitions - std::min<std::size_t>(20, (repetitions + 1) / 2);
}

/// Returns the median of the settled repetitions of one heap.
inline double settled(const std::vector<double>& times) {
    return median({times.begin() + static_cast<std::ptrdiff_t>(settled_from(times.size())), times.end()});
}

/// Returns the sum of repetitions 3 to 10: what a program pays that runs a few times only, without the launch in which
/// the heap grows.
inline double third_to_tenth(const std::vector<double>& times) {
    double sum = 0;
    for (std::size_t i = 2; i < 10; ++i) {
        sum += times.at(i);
    }
    return sum;
}

/// Adds the columns <what>_first_us, _third_us, _tenth_us, _settled_us and _3_to_10_us; at least ten repetitions each.
inline void add_times(nlohmann::ordered_json& row, const std::string& what, const times_of_heaps& all) {
    const auto at = [](std::size_t i) { return [i](const std::vector<double>& times) { return times.at(i); }; };
    row[what + "_first_us"] = median_over(all, at(0));
    row[what + "_third_us"] = median_over(all, at(2));
    row[what + "_tenth_us"] = median_over(all, at(9));
    row[what + "_settled_us"] = median_over(all, &settled);
    row[what + "_3_to_10_us"] = median_over(all, &third_to_tenth);
}

/// Returns the additional time of the first repetition over the settled ones, in milliseconds: the median over heaps.
inline double first_less_settled_ms(const times_of_heaps& all) {
    return median_over(all, [](const std::vector<double>& times) { return (times.at(0) - settled(times)) / 1000; });
}

/// Measures lists of blocks of very different sizes, all freed each round: times, and the memory held and committed.
/// Errors: those of the heap and of launches; InternalError if pages are in use after all was freed.
absl::Status measure_lists(const settings& s, nlohmann::ordered_json& rows);

/// Measures a kernel that allocates from an empty heap while another one is loaded. Does nothing on the emulated
/// device. Errors: those of the heap and of the runtime.
absl::Status measure_loading_beside(const settings& s, nlohmann::ordered_json& rows);

}  // namespace orchard::bench::first
