// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "host/extent_map.hpp"
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
    single_writer_counter refused;  ///< posts that made no sense: a double return
    single_writer_counter parked;   ///< grants that had to wait for growth
    single_writer_counter portions_granted;
    single_writer_counter portion_blocks;    ///< segments that hold them
    single_writer_counter segments_granted;  ///< those that hold portions too
    single_writer_counter peak_segments_granted;
    single_writer_counter segments_free;
    single_writer_counter segments_committed;
    single_writer_counter segments_on_host;  ///< of those
    single_writer_counter peak_segments_committed;
    single_writer_counter longest_free_run;   ///< segments, when `publish_longest_run` was called last
    single_writer_counter segments_released;  ///< given up to be decommitted so far
};

/// How a service is to work.
struct service_settings {
    /// Segments kept committed and free at the least; 0: memory is committed on demand alone. Otherwise a quarter of
    /// what is granted is kept so, less what the device caches.
    std::uint32_t ahead = 0;
    std::uint32_t cached = 0;  ///< segments that the device keeps in its segment cache
    portion_policy policy = portion_policy::packed;
    /// How long a commit may be under way before requests that need one are refused.
    std::uint64_t patience_ns = ~std::uint64_t{0};
};

/// Answers the posts of one shard: finds segments in the OR-tree and places for tails in the portion tree, keeps the
/// directory, asks for growth ahead of demand and parks what cannot be answered before memory is committed. Its request
/// path touches memory only: no CUDA call, no allocation, no lock. One thread calls `poll_once`; the counters may be
/// read by others.
class segment_service {
public:
    segment_service(mailbox_server server, growth& grower, std::size_t shard, const service_settings& settings = {});

    /// Takes up what growth has committed, answers what has been posted (at most `batch` posts); how many posts.
    std::uint32_t poll_once();

    /// Gives up committed memory that is not granted, to be decommitted, and returns how many segments: whole extents,
    /// those on the host first, then the highest, as long as `keep` free segments remain; nothing while a request waits
    /// for memory; fewer than there are where many are under way. On the service's thread.
    std::uint32_t release_unused(std::uint32_t keep);
    /// As `release_unused`, of all but the least that is kept ahead; whether there is no more to be given up. On the
    /// service's thread.
    bool decay();
    /// Segments that are kept committed and free.
    [[nodiscard]] std::uint32_t ahead() const;
    /// Has so many segments committed for the host, `longest` of what is missing in one piece; they are once
    /// `growth_line::committed` has come to the answer. Until as many calls of `end_want` nothing is given up. On the
    /// service's thread.
    std::uint64_t begin_want(std::uint32_t segments, std::uint32_t longest = 0);
    void end_want();
    /// Has no more committed than requests wait for. On the service's thread.
    void want_no_more();

    /// Takes `count` segments with a tail of `leaves` for the host, as a grant to the device; nothing where there is no
    /// such place. On the service's thread.
    std::optional<mailbox::grant> take_for_host(std::uint32_t count, leaf_count leaves);
    /// What `take_for_host` gave, back. On the service's thread.
    void give_back_from_host(const mailbox::grant& g);

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
    /// Whether of what was given up so far, ever, so much has been decommitted, or could not be; all of it. Any thread.
    [[nodiscard]] bool has_released(std::uint64_t segments) const {
        return line_.decommitted.load<simt::order::acquire>() + line_.taken_again.load<simt::order::acquire>() >=
               segments;
    }
    [[nodiscard]] bool has_released_all() const { return has_released(counters_.segments_released.get()); }
    [[nodiscard]] const service_counters& counters() const { return counters_; }
    /// Free segments of the longest run. As `validate`.
    [[nodiscard]] std::uint32_t longest_free_run() const { return tree_.longest_run(); }
    /// Counts the longest run of free segments, which takes up to 10 ns for each word of the tree that has changed;
    /// also done when memory was committed or a grant is refused. On the service's thread.
    void publish_longest_run() { counters_.longest_free_run.set(longest_free_run()); }

    /// Posts answered in one poll at most, so that growth and the heartbeat get their turn.
    static constexpr std::uint32_t batch = 256;

private:
    struct parked_request {
        std::uint32_t slot;
        std::uint32_t tag;
        std::uint32_t count;
        leaf_count leaves;  ///< of the tail
        /// Segments that must be free at the worst.
        [[nodiscard]] std::uint32_t most_segments() const { return count + (to_underlying(leaves) != 0 ? 1 : 0); }
    };
    /// What it takes, as far as is known before its place is.
    [[nodiscard]] std::uint64_t leaves_of(const parked_request& p) const {
        const leaf_count tail =
            to_underlying(p.leaves) != 0 ? reserved_for(portions_.shape().policy, p.leaves) : p.leaves;
        return std::uint64_t{p.count} * leaves_per_segment + to_underlying(tail);
    }
    /// Returns whether memory is being gathered for a request.
    [[nodiscard]] bool is_awaited() const { return !parked_.empty() || host_wants_ != 0; }

    [[nodiscard]] bool is_closing() const { return closing_.load<simt::order::acquire>() != 0; }
    void handle(const mailbox::request& p);
    void handle_grant(const mailbox::request& p);
    void handle_refill(const mailbox::request& p);
    void handle_give_back(const mailbox::request& p);
    bool try_grant(const parked_request& p);
    std::optional<portion> find_place(std::uint32_t count, leaf_count leaves);
    std::optional<segment_index> take_segments(std::uint32_t count);
    bool take_back(segment_run local);
    bool take_back_portion(segment_index block, leaf_index first);
    std::optional<portion> place_tail(leaf_count leaves);
    void answer(const parked_request& p, segment_index first, std::uint32_t count);
    void reject_grant(const parked_request& p);
    /// Something has become free: requests that wait are tried again, and device threads ask again although a commit is
    /// blocked.
    void note_room();
    /// Before a request is refused that was tried: where a commit is blocked, tells device threads not to ask for as
    /// much.
    void note_blocked(const parked_request& p);
    void park(const parked_request& p);
    void want_for_parked();
    void retry_parked();
    [[nodiscard]] std::uint64_t ever(std::uint64_t segments) const;
    void take_up_growth();
    bool release(const extent& e);
    void release_at_once(segment_run local);
    void keep_ahead();
    void publish_counts();

    mailbox_server server_;
    growth& grower_;
    std::size_t shard_;
    growth_line& line_;
    std::uint32_t first_;
    service_settings settings_;
    std::uint64_t taken_up_ = 0;   ///< segments that growth has committed so far, ever
    std::uint64_t refused_ = 0;    ///< of `line_.taken_again`, when `decay` last looked
    std::uint64_t released_ = 0;   ///< of those, given up so far, ever
    std::uint32_t committed_ = 0;  ///< the others
    or_tree tree_;
    segment_directory directory_;
    extent_map extents_;
    portion_tree portions_;
    std::vector<parked_request> parked_;  // capacity: all slots, from the start
    std::uint64_t parked_leaves_ = 0;     ///< that they ask for, all together
    std::uint32_t longest_ = 0;           ///< segments that one of them must have in one piece
    bool may_fit_ = false;                ///< something has become free since they were last tried
    std::uint32_t host_wants_ = 0;        ///< calls of `begin_want` that have not ended
    std::uint32_t host_longest_ = 0;      ///< as `longest_`, of those
    simt::host_word<std::uint32_t> closing_{0};
    service_counters counters_;
};

}  // namespace orchard
