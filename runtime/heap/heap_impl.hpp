// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The implementation of a heap: its members, and the order in which they live and die.
///
///     heap (moved freely) --> impl (never moves)
///       memory_         backing: super chunk, metadata, mailbox
///       view            numbers and pointers for kernels; `view_in_memory_` is its copy in device memory
///       growth_         one thread: commits and decommits
///       service_        answers requests; `thread_` runs it
///       host_blocks_    blocks that the host allocates and frees
///       watch_          the thread of `on_failure`, if there is one
///       monitor_        the threads of the live page and of the option `verbose`, if one of them is on
///
/// The functions that users call run on the caller's thread. A job that changes the service's structures runs on the
/// service's thread (`run`); a call of the backing for growth is made by the growth thread alone.

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "device/hardened/block_fault_record.cuh"
#include "device/hardened/quarantine.cuh"
#include "device/published/published_view.cuh"
#include "host/growth.hpp"
#include "host/segment_service.hpp"
#include "host/service_thread.hpp"
#include "runtime/heap/failure_watch.hpp"
#include "runtime/heap/heap.hpp"
#include "runtime/heap/heap_events.hpp"
#include "runtime/heap/heap_memory.hpp"
#include "runtime/heap/heap_monitor.hpp"
#include "runtime/heap/heap_trace.hpp"
#include "runtime/heap/host_blocks.hpp"
#include "runtime/heap/published_heap.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// The implementation of a heap. `heap` is a thin handle over it; its functions are documented there.
///
///     heap.cpp               creation, and all that is not in one of the other files
///     heap_growth.cpp        reserve, set_device_budget, trim
///     heap_moves.cpp         migrate, prefetch, advise
///     heap_host_blocks.cpp   allocate_on_host, free_on_host
///     heap_trace.cpp         make_trace, sites, traces that a reader of the live page starts
///     heap_failure.cpp       failures, on_failure, first_invalid_free, block_faults
///     heap_snapshot.cpp      map, dump
///     heap_warnings.cpp      warnings
///     heap_events.cpp        events, marks for tools, mark_live_blocks
///     heap_live.cpp          the live page and its commands, verbose, show_stats
///
/// Members are destroyed in reverse order: threads first, memory last. A pointer to this object stays valid when the
/// `heap` is moved, so that threads and callbacks may hold it.
class heap::impl {
public:
    /// Does all work of `create` after the options were checked. `memory` is that of `create_in`, or empty. `driver`
    /// replaces the elastic heap's own driver, for tests. Errors: those of `heap::create`; exceptions for a lack of
    /// threads or memory become errors here.
    static absl::StatusOr<std::unique_ptr<impl>> make(const options& values, const supplied_memory& memory,
                                                      std::unique_ptr<memory_driver> driver = nullptr,
                                                      const published_settings& walk = {},
                                                      const event_listeners& listeners = {});
    ~impl();

    /// Returns an error in a process that was forked from the one that created the heap. Cost: a system call.
    [[nodiscard]] absl::Status check_process() const;

    // The functions of `heap`, documented there.
    absl::StatusOr<statistics> stats();
    absl::StatusOr<chunk_usage> chunks() { return usage_of_chunks(view, *memory_); }
    absl::StatusOr<heap_map> map();
    absl::Status validate(std::span<const held_block> held);
    absl::Status trim();
    absl::Status reserve(std::uint64_t bytes);
    absl::Status set_device_budget(std::uint64_t bytes);
    absl::StatusOr<migration> migrate(void* stream);
    absl::Status prefetch(void* at, std::uint64_t bytes, memory_tier to);
    absl::Status advise(void* at, std::uint64_t bytes, managed_advice what);
    absl::Status check_inside(const char* verb, const void* at, std::uint64_t bytes) const;
    absl::StatusOr<std::uint64_t> mark_live_blocks();
    void unmark_live_blocks();
    absl::StatusOr<void*> allocate_on_host(std::uint64_t bytes);
    absl::Status free_on_host(void* p);
    std::optional<failure> last_failure();
    std::optional<failure> first_failure();
    std::vector<failure> failures();
    absl::Status on_failure(failure_watch::callback report);
    std::uintptr_t first_invalid_free();
    [[nodiscard]] std::vector<block_fault> block_faults() const;
    absl::Status close();
    absl::StatusOr<std::vector<site_usage>> sites();
    [[nodiscard]] bool loads_kernels_eagerly() const;
    [[nodiscard]] std::vector<std::string> warnings() const;

    /// Returns the result of `call`, which no other such call of this heap overlaps: those of the application, and
    /// those that a reader of the live page has sent.
    template <class Call>
    auto alone(Call call) {
        const std::scoped_lock lock(alone_);
        return call();
    }

