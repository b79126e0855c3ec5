// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The backing of managed memory: the UVM driver moves it, and the growth thread tells the driver which segments are
/// needed.
///
///     commit      check_free, begin_prefetch to the GPU, add     does not wait for the move
///     decommit    find, discard, remove                          waits for the discard, and so for moves before it;
///                                                                gives the heap's advice again
///     advise_segments                                            advice for granted segments, before they have
///                                                                an owner
///
/// Both are operations on one stream, in the order of the calls. Running kernels may hold it up (docs/programs.md).
///
///     commit [0, +4)     stream: | move [0, +4)            |                   returns at once; a kernel that touches
///                                                                              segment 2 before it is there faults
///     decommit [2, +1)   stream: | move [0, +4)            | discard [2, +1) | returns here: only now may segment 2
///                                                                              be committed again

#include <atomic>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "uvm/memory/committed_runs.hpp"
#include "uvm/memory/driven_backing.hpp"

namespace orchard {
namespace {

/// Managed memory, all of which exists from the start. Committing a run begins to move it to the GPU; decommitting
/// discards its contents. A move is safe beside an owner that reads and writes: the driver keeps the contents. A
/// discard is not, so it is complete when `decommit` returns, and no owner has a segment that is being discarded.
///
/// Committed means "handed out, or ready to be", and not that physical memory was created: the UVM driver decides
/// that. Threads: see `backing`. The runs belong to the thread that commits.
class managed_backing final : public detail::driven_backing {
public:
    managed_backing(std::unique_ptr<memory_driver> driver, std::unique_ptr<managed_memory> memory,
                    const managed_shape& shape, std::uint64_t most_moved, char* base)
        : driven_backing{std::move(driver)},
          memory_{std::move(memory)},
          shape_{shape},
          most_moved_{most_moved},
          segments_{static_cast<std::uint32_t>(shape.bytes >> segment_shift)},
          base_{base},
          runs_{segments_} {}
    /// Waits for the moves under way, since their memory ends here. The threads and kernels that use the heap have
    /// ended, so that nothing holds these up. An error has no one to take it any more: every call has returned.
    ~managed_backing() override { (void)memory_->finish(); }

    [[nodiscard]] char* base() const override { return base_; }
    [[nodiscard]] std::uint32_t segments() const override { return segments_; }
    [[nodiscard]] std::uint32_t committed_at_start() const override { return 0; }

