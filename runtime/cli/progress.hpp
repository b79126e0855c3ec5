// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The progress of long commands. Debian 12 has no C++ library for it.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace orchard::command_line {

/// One line on standard error that is overwritten, if standard error is a terminal; otherwise nothing is printed.
class progress {
public:
    /// @param wanted  false: prints nothing on a terminal either
    explicit progress(bool wanted = true);
    ~progress() { clear(); }
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;

    /// Shows a text.
    void show(std::string_view text);
    /// Starts a bar of `total` items.
    void begin(std::string what, std::uint64_t total);
    /// Adds `items` completed items to the bar. Draws at most ten times a second.
    void add(std::uint64_t items);
    /// Removes the line.
    void clear();

private:
    /// Draws the bar, unless it was drawn less than 100 ms ago.
    void draw();

    bool shown_;          ///< standard error is a terminal, and progress is wanted
    bool drawn_ = false;  ///< there is a line on the terminal
    std::string what_;
    std::uint64_t total_ = 0;  ///< items of the phase
    std::uint64_t done_ = 0;   ///< items completed
    std::chrono::steady_clock::time_point last_{};
};

}  // namespace orchard::command_line
