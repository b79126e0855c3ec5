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
#include "host/run_ring.hpp"
#include "uvm/backing.hpp"

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
    simt::host_word<std::uint64_t> decommitted{0};  ///< so far, ever; written by the growth thread
    simt::host_word<std::uint64_t> taken_again{0};  ///< that could not be decommitted, and went back; as that
    simt::host_word<std::uint64_t> wanted{0};       ///< written by the service
    simt::host_word<std::uint32_t> failed{0};       ///< why a commit failed; cleared when the service wants more again
    simt::host_word<std::uint32_t> failed_at{0};    ///< what `given_back` was then
    run_ring ready;
    run_ring released;
};

/// Sizes of extents, in segments. They grow with what is committed: an eighth of it, within these.
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
    /// Says that no more than so many segments can be committed at once, by all shards together. Before the services
    /// are.
    void limit(std::uint32_t segments);
    /// Whether a shard's last commit failed as the budgets are spent, and nothing has been given back since: another
    /// would fail too.
    [[nodiscard]] bool is_spent(std::size_t shard) const {
        const growth_line& line = lines_[shard];
        const auto why = static_cast<failure_reason>(line.failed.load<simt::order::acquire>());
        return (why == failure_reason::out_of_memory_device_budget ||
                why == failure_reason::out_of_memory_host_budget) &&
               line.failed_at.load<simt::order::relaxed>() == given_back_.load<simt::order::relaxed>();
    }
    /// Whether memory can be taken back.
    [[nodiscard]] bool can_release() const { return memory_.can_decommit(); }
    /// Whether what nobody has is to be given up at once; extents are single segments then.
    [[nodiscard]] bool releases_at_once() const { return at_once_; }

    /// Asks that `segments` of a shard's range have been committed so far, ever. Called by its service; never waits.
    void want(std::size_t shard, std::uint64_t segments);
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

    bool decommit_released(std::size_t shard);
    bool commit_wanted(std::size_t shard);
    [[nodiscard]] std::uint32_t choose_size(const growth_line& line, std::uint64_t missing) const;
    commit_outcome commit(segment_run* run);
    void note(absl::Status error);

    backing& memory_;
    extent_sizes sizes_;
    preparation prepare_;
    bool at_once_;
    std::vector<growth_line> lines_;
    std::vector<gaps> gaps_;
    simt::host_word<std::uint32_t> signal_{0};
    simt::host_word<std::uint32_t> given_back_{0};  ///< decommits of all shards
    simt::host_word<std::uint32_t> stopping_{0};
    mutable std::mutex error_mutex_;
    absl::Status error_;
    std::thread thread_;
};

}  // namespace orchard
