// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "host/run_ring.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// What one shard's service and the growth thread tell each other. Segments count from the range's first.
///
///     service                                   growth thread
///     wanted     so many are to have been  ---> commits extents, the lowest addresses first
///                committed so far, ever
///                                          <--- ready: extents that are committed
///     released: extents that nobody has    ---> decommits them: their addresses may be committed again
struct alignas(64) growth_line {
    segment_run range;
    std::uint32_t most = 0;                         ///< that can be committed at once, as far as budgets go
    simt::host_word<std::uint64_t> committed{0};    ///< so far, ever; written by the growth thread, behind `ready`
    simt::host_word<std::uint64_t> begun{0};        ///< that, and what is being committed; written by the growth thread
    simt::host_word<std::uint64_t> decommitted{0};  ///< so far, ever; written by the growth thread
    simt::host_word<std::uint64_t> taken_again{0};  ///< that could not be decommitted, and went back; as that
    simt::host_word<std::uint64_t> wanted{0};       ///< written by the service
    simt::host_word<std::uint64_t> needed{0};       ///< of `wanted`, that requests wait for; written by the service
    simt::host_word<std::uint32_t> longest{0};      ///< of it, so many in one piece; written by the service
    simt::host_word<std::uint32_t> failed{0};       ///< why a commit failed; cleared when the service wants more again
    simt::host_word<std::uint32_t> failed_at{0};    ///< how much had been given up before it
    simt::host_word<std::uint32_t> failures{0};     ///< commits that failed so far; written by the growth thread
    run_ring ready;
    run_ring released;
};

/// Sizes of extents, in segments: as much as is wanted, within these.
struct extent_sizes {
    std::uint32_t least;
    std::uint32_t most;

    extent_sizes(std::uint32_t of_all) : least{of_all}, most{of_all} {}
    extent_sizes(std::uint32_t at_least, std::uint32_t at_most)
        : least{at_least}, most{at_most > at_least ? at_most : at_least} {}
};

/// Commits memory ahead of demand, and takes it back, in a thread of its own: both may take long without delaying any
/// request.
class growth {
public:
    /// Makes what is kept of segments ready for use before they are committed; on the growth thread.
    using preparation = std::function<absl::Status(segment_run)>;

    /// @param sizes    of extents, at least 1 segment
    /// @param prepare  of segments counted in the whole heap; nothing where there is nothing to be prepared
    growth(backing& memory, std::vector<segment_run> ranges, extent_sizes sizes, preparation prepare = {});
    ~growth() { stop(); }
    growth(const growth&) = delete;
    growth& operator=(const growth&) = delete;

    [[nodiscard]] growth_line& line(std::size_t shard) { return lines_[shard]; }
    /// Says that no more than so many segments can be committed at once, by all shards together, and whether that is as
    /// many as there are addresses for, or what the budgets allow. Before the services are.
    void limit(std::uint32_t segments, bool by_range = false);
    [[nodiscard]] bool is_limited_by_range() const { return by_range_; }
    /// Segments that the device's budget still has room for. Any thread.
    [[nodiscard]] std::uint32_t device_left() const;
    /// Returns true if the shard's last commit failed because the budgets are spent, and nothing has been released
    /// since: another commit would fail too.
    [[nodiscard]] bool is_spent(std::size_t shard) const {
        return is_of_budgets(why_failed(shard)) &&
               lines_[shard].failed_at.load<simt::order::relaxed>() == given_up_.load<simt::order::relaxed>();
    }
    /// Returns true if the shard's last commit failed and no memory has been released since that could make a retry
    /// succeed.
    [[nodiscard]] bool has_failed(std::size_t shard) const {
        const failure_reason why = why_failed(shard);
        return why != failure_reason::none && (!is_of_budgets(why) || is_spent(shard));
    }
    /// Returns whether the backing's call under way began more than `patience_ns` ago: another call of the process may
    /// hold it up until kernels have ended, and nothing is committed meanwhile, for any shard. Any thread. Cost: two
    /// loads, and a reading of the clock while a call is under way.
    [[nodiscard]] bool is_blocked(std::uint64_t patience_ns) const {
        const std::uint64_t since = busy_since_.load<simt::order::relaxed>();
        return since != 0 && simt::clock_ns() - since > patience_ns;
    }
    /// Whether memory can be taken back.
    [[nodiscard]] bool can_release() const { return memory_.can_decommit(); }
    /// Whether what nobody has is to be given up at once; extents are single segments then.
    [[nodiscard]] bool releases_at_once() const { return at_once_; }