    /// Begins one move of the whole run, and does not wait for it: the segments may be handed out at once. Without the
    /// move, only notes the run: its pages come when they are touched. Errors: commit_failed, with the driver's own
    /// error, if the move cannot begin. Cost: a call of the driver, whatever the length.
    commit_outcome commit(segment_run run) override {
        absl::Status status = runs_.check_free(run);
        if (status.ok() && fits_device(run)) {
            status = memory_->begin_prefetch(address_of(run), bytes_of(run), memory_tier::device);
        }
        if (!status.ok()) {
            return {status, memory_tier::device, failure_reason::commit_failed};
        }
        // After the call, so that an error leaves the run uncommitted. Segment by segment, since each of them may be
        // given up by itself.
        for (std::uint32_t i = 0; i < run.count; ++i) {
            runs_.add({run.first + i, 1}, {});
        }
        committed_.fetch_add(bytes_of(run), std::memory_order_relaxed);  // a count; it orders no other access
        return {};
    }
    // Without discarding, a decommit would do nothing for the machine, so that memory is never given up. With it,
    // memory is given up as soon as it is free: the driver would otherwise write contents back that no program needs.
    [[nodiscard]] bool can_decommit() const override { return discards(); }
    [[nodiscard]] bool decommits_at_once() const override { return discards(); }
    /// Discards the contents of a run of committed segments, whichever calls committed them. The run is still committed
    /// after an error. Cost: an operation on a stream, and the wait for it and for all moves that began before. The
    /// wait is needed: the caller commits the segments again as soon as this returns, and a discard that took place
    /// later would destroy what their next owner writes.
    ///
    /// Segments with advice of their own get the heap's again. A backing that does not discard only does this.
    absl::Status decommit(segment_run run) override {
        absl::Status status = find_all(run);
        if (status.ok() && discards()) {
            status = memory_->discard(address_of(run), bytes_of(run));
        }
        if (status.ok()) {
            status = withdraw_advice(run);
        }
        if (status.ok()) {
            for (std::uint32_t i = 0; i < run.count; ++i) {
                runs_.remove({run.first + i, 1});
            }
            committed_.fetch_sub(bytes_of(run), std::memory_order_relaxed);  // a count; it orders no other access
        }
        return status;
    }
    [[nodiscard]] bool is_moving() const override { return memory_->is_moving(); }
    [[nodiscard]] bool takes_advice() const override { return true; }
    /// Advice to keep memory on the host comes too late for what a commit has moved to the GPU, or is moving: that is
    /// moved back, behind the first move on the stream. Cost: a few calls of the driver.
    absl::Status advise_segments(segment_run run, advice_code advice) override {
        absl::Status status = find_all(run);
        const managed_advice what = advice_of(advice, shape_.advice);
        if (status.ok()) {
            status = memory_->advise(address_of(run), bytes_of(run), what);
        }
        if (status.ok() && what == managed_advice::cpu_resident && shape_.prefetch) {
            status = memory_->begin_prefetch(address_of(run), bytes_of(run), memory_tier::host);
        }
        // Also after an error: some of the driver's calls may have had an effect.
        for (std::uint32_t i = 0; i < run.count; ++i) {
            advised_.insert(to_underlying(run.first + i));
        }
        return status;
    }
    /// For `heap::prefetch`; moves any part of the memory, whether committed or not.
    absl::Status prefetch(void* at, std::size_t bytes, memory_tier to) override {
        return memory_->prefetch(static_cast<char*>(at), bytes, to);
    }
    /// For `heap::advise`. Waits for the moves under way first. Advice takes effect when it is given, whatever the
    /// stream still has to do: a move to the GPU that came later would undo the advice to keep the memory on the host.
    absl::Status advise(void* at, std::size_t bytes, managed_advice what) override {
        absl::Status s = memory_->finish();
        return s.ok() ? memory_->advise(static_cast<char*>(at), bytes, what) : s;
    }
    [[nodiscard]] memory_use use() const override {
        memory_use now;
        // Counted as if all committed memory were on the GPU; where it really is, only the driver knows.
        now.device_bytes = committed_.load(std::memory_order_relaxed);  // independent counts
        now.metadata_bytes = metadata_use_.get();
        // `host_budget` stays 0: there is no spill tier, as the driver moves memory to the host by itself.
        now.device_budget = shape_.bytes;
        return now;
    }

private:
    /// Returns true if decommitting discards contents: if the option and the version of CUDA allow it, and the driver
    /// may have to evict memory of this heap. Only then does a discard save anything. Elsewhere it would cost a call
    /// for each segment that is freed, and could be held up as a kernel's `cudaMemcpy` is.
    [[nodiscard]] bool discards() const {
        return shape_.discard && shape_.allow_oversubscription && memory_->can_discard();
    }
    /// Returns true if a run is to be moved to the GPU: if the heap is not oversubscribed with it.
    ///
    /// The limit is nine tenths of what the device had free when the heap was created, the same as for a heap that may
    /// not be oversubscribed; such a heap never reaches it. In a heap above the limit, a move evicts memory that was
    /// serviced before (docs/uvm.md, E2), perhaps of this heap and in use, for memory of which a kernel may touch
    /// little. A fault evicts as much, but only for what is touched.
    ///
    /// What the device has free at the moment is not compared. It falls by all memory of this heap that lies on the
    /// GPU, also by memory that was discarded and committed again, which needs no other; a heap that once filled the
    /// GPU would not be moved again. Nor does it tell what the driver could evict for a better use. And it would cost a
    /// call of the driver for each commit.
    [[nodiscard]] bool fits_device(segment_run run) const {
        // Only this thread changes the count.
        return shape_.prefetch && committed_.load(std::memory_order_relaxed) + bytes_of(run) <= most_moved_;
    }
    /// Returns OK if every segment of the run is committed; otherwise the error of the first one that is not.
    [[nodiscard]] absl::Status find_all(segment_run run) const {
        absl::Status status;
        for (std::uint32_t i = 0; i < run.count && status.ok(); ++i) {
            status = runs_.find({run.first + i, 1}).status();
        }
        return status;
    }
    /// Gives the heap's advice again to the segments of a run that have advice of their own, neighbours together.
    /// Cost: none if no segment has any.
    absl::Status withdraw_advice(segment_run run) {
        const std::uint32_t end = to_underlying(run.first) + run.count;
        absl::Status status;
        for (auto at = advised_.lower_bound(to_underlying(run.first)); at != advised_.end() && *at < end;) {
            segment_run part{segment_index{*at}, 0};
            for (; at != advised_.end() && *at < end && segment_index{*at} == part.first + part.count; ++at) {
                ++part.count;
            }
            status.Update(memory_->advise(address_of(part), bytes_of(part), shape_.advice));
        }
        if (status.ok()) {
            advised_.erase(advised_.lower_bound(to_underlying(run.first)), advised_.lower_bound(end));
        }
        return status;
    }
    /// Return the first byte and the size of a run.
    [[nodiscard]] char* address_of(segment_run run) const {
        return base_ + (std::uint64_t{to_underlying(run.first)} << segment_shift);
    }
    static std::uint64_t bytes_of(segment_run run) { return std::uint64_t{run.count} << segment_shift; }

