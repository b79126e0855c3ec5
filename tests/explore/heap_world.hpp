// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A whole heap inside a simulation: device state, a mailbox, a service and a growth thread as actors.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>

#include "device/guarded_free.cuh"
#include "device/heap_ref.cuh"
#include "device/published/published_view.cuh"
#include "device/reclaim/acquire.cuh"
#include "host/growth.hpp"
#include "host/segment_service.hpp"
#include "runtime/heap/heap_counts.hpp"
#include "tests/explore/scenario.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard::explore {

/// Zero-filled memory that takes no physical memory until it is touched.
class arena {
public:
    explicit arena(std::size_t bytes);
    ~arena();
    arena(const arena&) = delete;
    arena& operator=(const arena&) = delete;

    /// `count` objects side by side, aligned to 128 bytes.
    template <class T>
    T* place(std::size_t count) {
        used_ = (used_ + 127) / 128 * 128;
        T* const result = reinterpret_cast<T*>(base_ + used_);
        used_ += count * sizeof(T);
        return result;
    }
    [[nodiscard]] char* base() const { return base_; }

private:
    char* base_;
    std::size_t bytes_;
    std::size_t used_ = 0;
};

/// A backing whose commits take some logical time, and fail as often as requested.
class slow_backing final : public backing {
public:
    slow_backing(char* base, std::uint32_t segments, std::uint32_t committed_at_start)
        : base_{base}, segments_{segments}, at_start_{committed_at_start} {}

    [[nodiscard]] char* base() const override { return base_; }
    [[nodiscard]] std::uint32_t segments() const override { return segments_; }
    [[nodiscard]] std::uint32_t committed_at_start() const override { return at_start_; }
    commit_outcome commit(segment_run run) override;
    [[nodiscard]] bool can_decommit() const override { return true; }
    absl::Status decommit(segment_run run) override;
    [[nodiscard]] memory_use use() const override;
    absl::StatusOr<void*> allocate_metadata(std::size_t) override;
    absl::StatusOr<void*> allocate_host_visible(std::size_t) override;
    [[nodiscard]] void* stream() const override { return nullptr; }
    absl::Status read(void* to, const void* from, std::size_t bytes) override;
    absl::Status write(void* to, const void* from, std::size_t bytes) override;

    int failures_left = 0;             ///< commits that will fail before one succeeds
    std::uint32_t commit_ns = 20'000;  ///< logical time that a commit takes
    int commits_before_block = -1;     ///< after so many commits the next one does not end; negative: all end
    bool is_blocked = false;           ///< one does not end until this is false again
    std::uint32_t committed = 0;       ///< segments, beyond those of the start

    /// Returns true if all of a run is committed now.
    [[nodiscard]] bool has(segment_run run) const;

private:
    char* base_;
    std::uint32_t segments_;
    std::uint32_t at_start_;
    std::map<std::uint32_t, std::uint32_t> extents_;  // first -> count
};

/// The parameters of a heap in a simulation.
struct heap_setup {
    std::uint32_t segments = 16;
    std::uint32_t committed_at_start = 4;
    std::uint32_t extent = 2;        ///< segments a commit
    std::uint32_t ahead = 1;         ///< segments kept committed and free
    std::uint32_t apart_one_of = 0;  ///< requests for segments of which one gets an extent of its own; 0: none does
    mailbox::shape shape{64, 8, 1};  ///< enough for all groups; other scenarios test few slots or tags
    std::uint32_t cache_target = 4;
    std::uint32_t stored_rows = 1;  ///< of the chunk store, which a heap has if its segment cache has a target
    portion_policy portions_by = portion_policy::packed;
    tail_policy tails_by = tail_policy::adjacent;
    std::uint32_t refill_batch = 2;
    std::uint64_t timeout_ns = 100'000'000;  ///< beyond what delays add up to
    std::uint64_t lost_after_ns = 20'000;    ///< of a poller
    std::uint64_t reclaim_patience_ns = 200'000;
    bool service_lives = true;             ///< false: no request is answered
    bool gives_back = false;               ///< the service gives up unused extents now and then
    bool hardened = false;                 ///< blocks have guards, and wait in a quarantine of four when they are freed
    device::event_ring* events = nullptr;  ///< blocks are reported there
    bool unzeroed = false;  ///< metadata of segments holds garbage at first: `heap_view::clears_metadata`
};

class heap_world {
public:
    heap_world(world& w, const heap_setup& setup = {});
    /// The simulation's actors, which use all of this, end first.
    ~heap_world() { s.end_all(); }
    heap_world(const heap_world&) = delete;
    heap_world& operator=(const heap_world&) = delete;

    /// Allocates as `heap_ref::malloc` and checks that no other owner has any byte of the block. Writes the first and
    /// last words, so that the next owner's accesses must be ordered after these. Returns null if malloc does.
    void* take(std::uint64_t bytes);
    /// Checks that the block is as its owner left it, and frees it.
    void give(void* p, std::uint64_t bytes);

    /// The checks of `take` and `give`, without malloc and free, for memory from another source. From `mark` to
    /// `unmark`, no other owner may have any byte of it.
    void mark(void* p, std::uint64_t bytes);
    void unmark(void* p, std::uint64_t bytes);

    /// A run of `k` segments for the group, which its leader marks. All lanes of a converged group.
    failure_reason take_run(simt::lane_mask mask, std::uint32_t k, segment_run* run);
    /// The leader unmarks it, and the group frees it.
    void give_run(simt::lane_mask mask, segment_run run);

    /// Closes the heap, as `heap::close` does. An actor calls it.
    void close();

    /// Runs a kernel of one group that empties the quarantine, retires the empty slabs of some classes, returns the
    /// segment cache, and delivers outstanding responses. Returns false if the run has failed.
    bool settle(std::initializer_list<std::uint32_t> classes);
    /// Runs, after `settle`, the validators, and checks that all structures agree.
    /// @param expect_granted segments that are in use
    /// @param expect_refused requests that the service could not carry out
    /// @param expect_invalid frees of addresses that were not allocated
    void check_clean(std::uint32_t expect_granted, std::uint32_t expect_refused = 0, std::uint64_t expect_invalid = 0);
    /// Checks the same for a heap without blocks; in some runs then that all memory can be had again, which relies on
    /// no validator.
    void check_empty();
    /// Checks that the device counts no chunk as alive, and as many frees as allocations.
    void check_counts();

    /// Allocations that failed, and the reason of the first one.
    [[nodiscard]] std::uint64_t failures() const;
    [[nodiscard]] std::uint64_t failures(failure_reason why) const;
    [[nodiscard]] failure_reason first_failure() const;

    [[nodiscard]] std::uint64_t sum(device::counter c) const;
    /// Returns the number of requests that the service could not carry out.
    [[nodiscard]] std::uint64_t refused() const;
    /// Returns the heap's counts of requests; call it while no kernel runs.
    [[nodiscard]] request_counts requests();
    [[nodiscard]] std::uint32_t slots_claimed() const;

    simt::explore::simulation& s;
    heap_setup setup;

private:
    void poll_for_ever();
    void take_everything();

    arena user_;
    arena metadata_;

public:
    device::published_view view;
    heap_ref ref;
    slow_backing memory;
    growth grower;
    segment_service service;
    simt::explore::actor_id service_actor = 0;
    simt::explore::actor_id growth_actor = 0;
};

}  // namespace orchard::explore
