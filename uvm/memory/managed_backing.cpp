// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The backing of managed memory: the UVM driver moves it, and the growth thread tells the driver which segments are
/// needed.
///
///     commit      check_free, prefetch to the GPU, add        the segments have no owner until they are there
///     decommit    find, discard, remove                       only if `discards`; else memory is never given up
///
/// Both are operations on a stream, which running kernels may hold up (docs/programs.md).

#include <atomic>
#include <utility>

#include "absl/strings/str_format.h"
#include "uvm/memory/committed_runs.hpp"
#include "uvm/memory/driven_backing.hpp"

namespace orchard {
namespace {

/// Managed memory, all of which exists from the start. Committing a run moves it to the GPU; decommitting discards its
/// contents. Both are complete when they return, so no owner has a segment that is being moved or discarded.
///
/// Committed therefore means "handed out, or moved and ready to be", and not that physical memory was created: the UVM
/// driver decides that. Threads: see `backing`. The runs belong to the thread that commits.
class managed_backing final : public detail::driven_backing {
public:
    managed_backing(std::unique_ptr<memory_driver> driver, std::unique_ptr<managed_memory> memory,
                    const managed_shape& shape, char* base)
        : driven_backing{std::move(driver)},
          memory_{std::move(memory)},
          shape_{shape},
          segments_{static_cast<std::uint32_t>(shape.bytes >> segment_shift)},
          base_{base},
          runs_{segments_} {}

    [[nodiscard]] char* base() const override { return base_; }
    [[nodiscard]] std::uint32_t segments() const override { return segments_; }
    [[nodiscard]] std::uint32_t committed_at_start() const override { return 0; }

    /// Without the prefetch, only notes the run: its pages come when they are touched. Errors: commit_failed, with the
    /// driver's own error. Cost: the move of the memory, an operation on a stream that a running kernel may hold up.
    commit_outcome commit(segment_run run) override {
        absl::Status status = runs_.check_free(run);
        if (status.ok() && shape_.prefetch) {
            status = memory_->prefetch(address_of(run), bytes_of(run), memory_tier::device);
        }
        if (!status.ok()) {
            return {status, memory_tier::device, failure_reason::commit_failed};
        }
        // After the move, so that an error leaves the run uncommitted.
        runs_.add(run, {});
        committed_.fetch_add(bytes_of(run), std::memory_order_relaxed);  // a count; it orders no other access
        return {};
    }
    // Without discarding, a decommit would do nothing for the machine, so that memory is never given up. With it,
    // memory is given up as soon as it is free: the driver would otherwise write contents back that no program needs.
    [[nodiscard]] bool can_decommit() const override { return discards(); }
    [[nodiscard]] bool decommits_at_once() const override { return discards(); }
    /// Discards the contents of a run. The run is still committed after an error. Cost: an operation on a stream, and
    /// the wait for it.
    absl::Status decommit(segment_run run) override {
        // Only a run of exactly one commit: the growth thread commits single segments for this backing if it discards,
        // so that any segment can be discarded (`decommits_at_once`).
        absl::Status status = runs_.find(run).status();
        if (status.ok()) {
            status = memory_->discard(address_of(run), bytes_of(run));
        }
        if (status.ok()) {
            runs_.remove(run);
            committed_.fetch_sub(bytes_of(run), std::memory_order_relaxed);  // a count; it orders no other access
        }
        return status;
    }
    /// For `heap::prefetch`; moves any part of the memory, whether committed or not.
    absl::Status prefetch(void* at, std::size_t bytes, memory_tier to) override {
        return memory_->prefetch(static_cast<char*>(at), bytes, to);
    }
    /// For `heap::advise`.
    absl::Status advise(void* at, std::size_t bytes, managed_advice what) override {
        return memory_->advise(static_cast<char*>(at), bytes, what);
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
    /// Returns true if decommitting discards contents: if the option and the version of CUDA allow it.
    [[nodiscard]] bool discards() const { return shape_.discard && memory_->can_discard(); }
    /// Return the first byte and the size of a run.
    [[nodiscard]] char* address_of(segment_run run) const {
        return base_ + (std::uint64_t{to_underlying(run.first)} << segment_shift);
    }
    static std::uint64_t bytes_of(segment_run run) { return std::uint64_t{run.count} << segment_shift; }

    // Destroyed before the driver, which belongs to the base class.
    std::unique_ptr<managed_memory> memory_;
    // Whole segments, and without the prefetch if memory stays on the host (`make_managed_backing`).
    managed_shape shape_;
    std::uint32_t segments_;
    char* base_;
    // A run's place is all that is needed to undo its commit.
    struct nothing_more {};
    detail::committed_runs<nothing_more> runs_;
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
    // The driver evicts memory of every program on this GPU if more is used than it has, hence the explicit permission.
    if (!shape.allow_oversubscription) {
        const auto now = driver->device_memory();
        if (!now.ok()) {
            return now.status();
        }
        if (whole.bytes > now->free / 10 * 9) {
            return absl::ResourceExhaustedError(
                absl::StrFormat("%d bytes of managed memory are more than nine tenths of the %d of %d bytes that the "
                                "device has free; ask "
                                "for a smaller capacity, or set the option allow_oversubscription",
                                whole.bytes, now->free, now->total));
        }
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
    return std::make_unique<managed_backing>(std::move(driver), std::move(memory), whole, *base);
}

}  // namespace orchard
