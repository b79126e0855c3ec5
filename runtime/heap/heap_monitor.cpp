// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The threads of a monitor; see heap_monitor.hpp.

#include "runtime/heap/heap_monitor.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "host/monotonic_clock.hpp"
#include "runtime/heap/verbose_lines.hpp"
#include "runtime/nvtx/domain.hpp"

namespace orchard {
namespace {

constexpr auto between_ticks = std::chrono::milliseconds(100);
/// The device's counters are copied once a second, and at most for a hundredth of the time: a heap of many slabs has
/// hundreds of megabytes of bitmaps.
constexpr std::uint64_t least_between_reads_ns = 1'000'000'000;
constexpr std::uint64_t pause_for_cost = 100;

}  // namespace

/// A state before the first look, so that memory that the heap had from the start is no growth.
heap_monitor::heap_monitor(monitored_heap from, std::unique_ptr<live::live_page> page, bool verbose)
    : from_{std::move(from)}, page_{std::move(page)}, verbose_{verbose}, state_{from_.constant} {
    from_.look(state_);
    const auto ask = [this] { ask_to_stop(); };
    if (page_) {
        page_->publish(live_words(state_));
        worker_.emplace([this] { run_worker(); }, ask);
    }
    ticker_.emplace([this] { run_ticker(); }, ask);
}

/// The ticker first: it gives the worker work.
heap_monitor::~heap_monitor() {
    ticker_.reset();
    worker_.reset();
}

void heap_monitor::ask_to_stop() {
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
}

/// The last tick comes after the request to stop, so that nothing that the heap did is left out. The page ends here
/// and not in the destructor, which does not run for a heap that is alive when the process exits.
void heap_monitor::run_ticker() {
    nvtx::name_thread("live page");
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        lock.unlock();
        tick();
        lock.lock();
        changed_.wait_for(lock, between_ticks, [this] { return stopping_; });
    }
    lock.unlock();
    tick();
    if (page_) {
        page_->end();
    }
}

/// One look. The device's counters are those of the worker's last reading; the host's are of now.
void heap_monitor::tick() {
    const live_state before = verbose_ ? state_ : live_state();
    {
        const std::scoped_lock lock(mutex_);
        state_.counts = device_counts_;
        state_.device_read_ns = device_read_ns_;
        state_.device_read_cost_ns = device_read_cost_ns_;
    }
    from_.look(state_);
    if (page_) {
        const std::uint64_t now = monotonic_ns();
        page_->publish(live_words(state_));
        page_->beat(now);
        give_work(now);
    }
    if (verbose_) {
        say(before);
    }
}

/// Hands the worker a command, and the reading of the device if somebody watches and it is time.
void heap_monitor::give_work(std::uint64_t now_ns) {
    std::optional<live::request> sent = page_->next_request();
    const bool is_watched = page_->is_watched(now_ns);
    const std::scoped_lock lock(mutex_);
    if (sent) {
        request_ = std::move(sent);
    }
    wants_read_ = is_watched && now_ns >= next_read_ns_;
    if (wants_read_ || request_) {
        changed_.notify_all();
    }
}

/// Each line in one call, so that lines of several threads do not mix.
void heap_monitor::say(const live_state& before) const {
    for (const std::string& line : verbose_lines(before, state_, from_.commit_error())) {
        const std::string text = absl::StrFormat("orchard: heap %d: %s\n", from_.number, line);
        (void)std::fputs(text.c_str(), stderr);
    }
}

void heap_monitor::run_worker() {
    nvtx::name_thread("live commands");
    for (;;) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stopping_ || wants_read_ || request_; });
        if (stopping_) {
            return;
        }
        const std::optional<live::request> sent = std::exchange(request_, std::nullopt);
        lock.unlock();
        if (sent) {
            const absl::StatusOr<std::string> answer = from_.perform(*sent);
            page_->acknowledge(sent->ticket, answer.status(),
                               answer.ok() ? *answer : std::string(answer.status().message()));
        } else {
            work_on_device();
        }
    }
}

/// Reads the device's counters. After an error the old ones stay, with their time.
void heap_monitor::work_on_device() {
    const std::uint64_t began = monotonic_ns();
    const absl::StatusOr<statistics> found = from_.read_device();
    const std::uint64_t ended = monotonic_ns();
    const std::scoped_lock lock(mutex_);
    wants_read_ = false;
    next_read_ns_ = ended + std::max(least_between_reads_ns, pause_for_cost * (ended - began));
    if (found.ok()) {
        device_counts_ = *found;
        device_read_ns_ = ended;
        device_read_cost_ns_ = ended - began;
    }
}

}  // namespace orchard
