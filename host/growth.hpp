// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The growth thread, which commits and decommits memory, and the words by which the service talks to it.
///
/// A commit is a call of the driver and may take long; the service must not wait for it. The service therefore only
/// states a number, the segments that it wants, and later finds the committed extents in a ring. No thread holds a lock
/// while it waits for another one.

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "host/events/reports.hpp"
#include "host/heap_thread.hpp"
#include "host/run_ring.hpp"
#include "host/single_writer_counter.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// The words by which the service and the growth thread communicate.
///
///     service                                   growth thread
///     wanted: commits needed in total      ---> commits extents, lowest addresses first
///                                          <--- ready: extents that are committed
///     released: extents no longer in use   ---> decommits them: their addresses may be committed again
///     advise: granted, not handed out yet  ---> advises the UVM driver about them
///                                          <--- advised: how many of these are done, in order
///
/// "In total" counts every commit since the heap was created, also of memory that was decommitted since, so that
/// `committed` never falls. A thread that waits until it reaches a goal therefore cannot miss that moment, even if the
/// memory is decommitted again before the thread looks. An example:
///
///     100 segments were committed in total, 30 of them were decommitted: 70 are committed now.
///     To have 80, the service sets `wanted` to 110.
///
/// A commit that fails sets `failed`, and the growth thread commits nothing more until `growth::want` clears it:
/// without that, the thread would call the driver again and again for memory that is not there.
///
///     idle --wanted > committed--> commits extents --wanted reached--> idle
///                                     |
///                                     +--a commit failed--> stopped --want()--> commits extents
struct alignas(64) growth_line {  // on cache lines of its own
    // `segments` and `most` are set before the threads start, and are constant afterwards.
    //
    // Each other word has one writer, as noted, except `failed`, which the growth thread sets and the service clears,
    // and `apart`, which the service sets and either of them clears. The growth thread stores a count after the change
    // that it counts, with release; a reader that relies on that change acquires. The release of `wanted` covers
    // `needed` and `longest`, which are stored before it.
    std::uint32_t segments = 0;                     ///< those that there are addresses for
    std::uint32_t most = 0;                         ///< the most segments committed at once that the budgets allow
    simt::host_word<std::uint64_t> committed{0};    ///< in total; written by the growth thread, after `ready`
    simt::host_word<std::uint64_t> begun{0};        ///< `committed`, and what is being committed; written as that
    simt::host_word<std::uint64_t> decommitted{0};  ///< in total; written by the growth thread
    simt::host_word<std::uint64_t> taken_again{0};  ///< went back, as the decommit failed; in total; written as that
    simt::host_word<std::uint64_t> wanted{0};       ///< in total; written by the service
    simt::host_word<std::uint64_t> needed{0};       ///< part of `wanted` that requests wait for; written as that
    simt::host_word<std::uint32_t> longest{0};      ///< length of a run needed in one piece; written by the service
    simt::host_word<std::uint32_t> apart{0};        ///< length of an extent for one request; 0: none is wanted
    simt::host_word<std::uint32_t> apart_at{0};     ///< first segment of the last one; written by the growth thread
    simt::host_word<std::uint32_t> failed{0};       ///< why a commit failed; cleared when the service wants more
    simt::host_word<std::uint32_t> failed_at{0};    ///< number of extents given up before that failure
    simt::host_word<std::uint32_t> failures{0};     ///< number of commits that failed; written by the growth thread
    simt::host_word<std::uint64_t> advised{0};  ///< extents of `advise` done, in total; written by the growth thread
    run_ring ready;
    run_ring released;
    run_ring advise;
};

/// The least and the greatest size of an extent, in segments. An extent is as large as the demand, within these limits.
/// A call costs about the same whatever the size, so that small extents cannot keep up with a kernel that writes the
/// memory (docs/backings.md); large ones hold more memory that is not needed yet.
struct extent_sizes {
    std::uint32_t least;
    std::uint32_t most;

