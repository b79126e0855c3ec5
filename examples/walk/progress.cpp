// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The progress bar; see progress.hpp. It is one line, which "\r" begins again:
///
///     walking                [##########                              ]  25 %

#include "examples/walk/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <absl/strings/str_format.h>

namespace orchard::examples {

/// Standard error, so that standard output holds the report alone.
progress::progress(bool wanted) : shown_{wanted && isatty(STDERR_FILENO) != 0} {}

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
    if (!shown_ || total_ == 0 || now - last_ < interval) {
        return;
    }
    // Columns between the brackets.
    constexpr std::uint64_t width = 40;
    const double part = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    const auto filled = static_cast<std::size_t>(part * static_cast<double>(width));
    absl::FPrintF(stderr, "\r%-22s [%s%s] %3.0f %%", what_, std::string(filled, '#'), std::string(width - filled, ' '),
                  part * 100);
    std::fflush(stderr);
    last_ = now;
    drawn_ = true;
}

void progress::clear() {
    if (std::exchange(drawn_, false)) {
        // Back to the beginning of the line, and clear it to its end.
        std::fputs("\r\033[K", stderr);
        std::fflush(stderr);
    }
}

}  // namespace orchard::examples
