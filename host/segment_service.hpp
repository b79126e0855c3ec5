// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The service of a heap: it answers the requests of kernels from the host's structures.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "host/events/reports.hpp"
#include "host/extent_map.hpp"
#include "host/growth.hpp"
#include "host/mailbox_server.hpp"
#include "host/or_tree.hpp"
#include "host/portion_tree.hpp"
#include "host/segment_directory.hpp"
#include "host/single_writer_counter.hpp"

namespace orchard {

/// The counters of a service. The events count since the heap was created; the levels (`segments_free` and the like)
/// are as of the end of the service's last turn that did any work.
struct service_counters {
    single_writer_counter polls;              ///< turns
    single_writer_counter busy_polls;         ///< polls that found a request
    single_writer_counter grants;             ///< requests for memory that were granted
    single_writer_counter pings;              ///< signs of life, and requests of an unknown kind
    single_writer_counter requests_rejected;  ///< those that made no sense, such as a double return
    single_writer_counter requests_parked;    ///< those that had to wait for growth
    single_writer_counter portions_granted;   ///< tails in VA blocks, now
    single_writer_counter portion_blocks;     ///< segments that hold portions
    single_writer_counter segments_granted;   ///< including those that hold portions
    single_writer_counter peak_segments_granted;
    single_writer_counter segments_free;
    single_writer_counter segments_committed;
    single_writer_counter segments_on_host;  ///< those of them on the host
    single_writer_counter peak_segments_committed;
    single_writer_counter longest_free_run;   ///< in segments, as of the last call of `publish_longest_run`
    single_writer_counter segments_released;  ///< given up for decommitting so far
    power_histogram queue_depth;              ///< requests found by each poll that found any
    /// Nanoseconds from the reading of a poll's requests to the sending of their responses, of one of
    /// `segment_service::polls_per_measure` such polls. Requests that are parked are answered later.
    power_histogram answer_ns;
};

/// The settings of a service.
struct service_settings {
    /// The least number of segments to keep committed and free. 0: memory is committed on demand only. Otherwise at
    /// least a quarter of the granted segments is kept ahead, less those in the device's segment cache.
    std::uint32_t ahead = 0;
    std::uint32_t cached = 0;  ///< segments that the device's segment cache should hold
    portion_policy policy = portion_policy::packed;
    /// Time after which a commit under way counts as blocked, so that requests that need one fail.
    std::uint64_t patience_ns = ~std::uint64_t{0};
    /// One of so many requests for whole segments gets an extent of its own (`growth::want_apart`). 0: none does.
    std::uint32_t apart_one_of = 0;
};

/// Serves the requests of a heap. It finds segments in the OR-tree and places for tails in the portion tree, keeps the
/// directory, asks for growth ahead of demand, and parks requests that must wait for memory to be committed. Its
/// request path only accesses memory: it makes no CUDA call, no allocation, and takes no lock.
///
/// One thread, the service thread, calls its functions, except those marked otherwise. Any thread may read the
/// counters.
///
///     a grant:   arrives --a place is found-----------------> granted
///                  |
///                  +--no place, no commit can help----------> rejected, with the reason
///                  +--no place, but a commit may help-------> parked --a place is found later--------> granted
///                                                               +--a commit failed, is blocked, ...--> rejected
///
/// Parked requests do not hold up later ones: a later request that finds a place is granted at once.
class segment_service {
public:
    /// Creates a service for all segments of `grower`, and takes over the memory that is committed already. Allocates
    /// all memory that the service will ever need. `grower` must outlive it, and has no other service.
    segment_service(mailbox_server server, growth& grower, const service_settings& settings = {});

    /// Reports events and activities from now on: `grant`, `give_back`, `park` and `refuse`; `serve`, and waits. Called
    /// before the first turn. Nothing is reported without this call.
    void report_to(const reports& to) { reports_ = to; }
    [[nodiscard]] const reports& reporting() const { return reports_; }