    /// All extents of one size; or sizes from `at_least` to `at_most`, of which the second is raised to the first if it
    /// is less.
    extent_sizes(std::uint32_t of_all) : least{of_all}, most{of_all} {}
    extent_sizes(std::uint32_t at_least, std::uint32_t at_most)
        : least{at_least}, most{at_most > at_least ? at_most : at_least} {}
};

/// Commits memory ahead of demand, and decommits unused memory, in a thread of its own: both may take long, but delay
/// no request. Each heap has one object, for its service.
///
/// Threads: the service calls all functions, except those that say otherwise; `step` and `run` belong to the growth
/// thread, which alone commits and decommits; the owner of the object calls `limit`, `fence_extents`, `start` and
/// `stop`.
class growth {
public:
    /// Prepares the metadata of segments before these are committed; called on the growth thread. After an error the
    /// segments are not committed.
    using preparation = std::function<absl::Status(segment_run)>;

    /// Creates the line for all segments of the backing, but at most `max_segments` - 1: no request can name more. The
    /// segments that the backing has committed from the start are in the ring `ready` already. No thread runs until
    /// `start`.
    /// @param memory  must outlive this object
    /// @param sizes  sizes of extents, at least 1 segment; the least is 1 if the backing decommits at once, so that no
    ///     more is committed than is wanted
    /// @param prepare  empty if nothing needs preparation
    growth(backing& memory, extent_sizes sizes, preparation prepare = {});
    ~growth() { stop(); }
    growth(const growth&) = delete;
    growth& operator=(const growth&) = delete;

    /// Reports events and activities from now on: `commit`, `decommit` and `commit_failed`. Called before `start`.
    void report_to(const reports& to) { reports_ = to; }
    /// Any thread may take the line; each of its words says which thread writes it.
    [[nodiscard]] growth_line& line() { return line_; }
    /// Sets the most segments that can be committed at the same time, and whether the address range (`by_range`) or the
    /// budgets set this limit. It decides only how a shortage is reported and when memory counts as scarce; the backing
    /// enforces the budgets. Call it before the service exists.
    void limit(std::uint32_t segments, bool by_range = false);
    [[nodiscard]] bool is_limited_by_range() const { return by_range_; }
    /// Leaves a fence in front of each extent from now on: a segment that is never committed, so that an access which
    /// runs out of the extents on either side is a fault. There is none in front of an extent that continues a run
    /// which is needed in one piece, nor where a gap has no room for it, nor if the memory that the budgets allow would
    /// not fit into the range any more. Call it after `limit`, before `start`.
    void fence_extents() { fences_extents_ = true; }
    /// Returns the number of segments for which the device's budget still has room. Any thread may call it. Cost: reads
    /// the backing's counts; no call of the driver.
    [[nodiscard]] std::uint32_t device_left() const;
    /// Returns true if the last commit failed because the budgets are spent, and nothing has been released since:
    /// another commit would fail too. Room comes only by decommits of this heap and by a new budget, so that their
    /// number tells whether a new attempt is worthwhile.
    ///
    ///     extents given up    5                  5         6
    ///                         a commit fails:    spent     not spent any more: the sixth one's budget may suffice
    ///                         failed_at = 5
    [[nodiscard]] bool is_spent() const {
        return is_of_budgets(why_failed()) &&
               // `failed_at` was written before `failed`, which `why_failed` acquires.
               line_.failed_at.load<simt::order::relaxed>() == given_up_.load<simt::order::relaxed>();
    }
    /// Tells that a budget was raised: what failed for want of it may succeed now. Any thread.
    void note_new_budget() {
        given_up_.fetch_add<simt::order::relaxed>(1);
        wake();
    }
    /// Returns true if the last commit failed and no memory has been released since that could make a retry succeed.
    /// After a failure of another kind, such as a GPU without free memory, this is true whatever this heap releases; a
    /// request that must wait clears it by `want`.
    [[nodiscard]] bool has_failed() const {
        const failure_reason why = why_failed();
        return why != failure_reason::none && (!is_of_budgets(why) || is_spent());
    }
    /// Returns true if the backing's call under way began more than `patience_ns` ago. Another call of the process may
    /// then hold it up until kernels have ended, and no memory is committed meanwhile. Any thread may call it. Relaxed:
    /// the time alone is of interest. Cost: two loads, and a clock read while a call is under way.
    [[nodiscard]] bool is_blocked(std::uint64_t patience_ns) const {
        const std::uint64_t since = busy_since_.load<simt::order::relaxed>();
        const std::uint64_t now = simt::clock_ns();
        return since != 0 && now > since && now - since > patience_ns;  // `since` may lie 1 ns ahead: `begin_call`
    }
    /// Returns true if the backing can decommit memory. If not, the service never gives any up.
    [[nodiscard]] bool can_release() const { return memory_.can_decommit(); }
    /// Returns true if unused segments are to be given up at once. Extents in `ready` are then as long as the demand,
    /// and each segment of them is released by itself (`segment_service::take_up_growth`).
    [[nodiscard]] bool releases_at_once() const { return at_once_; }

