// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The progress bar of the walk.

#include <chrono>
#include <cstdint>
#include <string>

namespace orchard::examples {

/// A progress bar on standard error, if that is a terminal; otherwise it prints nothing.
class progress {
public:
    /// @param wanted false: prints nothing on a terminal either
    explicit progress(bool wanted);
    ~progress() { clear(); }
    progress(const progress&) = delete;

    /// Starts a bar of `total` items.
    void begin(std::string what, std::uint64_t total);
    /// Adds `items` completed items. Draws at most ten times a second.
    void add(std::uint64_t items);
    /// Removes the bar.
    void clear();

private:
    /// Draws the bar, unless it was drawn less than 100 ms ago.
    void draw();

    bool shown_;          ///< standard error is a terminal, and a bar is wanted
    bool drawn_ = false;  ///< there is a bar on the terminal
    std::string what_;
    std::uint64_t total_ = 0;  ///< items of the phase
    std::uint64_t done_ = 0;   ///< items completed
    std::chrono::steady_clock::time_point last_{};
};

}  // namespace orchard::examples