    /// Asks that `segments` of a shard's range have been committed so far, ever, as requests wait for them, also where
    /// a commit has failed. Called by its service; never waits.
    void want(std::size_t shard, std::uint64_t segments);
    /// The same ahead of demand: where a commit has failed nothing is tried again, and what is committed beyond the
    /// need is at most an eighth of what the device has free then. So two processes that see the same free memory leave
    /// each other some.
    void want_ahead(std::size_t shard, std::uint64_t segments);
    /// Takes back what was wanted beyond `segments`, so far, ever. Called by its service.
    void want_no_more(std::size_t shard, std::uint64_t segments) {
        lines_[shard].wanted.store<simt::order::relaxed>(segments);
    }
    /// Asks that an extent be decommitted that was committed so, and that nobody has. Called by its service; never
    /// waits. False where too many are under way.
    [[nodiscard]] bool release(std::size_t shard, const extent& e);
    /// Has the thread look again, as there is room in a ring that was full.
    void wake();

    /// Decommits what was released, and commits one extent if one is wanted; whether it did anything. What the thread
    /// does in its loop.
    bool step();

    /// The thread's loop: does what is wanted until `stop`.
    void run();
    /// Starts the thread. Without it, `step` or `run` is to be called.
    void start();
    /// Ends the thread after the call under way.
    void stop();

    /// The last error of the backing, if there was one.
    [[nodiscard]] absl::Status last_error() const;

private:
    /// Addresses of a line that have no memory: the growth thread's own.
    using gaps = std::map<std::uint32_t, std::uint32_t>;  // first -> count

    /// A run that is wanted in one piece: where it goes on, and how much of it is missing.
    struct piece {
        std::uint32_t next = 0;
        std::uint32_t missing = 0;
    };

    [[nodiscard]] failure_reason why_failed(std::size_t shard) const {
        return static_cast<failure_reason>(lines_[shard].failed.load<simt::order::acquire>());
    }
    static bool is_of_budgets(failure_reason why) {
        return why == failure_reason::out_of_memory_device_budget || why == failure_reason::out_of_memory_host_budget;
    }
    bool decommit_released(std::size_t shard);
    bool decommit_all();
    [[nodiscard]] segment_run take_addresses(std::size_t shard, std::uint32_t count);
    bool commit_wanted(std::size_t shard);
    [[nodiscard]] std::uint32_t choose_size(const growth_line& line, std::uint64_t have, std::uint64_t wanted) const;
    void note_failure(growth_line& line, commit_outcome why);
    commit_outcome commit(segment_run* run);
    commit_outcome commit_once(segment_run run);
    void begin_call() { busy_since_.store<simt::order::relaxed>(simt::clock_ns() | 1); }
    void end_call() { busy_since_.store<simt::order::relaxed>(0); }
    void note(absl::Status error);

    backing& memory_;
    extent_sizes sizes_;
    preparation prepare_;
    bool at_once_;
    bool by_range_ = false;
    std::vector<growth_line> lines_;
    std::vector<gaps> gaps_;
    std::vector<piece> pieces_;
    simt::host_word<std::uint32_t> signal_{0};
    /// When the backing's call under way began, in ns; 0: there is none.
    simt::host_word<std::uint64_t> busy_since_{0};
    simt::host_word<std::uint32_t> given_up_{0};  ///< extents, by all shards
    std::uint32_t seen_ = 0;                      ///< of those, that were decommitted before anything was committed
    simt::host_word<std::uint32_t> stopping_{0};
    mutable std::mutex error_mutex_;
    absl::Status error_;
    std::thread thread_;
};

}  // namespace orchard
