// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The threads that show what a heap does, where an option asks for it: the live page and the lines of `verbose`.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "host/heap_thread.hpp"
#include "runtime/heap/live_fields.hpp"
#include "runtime/live/live_page.hpp"

namespace orchard {

/// How a monitor sees a heap. Its threads call the functions, beside all others of the heap.
struct monitored_heap {
    std::uint32_t number = 0;  ///< of the heap in its process
    live_state constant;       ///< texts, budgets, histograms
    /// Sets what the host knows: service, growth, failures, memory. Makes no call of the device, and waits for nothing.
    std::function<void(live_state&)> look;
    /// Returns all statistics. It may take long.
    std::function<absl::StatusOr<statistics>()> read_device;
    std::function<std::string()> commit_error;
    /// Carries out a command of a reader, and returns the text of the answer. It may take long.
    std::function<absl::StatusOr<std::string>(const live::request&)> perform;
};

/// Looks at a heap ten times a second.
///
///     ticker   | look, publish, lines of `verbose` | sleep 100 ms |                  never waits for the device
///                   | a reader watches: once a second, at most 1 % of the time
///                   | a reader sent a command
///     worker   -----v---- read_device ------v---- perform ---- acknowledge           only where there is a page
///
/// The destructor asks both to end, and waits for a command under way. At the exit of the process they end as the
/// heap's other threads do, and the page is removed.
class heap_monitor {
public:
    /// Errors: throws std::system_error if a thread cannot be started.
    /// @param page     null: none
    /// @param verbose  lines go to standard error
    heap_monitor(monitored_heap from, std::unique_ptr<live::live_page> page, bool verbose);
    ~heap_monitor();
    heap_monitor(const heap_monitor&) = delete;
    heap_monitor& operator=(const heap_monitor&) = delete;

private:
    // The steps of the threads; each is described at its definition.
    void tick();
    void give_work(std::uint64_t now_ns);
    void say(const live_state& before) const;
    void run_ticker();
    void run_worker();
    void work_on_device();
    void ask_to_stop();

    monitored_heap from_;
    std::unique_ptr<live::live_page> page_;
    bool verbose_;
    live_state state_;                ///< the ticker's
    std::uint64_t next_read_ns_ = 0;  ///< of the device, at the earliest; guarded by `mutex_`, as all below

    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopping_ = false;
    bool wants_read_ = false;
    std::optional<live::request> request_;
    statistics device_counts_;  ///< as of `device_read_ns_`
    std::uint64_t device_read_ns_ = 0;
    std::uint64_t device_read_cost_ns_ = 0;

    std::optional<heap_thread> worker_;
    std::optional<heap_thread> ticker_;
};

}  // namespace orchard