    /// Asks for `segments` commits in total, because requests wait for them; tries again even after a failed commit.
    /// Never waits. Cost: two stores, and a system call if the growth thread sleeps.
    void want(std::uint64_t segments);
    /// The same for one extent of exactly `segments` segments beyond all that is wanted, which `fence_extents` puts
    /// between two fences, if a gap has room for them. `growth_line::apart` becomes 0 when it is in the ring `ready`,
    /// or after an attempt that failed; it may be withdrawn by `apart` = 0.
    void want_apart(std::uint32_t segments);
    /// As `want`, ahead of demand. After a failed commit, nothing is tried again. The memory committed beyond the need
    /// is at most an eighth of the device's free memory, so that two processes that see the same free memory leave each
    /// other some. A number that is not greater than the one asked for before changes nothing.
    void want_ahead(std::uint64_t segments);
    /// Withdraws the part of the request beyond `segments` commits in total. A commit that is under way still ends.
    /// Relaxed: nothing is handed over by a lower number, and the growth thread may see it late, so that it may begin
    /// one more commit.
    void want_no_more(std::uint64_t segments) { line_.wanted.store<simt::order::relaxed>(segments); }
    /// Asks for the decommit of an extent, exactly as it was committed, or of a part of one if `releases_at_once`; no
    /// segment of it may be in use. Returns false,
    /// and does nothing, if too many decommits are under way: the caller keeps the extent and tries later. Never waits.
    /// The extent comes back through `ready` if it cannot be decommitted.
    [[nodiscard]] bool release(const extent& e);
    /// Returns true if segments may have advice of their own. Constant.
    [[nodiscard]] bool takes_advice() const { return takes_advice_; }
    /// Asks for advice about committed segments (`backing::advise_segments`); `growth_line::advised` counts those that
    /// are done, also without success. A release of the same segments that is asked for later takes place later.
    /// Returns false, and does nothing, if too many are under way. Never waits.
    [[nodiscard]] bool advise(segment_run run, advice_code advice);
    /// Wakes the growth thread, for example because a full ring has room again. Any thread may call it.
    void wake();

    /// Gives the advice that was asked for, decommits the extents that were released, and commits one extent if more is
    /// wanted. Returns true if it did
    /// anything; false means that there is nothing to do until `wake`. Decommits come first, since a commit that
    /// follows may need their budget. The thread's loop calls it repeatedly.
    bool step();

    /// Runs the thread's loop until `stop`.
    void run();
    /// Starts the thread. Tests may call `step` or `run` instead.
    void start();
    /// Stops the thread after the call under way, and waits for it. Does nothing if `start` made no thread. Memory that
    /// was released and not decommitted yet goes back with the backing.
    void stop();

    /// Returns how long the backing's commits have taken, those that failed included. Any thread may read it.
    [[nodiscard]] const power_histogram& commit_ns() const { return commit_ns_; }
    /// Returns the last error of the backing, or `OkStatus`. Any thread may call it.
    [[nodiscard]] absl::Status last_error() const;

private:
    /// Addresses without memory: the first segment of each gap and its length, adjacent gaps joined. Only the growth
    /// thread uses them, apart from the constructor.
    using gaps = std::map<std::uint32_t, std::uint32_t>;  // first -> count

