// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The terminal, by ncurses; see terminal.hpp.

#include "profiling/top/terminal.hpp"

#if ORCHARD_HAS_NCURSES
#define NCURSES_NOMACROS 1  // they would be in the way of functions of the same names
#include <ncursesw/curses.h>
#endif
#include <langinfo.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "host/monotonic_clock.hpp"
#include "profiling/top/screen.hpp"

namespace orchard::top {

#if ORCHARD_HAS_NCURSES

namespace {

/// The terminal while it shows the screen; as it was before afterwards.
class terminal {
public:
    /// `newterm` and not `initscr`, which would end the process where the terminal is not known.
    terminal() : screen_{::newterm(nullptr, stdout, stdin)} {
        if (screen_ != nullptr) {
            ::cbreak();
            ::noecho();
            ::keypad(::stdscr, true);
            ::curs_set(0);
        }
    }
    ~terminal() {
        if (screen_ != nullptr) {
            ::endwin();
            ::delscreen(screen_);
        }
    }
    terminal(const terminal&) = delete;
    terminal& operator=(const terminal&) = delete;

    [[nodiscard]] bool is_known() const { return screen_ != nullptr; }

    static void draw(const history& seen, bool unicode) {
        ::erase();
        int row = 0;
        for (const std::string& line : screen(seen, ::getmaxx(::stdscr), ::getmaxy(::stdscr), unicode)) {
            ::mvaddstr(row++, 0, line.c_str());
        }
        ::refresh();
    }
    /// Returns the key that was pressed within `limit`, or KEY_RESIZE; ERR after `limit` or 100 ms, if there was
    /// neither. ncurses looks for a new size when its wait ends: a signal that comes before the wait begins does not
    /// end it, so each wait is short.
    static int key(absl::Duration limit) {
        const std::int64_t ms = absl::ToInt64Milliseconds(limit);
        ::timeout(static_cast<int>(std::clamp<std::int64_t>(ms, 1, 100)));
        return ::getch();
    }

private:
    SCREEN* screen_;
};

/// Reads, draws and waits until the end. Returns the status of the last read.
absl::Status run(live::live_reader& from, absl::Duration interval, bool unicode) {
    const terminal shown;
    if (!shown.is_known()) {
        const char* const name = std::getenv("TERM");
        return absl::FailedPreconditionError(absl::StrCat(
            "TERM=", name == nullptr ? "" : name, ": ncurses does not know this terminal; set TERM, or give --once"));
    }
    history seen;
    for (;;) {
        from.watch();
        auto heap = from.read();
        if (!heap.ok()) {
            return heap.status();
        }
        seen.add(monotonic_ns(), *std::move(heap));
        terminal::draw(seen, unicode);
        for (const absl::Time next = monotonic_now() + interval; monotonic_now() < next;) {
            const int key = terminal::key(next - monotonic_now());
            if (key == 'q') {
                return absl::OkStatus();
            }
            if (key == KEY_RESIZE) {
                terminal::draw(seen, unicode);
            }
        }
    }
}

}  // namespace

/// The end of the heap is no error. It is said when the terminal is as it was, so that it can be read.
absl::Status show(live::live_reader& from, absl::Duration interval) {
    if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
        return absl::FailedPreconditionError(
            "standard input or output is no terminal; give --once, --json or --prometheus");
    }
    std::setlocale(LC_CTYPE, "");
    const bool unicode = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
    const absl::Status end = run(from, interval, unicode);
    if (absl::IsNotFound(end)) {
        std::printf("%s\n", std::string(end.message()).c_str());
        return absl::OkStatus();
    }
    return end;
}

#else

absl::Status show(live::live_reader&, absl::Duration) {
    return absl::FailedPreconditionError(
        "this build has no ncurses, and shows no screen; give --once, --json or --prometheus, or install "
        "libncurses-dev and build again");
}

#endif

}  // namespace orchard::top
