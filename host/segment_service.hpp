// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "host/growth.hpp"
#include "host/mailbox_server.hpp"
#include "host/or_tree.hpp"
#include "host/portion_tree.hpp"
#include "host/segment_directory.hpp"

namespace orchard {

/// A number with one writer that others may read at any time.
class single_writer_counter {
public:
    void add(std::uint64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
    void raise_to(std::uint64_t n) {
        if (n > value_.load(std::memory_order_relaxed)) {
            value_.store(n, std::memory_order_relaxed);
        }
    }
    void set(std::uint64_t n) { value_.store(n, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> value_{0};
};

/// What a service counted.
struct service_counters {
    single_writer_counter polls;
    single_writer_counter busy_polls;  ///< polls that found a post
    single_writer_counter grants;
    single_writer_counter returns;
    single_writer_counter pings;
    single_writer_counter refused;           ///< posts that made no sense: a double return
    single_writer_counter parked;            ///< grants that had to wait for growth
    single_writer_counter portions;          ///< that are granted
    single_writer_counter portion_blocks;    ///< segments that hold them
    single_writer_counter segments_granted;  ///< those that hold portions too
    single_writer_counter peak_segments_granted;
    single_writer_counter segments_free;
    single_writer_counter segments_committed;
};

/// Answers the posts of one shard: finds segments in the OR-tree and places for tails in the portion tree, keeps the
/// directory, asks for growth ahead of demand and parks what cannot be answered before memory is committed. Its request
/// path touches memory only: no CUDA call, no allocation, no lock. One thread calls `poll_once`; the counters may be
/// read by others.
class segment_service {
public:
    /// @param ahead segments kept committed and free beyond what is granted
    segment_service(mailbox_server server, growth& grower, std::size_t shard, std::uint32_t ahead,
                    portion_policy policy = portion_policy::packed);

    /// Takes up what growth has committed, answers what has been posted (at most `batch` posts); how many posts.
    std::uint32_t poll_once();

    /// From now on every grant, the parked ones first, is answered `closing`; returns are still taken. Any thread.
    void close() { closing_.store<simt::order::release>(1); }

    /// Checks OR-tree, directory and counts against each other. On the service's thread, or while it does not run.
    [[nodiscard]] absl::Status validate() const;

    /// Whether segment `i` of the whole heap is granted by this service. As `validate`.
    [[nodiscard]] bool is_granted(segment_index i) const;
    /// Calls `f(portion)` for each portion that is granted, its block counted in the whole heap. As `validate`.
    template <class F>
    void for_each_portion(F f) const {
        portions_.for_each([&](portion p) {
            p.block = p.block + first_;
            f(p);
        });
    }
    /// The segments that this service owns.
    [[nodiscard]] segment_run range() const { return line_.range; }
    [[nodiscard]] const service_counters& counters() const { return counters_; }
    /// Free segments of the longest run. As `validate`.
    [[nodiscard]] std::uint32_t longest_free_run() const { return tree_.longest_run(); }

    /// Posts answered in one poll at most, so that growth and the heartbeat get their turn.
    static constexpr std::uint32_t batch = 256;

private:
    struct parked_post {
        std::uint32_t slot;
        std::uint32_t tag;
        std::uint32_t count;
        leaf_count leaves;  ///< of the tail
        /// Segments that must be free at the worst.
        [[nodiscard]] std::uint32_t most_segments() const { return count + (to_underlying(leaves) != 0 ? 1 : 0); }
    };

    [[nodiscard]] bool is_closing() const { return closing_.load<simt::order::acquire>() != 0; }
    void handle(const mailbox::post& p);
    void handle_grant(const mailbox::post& p);
    void handle_refill(const mailbox::post& p);
    void handle_give_back(const mailbox::post& p);
    bool try_grant(const parked_post& p);
    std::optional<segment_index> take_segments(std::uint32_t count);
    bool take_back(segment_run local);
    bool take_back_portion(segment_index block, leaf_index first);
    std::optional<portion> place_tail(leaf_count leaves);
    void answer(const parked_post& p, segment_index first, std::uint32_t count);
    void refuse_grant(const parked_post& p);
    void retry_parked();
    void take_up_growth();
    void keep_ahead();
    void publish_counts();

    mailbox_server server_;
    growth& grower_;
    std::size_t shard_;
    growth_line& line_;
    std::uint32_t first_;
    std::uint32_t ahead_;
    std::uint32_t committed_ = 0;
    or_tree tree_;
    segment_directory directory_;
    portion_tree portions_;
    std::vector<parked_post> parked_;  // capacity: all slots, from the start
    simt::host_word<std::uint32_t> closing_{0};
    service_counters counters_;
};

}  // namespace orchard