    // Destroyed before the driver, which belongs to the base class.
    std::unique_ptr<managed_memory> memory_;
    // Whole segments, and without the prefetch if memory stays on the host (`make_managed_backing`).
    managed_shape shape_;
    std::uint64_t most_moved_;  ///< most committed bytes up to which memory is moved to the GPU
    std::uint32_t segments_;
    char* base_;
    // A run's place is all that is needed to undo its commit.
    struct nothing_more {};
    detail::committed_runs<nothing_more> runs_;
    std::set<std::uint32_t> advised_;  ///< committed segments with advice of their own
    std::atomic<std::uint64_t> committed_{0};
};

}  // namespace

absl::StatusOr<std::unique_ptr<backing>> make_managed_backing(std::unique_ptr<memory_driver> driver,
                                                              std::unique_ptr<managed_memory> memory,
                                                              const managed_shape& shape) {
    // The options as they take effect: rounded, and adapted to the advice.
    managed_shape whole = shape;
    whole.bytes = shape.bytes / segment_bytes * segment_bytes;
    if (whole.bytes == 0 || whole.bytes / segment_bytes > max_segments) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%d bytes of managed memory are not possible: a heap has %d "
                            "to %d",
                            shape.bytes, segment_bytes, max_segments * segment_bytes));
    }
    const auto now = driver->device_memory();
    if (!now.ok()) {
        return now.status();
    }
    // The driver evicts memory of every program on this GPU if more is used than it has, hence the explicit permission.
    const std::uint64_t most_moved = now->free / 10 * 9;
    if (!shape.allow_oversubscription && whole.bytes > most_moved) {
        return absl::ResourceExhaustedError(
            absl::StrFormat("%d bytes of managed memory are more than nine tenths of the %d of %d bytes that the "
                            "device has free; ask "
                            "for a smaller capacity, or set the option allow_oversubscription",
                            whole.bytes, now->free, now->total));
    }
    // The advice covers the whole range and is given once: a border inside a VA block would truncate the block
    // (docs/uvm.md, section 4).
    const auto base = memory->allocate(whole.bytes);
    if (!base.ok()) {
        return base.status();
    }
    if (auto s = memory->advise(*base, whole.bytes, whole.advice); !s.ok()) {
        return s;
    }
    // Memory whose preferred location is the host must not be moved away from it.
    whole.prefetch = whole.prefetch && whole.advice != managed_advice::cpu_resident;
    return std::make_unique<managed_backing>(std::move(driver), std::move(memory), whole, most_moved, *base);
}

}  // namespace orchard