    /// The options with the values that the heap chose; the device, with the reason for it; the view for kernels.
    /// Constant after `make`, so that any thread may read them.
    options values;
    device_choice choice;
    simt::executor executor;
    device::published_view view;
    device::heap_view
        closed;  ///< the result of `heap::ref` if a published algorithm serves the heap; otherwise null pointers

private:
    nvtx::heap_memory_marks* memory_marks();
    friend struct heap_service_peer;
    /// As `make`, but throws if a thread cannot be started or the process is out of memory.
    static absl::StatusOr<std::unique_ptr<impl>> make_or_throw(const options& values, const supplied_memory& memory,
                                                               std::unique_ptr<memory_driver> driver,
                                                               const published_settings& walk,
                                                               const event_listeners& listeners);
    /// Returns the error that a thread `of` the heap could not be started.
    static absl::Status no_thread(const char* of, const std::system_error& error);
    /// Returns the number by which this heap knows its own records in memory that others used before.
    static std::uint16_t next_stamp();
    /// The steps of `make`. `lay_out_metadata` computes the numbers of the view and gets memory for each array that it
    /// points to. `start_service` makes the mailbox and the service, copies the views to device memory (`write_views`),
    /// and starts the threads.
    absl::Status lay_out_metadata();
    absl::Status make_trace();
    absl::Status write_views();
    absl::Status write_closing(device::heap_state* state);
    absl::Status start_service();
    absl::StatusOr<void*> allocate_mailbox(std::size_t bytes);
    /// The counts of the mailbox: requests posted, and responses delivered, the latter modulo 2^40.
    struct mailbox_counts {
        std::uint64_t posted = 0;
        std::uint64_t delivered = 0;
    };
    /// Returns the counts of the mailbox. `check_settled` returns OK if all requests of such counts have been answered
    /// since.
    absl::StatusOr<mailbox_counts> count_posted();
    absl::Status check_settled(const mailbox_counts& before);
    // The functions below are described at their definitions.
    absl::Status run(std::string_view call, std::function<void()> job);
    absl::Status grow(std::string_view call, std::uint32_t target, std::uint32_t longest, bool* failed);
    absl::Status await_moves();
    absl::Status release_unused();
    void listen();
    absl::Status trim_now();
    absl::Status move(const std::vector<move_order>& orders);
    [[nodiscard]] std::uint64_t device_budget() const;
    void make_host_blocks();
    absl::StatusOr<mailbox::grant> take_for_host(std::uint32_t segments, leaf_count leaves);
    [[nodiscard]] absl::Status check_host_blocks(const char* what) const;
    absl::Status settle();
    memory_levels levels();
    std::array<std::uint64_t, failure_reasons> count_failures();
    [[nodiscard]] std::vector<device::recorded_failure> newest_failures() const;
    std::vector<numbered_failure> explain_failures(const std::vector<device::recorded_failure>& recorded);
    [[nodiscard]] simt::executor own_executor() const;

    // Of heap_live.cpp, described there.
    static std::uint32_t next_number();
    void add_host_statistics(statistics& s) const;
    void look(live_state& s) const;
    void start_monitor();
    absl::StatusOr<std::string> perform(const live::request& r);
    absl::StatusOr<std::string> start_trace(const std::string& path);
    absl::StatusOr<std::string> stop_trace();
    void end_traces();
    trace_waits waits_for_traces();
    absl::StatusOr<std::string> dump_to(const std::string& path);
    void print_statistics();

    // Each copies or asks; described at their definitions.
    absl::StatusOr<std::unique_ptr<device::heap_state>> read_state();
    absl::Status read_samples(std::size_t segments);
    absl::Status take_turns(std::string_view call);

    // Constant after `make`.
    backing_option asked_backing_ = backing_option::automatic;  ///< the option as requested; `values` hold the backing
                                                                ///< that was chosen
    // The process that created the heap. Its threads do not exist in a forked one (`check_process`).
    const pid_t process_ = ::getpid();
    // The published algorithm that serves the heap, if any.
    published_settings walk_;
    // Before all that uses memory, so that it is released last.
    std::unique_ptr<backing> memory_;
    host_resident_memory mailbox_memory_;               ///< the mailbox's host part, if that is managed memory
    device::published_view* view_in_memory_ = nullptr;  ///< copy of `view` for kernels
    device::heap_view* closed_in_memory_ = nullptr;     ///< copy of `closed` for kernels
    // Used by the thread that creates the heap, then by the growth thread alone.
    partial_metadata partial_;
    // Of `migrate`, by segment: the samples as they were last read, and how much each segment is in use.
    std::vector<std::uint32_t> samples_;
    std::vector<double> heat_;
    std::unique_ptr<heap_trace> trace_;  ///< null without the options `trace` and `sites`
    event_listeners listeners_;
    std::unique_ptr<heap_events> events_;  ///< null if nobody listens
    /// Of a tool that takes live blocks alone, from the first `mark_live_blocks` on.
    std::unique_ptr<nvtx::heap_memory_marks> late_marks_;
    // Of the monitor's worker, then of the thread that destroys the heap.
    std::unique_ptr<trace_writer> started_trace_;  ///< the trace that a reader of the live page has started
    std::string started_path_;
    trace_waits started_waits_;  ///< of the heap when that trace began
    // Each is destroyed before those that it uses. The service uses `growth_`, its thread the service, and
    // `host_blocks_` and `watch_` both.
    std::unique_ptr<growth> growth_;
    std::unique_ptr<segment_service> service_;
    std::unique_ptr<service_thread> thread_;
    std::unique_ptr<host_blocks> host_blocks_;
    // Relaxed: set by `close`, read by `allocate_on_host`; the service decides.
    std::atomic<bool> is_closed_{false};
    // Relaxed: a count, raised by the thread of `watch_`.
    std::atomic<std::uint64_t> callback_exceptions_{0};
    std::unique_ptr<failure_watch> watch_;
    const std::uint32_t number_ = next_number();  ///< of the heap in its process
    std::mutex alone_;
    absl::Status live_page_error_;  ///< why there is no page although the option asks for one
    std::unique_ptr<heap_monitor> monitor_;
};

}  // namespace orchard
