// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The progress; see progress.hpp. It is one line, which "\r" begins again:
///
///     walking                [##########                              ]  25 %

#include "runtime/cli/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <absl/strings/str_format.h>

namespace orchard::command_line {

/// Standard error, so that standard output holds the report alone.
progress::progress(bool wanted) : shown_{wanted && isatty(STDERR_FILENO) != 0} {}

void progress::show(std::string_view text) {
    if (shown_) {
        // Back to the beginning of the line, which is cleared to its end.
        absl::FPrintF(stderr, "\r\033[K%s", text);
        std::fflush(stderr);
        drawn_ = true;
    }
}

void progress::begin(std::string what, std::uint64_t total) {
    clear();
    what_ = std::move(what);
    total_ = total;
    done_ = 0;
    // Long ago: the next `draw` draws.
    last_ = {};
    draw();
}

void progress::add(std::uint64_t items) {
    done_ += items;
    draw();
}

void progress::draw() {
    constexpr auto interval = std::chrono::milliseconds(100);
    const auto now = std::chrono::steady_clock::now();
    if (total_ == 0 || now - last_ < interval) {
        return;
    }
    // Columns between the brackets.
    constexpr std::uint64_t width = 40;
    const double part = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    const auto filled = static_cast<std::size_t>(part * static_cast<double>(width));
    show(absl::StrFormat("%-22s [%s%s] %3.0f %%", what_, std::string(filled, '#'), std::string(width - filled, ' '),
                         part * 100));
    last_ = now;
}

void progress::clear() {
    if (drawn_) {
        show("");
        drawn_ = false;
    }
}

}  // namespace orchard::command_line