    /// One turn of the service: raises the heartbeat, takes over the memory that growth has committed, tries parked
    /// requests again, then serves at most `batch` requests and sends the responses. Returns the number of requests
    /// served; 0 tells the thread that it may back off. Cost without traffic: a few loads and stores, one of them to
    /// host-visible memory.
    std::uint32_t poll_once();

    /// Gives up committed memory that is not granted, so that growth decommits it. Returns the number of segments.
    /// Whole extents are given up, those on the host first, since kernels reach them over the bus only, then the
    /// highest, as long as `keep` free segments remain. Withdraws growth ahead of demand first, which would otherwise
    /// commit the same memory again. Gives up nothing while a request waits for memory, and less than possible if many
    /// decommits are under way. Cost: a walk over the extents, a few stores for each one given up; the decommits
    /// themselves are the growth thread's work.
    std::uint32_t release_unused(std::uint32_t keep);
    /// Gives up unused memory, except the least amount that is kept ahead (`service_settings::ahead`). Returns true if
    /// there is nothing more to give up; false means that the caller should call it again later, because some was given
    /// up just now, or decommits or a commit are under way. The service thread calls it after a time without requests.
    bool decay();
    /// Returns the number of segments to be kept committed and free: the setting, or a quarter of the granted segments
    /// if that is more. Segments in the device's segment cache count as granted here although they are free for
    /// kernels, so that the cache's target is subtracted. An example with ahead = 64 and cached = 64: with 1,000
    /// segments granted, 250 - 64 = 186.
    [[nodiscard]] std::uint32_t ahead() const;
    /// Asks growth to commit until `segments` segments are committed, `longest` of the missing ones in one piece, for a
    /// thread of the host that waits. They are committed once `growth_line::committed` reaches the returned value.
    /// Until the matching `end_want`, nothing is given up: otherwise `decay`, or another thread that trims, could take
    /// the memory away before the waiting thread sees it. Calls may overlap; they are counted.
    std::uint64_t begin_want(std::uint32_t segments, std::uint32_t longest = 0);
    /// Ends a `begin_want`, whether or not the memory has come.
    void end_want();
    /// Withdraws growth that is only ahead of demand: no more is committed than requests wait for. Does nothing while a
    /// request or the host waits.
    void want_no_more();

    /// Takes `count` segments with a tail of `leaves` for the host, as a grant to the device would, and returns the
    /// place. Returns nothing if there is no such place, or if the service is closing. It does not wait for memory; the
    /// caller asks for more by `begin_want` and tries again.
    std::optional<mailbox::grant> take_for_host(std::uint32_t count, leaf_count leaves);
    /// Takes back a grant that `take_for_host` returned, and in which no block is in use.
    void give_back_from_host(const mailbox::grant& g);

    /// Closes the service: every later grant, the parked ones first, is answered `closing`. Returns are still accepted,
    /// since kernels may free until they end. Any thread may call it, several times; the service sees it in its next
    /// turn.
    void close() { closing_.store<simt::order::release>(1); }

    /// Checks the OR-tree, the directory, the portions and the counts against each other. Returns OK, or Internal with
    /// the first fault. The service thread calls it, or any thread while that does not run. Cost: O(segments).
    [[nodiscard]] absl::Status validate() const;

