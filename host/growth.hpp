// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "device/simt/atomic.cuh"
#include "uvm/backing.hpp"

namespace orchard {

/// How far one shard's range is committed, shared by its service and the growth thread. Segments count from the
/// range's first; they are committed lowest first.
struct alignas(64) growth_line {
    segment_run range;
    simt::host_word<std::uint32_t> committed{0};  ///< written by the growth thread
    simt::host_word<std::uint32_t> wanted{0};     ///< written by the service; only grows
    simt::host_word<std::uint32_t> failed{0};     ///< 1: a commit failed; cleared when the service wants more again
};

/// Commits memory ahead of demand, in a thread of its own: a commit may take long without delaying any request.
class growth {
public:
    /// @param extent segments committed in one call, at least 1
    growth(backing& memory, std::vector<segment_run> ranges, std::uint32_t extent);
    ~growth() { stop(); }
    growth(const growth&) = delete;
    growth& operator=(const growth&) = delete;

    [[nodiscard]] growth_line& line(std::size_t shard) { return lines_[shard]; }

    /// Asks that [0, segments) of a shard's range be committed. Called by its service; never waits.
    void want(std::size_t shard, std::uint32_t segments);

    /// Commits one extent if one is wanted; whether it did anything. What the thread does in its loop.
    bool step();

    /// The thread's loop: commits what is wanted until `stop`.
    void run();
    /// Starts the thread. Without it, `step` or `run` is to be called.
    void start();
    /// Ends the thread after the commit under way.
    void stop();

    /// The last commit's error, if one failed.
    [[nodiscard]] absl::Status last_error() const;

private:
    backing& memory_;
    std::uint32_t extent_;
    std::vector<growth_line> lines_;
    simt::host_word<std::uint32_t> signal_{0};
    simt::host_word<std::uint32_t> stopping_{0};
    mutable std::mutex error_mutex_;
    absl::Status error_;
    std::thread thread_;
};

}  // namespace orchard