    /// A run that is needed in one piece: where its next extent begins, and how many segments are missing. A run of 100
    /// segments with extents of 32 takes four of them, one after the other in one gap; the last one reaches beyond the
    /// run.
    struct piece {
        std::uint32_t next = 0;
        std::uint32_t missing = 0;
    };

    /// Returns why the last commit failed; `none` if it did not, or if more was wanted since. The acquire pairs with
    /// the release in `note_failure`: after a failure the caller also sees all extents that were committed before it.
    [[nodiscard]] failure_reason why_failed() const {
        return static_cast<failure_reason>(line_.failed.load<simt::order::acquire>());
    }
    /// Returns true if only a decommit can help.
    static bool is_of_budgets(failure_reason why) {
        return why == failure_reason::out_of_memory_device_budget || why == failure_reason::out_of_memory_host_budget;
    }
    // All of these run on the growth thread; each is described at its definition.
    bool give_advice();
    std::optional<extent> pop_released(std::uint32_t* left);
    bool decommit_released();
    [[nodiscard]] segment_run take_addresses(std::uint32_t count);
    [[nodiscard]] segment_run take_addresses_apart(std::uint32_t count);
    [[nodiscard]] segment_run take_fenced(gaps::iterator at, std::uint32_t count);
    void free_addresses(segment_run run);
    bool commit_wanted();
    [[nodiscard]] std::uint32_t choose_size(std::uint64_t have, std::uint64_t wanted) const;
    void note_failure(commit_outcome why);
    commit_outcome commit(segment_run* run);
    commit_outcome commit_once(segment_run run);
    /// Note when a call of the backing begins and that it has ended. 0 means that none is under way, hence the lowest
    /// bit, which makes every time nonzero.
    void begin_call() { busy_since_.store<simt::order::relaxed>(simt::clock_ns() | 1); }
    void end_call() { busy_since_.store<simt::order::relaxed>(0); }
    void note(absl::Status error);
    std::uint64_t report_begin(activity what, std::uint32_t segments);
    void report_end(activity what, event_kind kind, segment_run run, std::uint32_t detail, std::uint64_t begun_ns);
    /// Tells the thread to end after the call under way, and returns at once. Any thread may call it, several times.
    void ask_to_stop();

    /// Only the growth thread commits and decommits through it.
    backing& memory_;
    extent_sizes sizes_;   ///< limits of an extent, in segments
    preparation prepare_;  ///< empty: nothing to prepare
    // Copies of properties of the backing and of `limit`, read by the service.
    bool at_once_;           ///< `backing::decommits_at_once`
    bool takes_advice_;      ///< `backing::takes_advice`
    bool by_range_ = false;  ///< the addresses are the limit, not the budgets
    bool fences_extents_ = false;
    growth_line line_;
    gaps gaps_;                       ///< addresses without memory
    piece piece_;                     ///< the long run under way, if any
    std::set<std::uint32_t> fences_;  ///< segments; each is in front of a committed extent, in no gap
    /// Raised by `wake`; the growth thread sleeps on it.
    simt::host_word<std::uint32_t> signal_{0};
    /// Time when the backing's call under way began, in ns; 0: no call is under way.
    simt::host_word<std::uint64_t> busy_since_{0};
    power_histogram commit_ns_;                   ///< written by the growth thread
    simt::host_word<std::uint32_t> given_up_{0};  ///< number of extents given up
    std::uint32_t seen_ = 0;                      ///< those of them that were decommitted before the next commit
    simt::host_word<std::uint32_t> stopping_{0};
    // Protects `error_`, which any thread may read.
    mutable std::mutex error_mutex_;
    absl::Status error_;  ///< the last error of the backing
    reports reports_;
    std::optional<heap_thread> thread_;  ///< if `start` made one
};

}  // namespace orchard