    /// Returns true if segment `i` is granted; false for one that the heap does not have. Called as `validate`.
    [[nodiscard]] bool is_granted(segment_index i) const;
    /// Returns the state of segment `i`. Called as `validate`.
    [[nodiscard]] segment_state state_of(segment_index i) const { return directory_.state(i); }
    /// Calls `f(extent)` for each committed extent, in order. Called as `validate`.
    template <class F>
    void for_each_extent(F f) const {
        extents_.for_each(f);
    }
    /// Calls `f(portion)` for each granted portion. Called as `validate`.
    template <class F>
    void for_each_portion(F f) const {
        portions_.for_each(f);
    }
    /// Returns the number of segments of the heap, committed or not. Any thread may call it.
    [[nodiscard]] std::uint32_t segments() const { return line_.segments; }
    /// Returns true if at least `segments` of all segments ever given up have been decommitted, or could not be. Any
    /// thread may call it. Both counts are totals, so that a thread can wait for the decommits that it has asked for,
    /// whatever is given up later.
    [[nodiscard]] bool has_released(std::uint64_t segments) const {
        // The acquires pair with the releases in `growth::decommit_released`.
        return line_.decommitted.load<simt::order::acquire>() + line_.taken_again.load<simt::order::acquire>() >=
               segments;
    }
    /// Returns true if no decommit is under way. As `has_released`.
    [[nodiscard]] bool has_released_all() const { return has_released(counters_.segments_released.get()); }
    [[nodiscard]] const service_counters& counters() const { return counters_; }
    /// Returns the length of the longest run of free segments. Called as `validate`.
    [[nodiscard]] std::uint32_t longest_free_run() const { return tree_.longest_run(); }
    /// Stores the length of the longest free run in the counters. It is the one counter that takes time to compute, so
    /// that it is not part of every turn. Cost: up to 10 ns for each word of the tree that has changed. Also done after
    /// memory was committed and when a grant is rejected.
    void publish_longest_run() { counters_.longest_free_run.set(longest_free_run()); }

    /// The most requests served in one poll, so that growth and the heartbeat are served, too.
    static constexpr std::uint32_t batch = 256;
    /// Of so many polls that found a request, one is measured: two reads of the clock take as long as half a request.
    static constexpr std::uint32_t polls_per_measure = 16;

private:
    /// A grant that waits, without its word in the ring: the slot and its tag are enough to answer it.
    struct parked_request {
        std::uint32_t slot;
        std::uint32_t tag;
        std::uint32_t count;
        leaf_count leaves;       ///< leaves of the tail
        advice_code advice = 0;  ///< advice for the segments
        /// Returns the number of free segments in one piece that suffices for the request in any case: a tail may need
        /// a segment of its own, or fit into a block that already holds portions.
        [[nodiscard]] std::uint32_t most_segments() const { return count + (to_underlying(leaves) != 0 ? 1 : 0); }
    };
    /// Segments that are granted as far as the structures are concerned, and whose group waits until growth has advised
    /// the driver about them.
    struct advised_grant {
        parked_request request;
        segment_run run;
        std::uint64_t since_ns = 0;  ///< by `simt::clock_ns`
    };
    /// Returns the number of leaves that the request takes, as far as it is known before a place is found. Their sum
    /// over all parked requests is the memory that growth is asked for: 32 tails of one leaf need one segment, not 32.
    [[nodiscard]] std::uint64_t leaves_of(const parked_request& p) const {
        const leaf_count tail =
            to_underlying(p.leaves) != 0 ? reserved_for(portions_.shape().policy, p.leaves) : p.leaves;
        return std::uint64_t{p.count} * leaves_per_segment + to_underlying(tail);
    }
    /// Returns true if the device or the host waits for memory to be committed.
    [[nodiscard]] bool is_awaited() const { return !parked_.empty() || apart_ || host_wants_ != 0; }

