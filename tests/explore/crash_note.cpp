// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/crash_note.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <mutex>

namespace orchard::explore {
namespace {

constexpr std::array<int, 5> signals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// Constant initialisation: a signal handler reads them.
constinit thread_local std::array<char, 256> note_text{};
constinit thread_local std::size_t length = 0;
constinit std::array<struct sigaction, signals.size()> handlers_before{};

void tell(int number) {
    if (length != 0) {
        [[maybe_unused]] const auto written = ::write(STDERR_FILENO, note_text.data(), length);
        length = 0;
    }
    // The previous handler takes over when the instruction is repeated, or when `abort` raises the signal again.
    for (std::size_t i = 0; i < signals.size(); ++i) {
        if (signals[i] == number) {
            ::sigaction(number, &handlers_before[i], nullptr);
        }
    }
    if (number == SIGABRT) {
        ::raise(number);
    }
}

void install() {
    struct sigaction action {};
    action.sa_handler = &tell;
    ::sigemptyset(&action.sa_mask);
    action.sa_flags = SA_ONSTACK;
    for (std::size_t i = 0; i < signals.size(); ++i) {
        ::sigaction(signals[i], &action, &handlers_before[i]);
    }
}

}  // namespace

crash_note::crash_note(std::string_view scenario, std::uint64_t seed, const char* strategy) {
    static std::once_flag once;
    std::call_once(once, install);
    const int written = std::snprintf(
        note_text.data(), note_text.size(), "\ncrashed in: explore --scenario %.*s --seed %llu --strategy %s\n",
        static_cast<int>(scenario.size()), scenario.data(), static_cast<unsigned long long>(seed), strategy);
    length = written < 0 ? 0 : std::min(static_cast<std::size_t>(written), note_text.size() - 1);
}

crash_note::~crash_note() { length = 0; }

}  // namespace orchard::explore
