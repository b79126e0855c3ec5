// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The screen of `orchard top`: lines of text, made from what a live page said in the last minute. No terminal is
/// needed to make them.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "runtime/live/live_snapshot.hpp"

namespace orchard::top {

/// The smallest terminal that the screen fits.
inline constexpr int least_columns = 60;
inline constexpr int least_rows = 12;
/// How far back rates of the header, percentiles and sparklines go.
inline constexpr int history_seconds = 60;

/// What was seen of one heap in the last minute.
class history {
public:
    /// A snapshot, and when it was taken, by CLOCK_MONOTONIC.
    struct sample {
        std::uint64_t time_ns = 0;
        live::snapshot heap;
    };

    /// Adds a sample, and drops those that are no longer needed.
    void add(std::uint64_t time_ns, live::snapshot heap);

    [[nodiscard]] bool is_empty() const { return samples_.empty(); }
    [[nodiscard]] const sample& newest() const { return samples_.back(); }
    /// Returns the newest sample that is at least `seconds` older than the newest one; else the oldest.
    [[nodiscard]] const sample& before(double seconds) const;
    /// Returns how much a counter grows in a second, over the last two seconds.
    [[nodiscard]] double rate(std::string_view counter) const;
    /// Returns a histogram's cells of the last minute alone.
    [[nodiscard]] std::vector<std::uint64_t> recent(std::string_view histogram) const;
    /// Returns a gauge's values, or a counter's growth, second by second: the newest last. Seconds before the first
    /// sample are missing.
    [[nodiscard]] std::vector<double> by_second(std::string_view name, bool growth) const;

private:
    std::deque<sample> samples_;
};

/// Returns a bar of `width` characters: `in_use` of `most` filled, up to `committed` half filled.
std::string bar(std::uint64_t in_use, std::uint64_t committed, std::uint64_t most, int width, bool unicode);

/// Returns the values as characters of eight heights, the newest `width` of them, right-aligned.
std::string sparkline(const std::vector<double>& values, int width, bool unicode);

/// Returns a time in ns with three digits and its unit: "1.05 us".
std::string short_time(std::uint64_t ns);

/// Returns the screen: at most `rows` lines of at most `columns` characters. A terminal that is too small gets one line
/// that says so. @param unicode  whether characters beyond ASCII may be used: for bars and sparklines
std::vector<std::string> screen(const history& seen, int columns, int rows, bool unicode);

}  // namespace orchard::top