    /// The acquire pairs with the release in `close`.
    [[nodiscard]] bool is_closing() const { return closing_.load<simt::order::acquire>() != 0; }
    // The handling of each kind of request, and the steps that they share. Each is described at its definition.
    [[nodiscard]] std::size_t exact_grants(std::span<const mailbox::request> from) const;
    bool grant_together(std::span<const mailbox::request> requests);
    void enter_tails();
    void handle(const mailbox::request& p);
    void handle_grant(const mailbox::request& p);
    void serve(const parked_request& p);
    void handle_refill(const mailbox::request& p);
    void handle_extend(const mailbox::request& p);
    void handle_give_back(const mailbox::request& p);
    bool try_grant(const parked_request& p);
    std::optional<portion> find_place(std::uint32_t count, leaf_count leaves);
    std::optional<segment_index> take_segments(std::uint32_t count);
    bool take_back(segment_run run);
    bool take_back_portion(segment_index block, leaf_index first);
    std::optional<portion> place_tail(leaf_count leaves);
    void respond(const parked_request& p, segment_index first, std::uint32_t count);
    void report_grant(const portion& place, std::uint32_t count, std::uint32_t slot);
    void report(event_kind kind, std::uint64_t at, std::uint64_t bytes, std::uint32_t detail);
    void report_wait(const parked_request& p);
    void report_wait_end(const parked_request& p);
    [[nodiscard]] std::uint64_t bytes_of(const parked_request& p) const;
    void reject_grant(const parked_request& p);
    /// Notes that memory became free: parked requests are tried again in the next turn, and device threads may ask
    /// again even if a commit is blocked.
    void note_room();
    /// Called before a request is rejected that could not be granted: refills get nothing until there is memory again
    /// (`handle_refill`). If a commit is blocked, tells device threads not to ask for as much, by the smallest request
    /// that was rejected for it.
    void note_lack(const parked_request& p);
    void park(const parked_request& p);
    [[nodiscard]] bool is_sampled(const parked_request& p);
    void begin_advice(const parked_request& p, segment_index first);
    void hand_over_advice();
    void end_advice();
    void give_up_advised(segment_run run);
    void hand_over_given_up();
    void park_apart(const parked_request& p);
    void grant_apart(segment_run extent);
    void retry_apart();
    void want_for_parked();
    void retry_parked();
    [[nodiscard]] std::uint64_t ever(std::uint64_t segments) const;
    void add_extent(const extent& e);
    void take_up_growth();
    bool release(const extent& e);
    void release_at_once(segment_run run);
    void keep_ahead();
    void publish_counts();

    mailbox_server server_;
    growth& grower_;
    growth_line& line_;  ///< the words in `grower_`
    service_settings settings_;
    // taken_up_ = released_ + committed_. The totals are compared with `growth_line`'s; `committed_` is the current
    // amount.
    std::uint64_t taken_up_ = 0;   ///< segments committed so far, in total, as taken over from growth
    std::uint64_t rejected_ = 0;   ///< `line_.taken_again` as `decay` last saw it
    std::uint64_t released_ = 0;   ///< those of them given up so far
    std::uint32_t committed_ = 0;  ///< segments committed now: the rest
    or_tree tree_;                 ///< free segments
    segment_directory directory_;  ///< the state of each segment
    extent_map extents_;           ///< committed extents, for decommits
    portion_tree portions_;        ///< tails
    std::array<mailbox::request, batch> requests_{};  ///< those of a turn
    std::vector<portion> tails_;                      ///< granted, and not in `portions_` yet; only within a turn
    std::optional<parked_request> apart_;             ///< waits for an extent of its own; not in `parked_`
    // Segments with advice of their own (segment_service_advice.cpp). The vectors are reserved in the constructor.
    std::vector<advised_grant> advising_;  ///< in order
    std::uint64_t answered_ = 0;           ///< advised grants answered, in total: those before `advising_`
    std::uint64_t handed_over_ = 0;        ///< advised grants handed over to growth, or skipped, in total
    std::uint64_t skipped_ = 0;            ///< those of them that growth was never asked to advise, in total
    std::vector<bool> advised_;            ///< of each segment: it is granted, and has advice of its own
    std::uint32_t advised_count_ = 0;
    std::vector<segment_index> given_up_;  ///< returned, out of all structures, and not handed over to growth yet
    std::uint32_t unsampled_ = 0;          ///< requests since the last one for such an extent
    std::vector<parked_request> parked_;   // reserved for all slots in the constructor, so that it never allocates
    std::uint64_t parked_leaves_ = 0;      ///< leaves that all of them ask for
    std::uint32_t longest_ = 0;            ///< segments that one of them needs in one piece
    bool may_fit_ = false;                 ///< memory became free since they were last tried
    bool has_lacked_ = false;              ///< a request was rejected for lack of memory, and less than half is free
    std::uint32_t host_wants_ = 0;         ///< calls of `begin_want` that have not ended
    std::uint32_t host_longest_ = 0;       ///< as `longest_`, for these calls
    simt::host_word<std::uint32_t> closing_{0};
    service_counters counters_;
    reports reports_;
    std::uint64_t turn_ns_ = 0;  ///< time of the first event of this turn; 0: none yet
};

}  // namespace orchard
