// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The default backing of the emulated device: one `mmap` of addresses, in which runs of segments are made accessible.
///
///     range_     | gap | segment 0 | segment 1 | segment 2 | ...      capacity, and one segment more
///                      ^ base
///     commit        mprotect: readable and writable, zero
///     decommit      a new mapping over the run: inaccessible, its pages back to the machine
///
/// A kernel that touches a segment which is not committed ends the test by a signal.

#include <atomic>
#include <utility>

#include "absl/strings/str_format.h"
#include "uvm/geometry/metadata_count.hpp"
#include "uvm/memory/backing.hpp"
#include "uvm/memory/committed_runs.hpp"
#include "uvm/memory/emulated_memory.hpp"

namespace orchard {
namespace {

/// Addresses of ordinary memory in which extents are made accessible: the default backing of the emulated device. It
/// stands on no driver; `elastic` on the emulated device runs the code of the CUDA heap instead.
///
/// Threads: see `backing`. The runs belong to the thread that commits; the counts are atomic.
class emulated_backing final : public backing {
public:
    /// `range` has one segment more than is used, so that the first byte can be aligned to a segment.
    emulated_backing(detail::mapping range, std::uint32_t segments)
        : range_{std::move(range)}, segments_{segments}, runs_{segments} {
        const auto address = reinterpret_cast<std::uintptr_t>(range_.data());
        base_ = range_.data() + (segment_bytes - address % segment_bytes) % segment_bytes;
    }
    [[nodiscard]] char* base() const override { return base_; }
    [[nodiscard]] std::uint32_t segments() const override { return segments_; }
    [[nodiscard]] std::uint32_t committed_at_start() const override { return 0; }

    /// Cost: one system call. Memory that was never touched, or was decommitted, is zero.
    commit_outcome commit(segment_run run) override {
        absl::Status status = runs_.check_free(run);
        if (status.ok()) {
            status = detail::make_accessible(address_of(run), bytes_of(run));
        }
        if (!status.ok()) {
            return {status, memory_tier::device, failure_reason::commit_failed};
        }
        // The record and the count last, so that an error changes nothing.
        runs_.add(run, {});
        committed_.fetch_add(bytes_of(run), std::memory_order_relaxed);  // a count; it orders no other access
        return {};
    }
    [[nodiscard]] bool can_decommit() const override { return true; }
    /// Cost: one system call, which gives the pages back to the machine.
    absl::Status decommit(segment_run run) override {
        if (const auto found = runs_.find(run); !found.ok()) {
            return found.status();
        }
        if (auto s = detail::make_inaccessible(address_of(run), bytes_of(run)); !s.ok()) {
            return s;
        }
        runs_.remove(run);
        committed_.fetch_sub(bytes_of(run), std::memory_order_relaxed);  // a count; it orders no other access
        return absl::OkStatus();
    }
    [[nodiscard]] memory_use use() const override {
        memory_use now;
        now.device_bytes = committed_.load(std::memory_order_relaxed);  // independent counts
        now.metadata_bytes = metadata_.get();
        now.device_budget = std::uint64_t{segments_} << segment_shift;
        return now;
    }

    absl::StatusOr<void*> allocate_metadata(std::size_t bytes) override {
        return metadata_.add(pieces_.allocate(bytes), bytes);
    }
    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) override {
        return metadata_.add(pieces_.allocate(bytes), bytes);
    }
    [[nodiscard]] void* stream() const override { return nullptr; }
    // Kernels run on host threads and may change the words meanwhile, hence no plain copy.
    absl::Status read(void* to, const void* from, std::size_t bytes) override {
        detail::copy_words(to, from, bytes);
        return absl::OkStatus();
    }
    absl::Status write(void* to, const void* from, std::size_t bytes) override {
        detail::copy_words(to, from, bytes);
        return absl::OkStatus();
    }

private:
    /// Return the first byte and the size of a run.
    [[nodiscard]] char* address_of(segment_run run) const {
        return base_ + (std::uint64_t{to_underlying(run.first)} << segment_shift);
    }
    static std::uint64_t bytes_of(segment_run run) { return std::uint64_t{run.count} << segment_shift; }

    detail::mapping range_;
    std::uint32_t segments_;
    char* base_ = nullptr;
    // A run's place is all that is needed to undo its commit.
    struct nothing_more {};
    detail::committed_runs<nothing_more> runs_;
    std::atomic<std::uint64_t> committed_{0};
    detail::metadata_count metadata_;
    // Metadata and mailbox. Like all memory of the emulated device, both sides reach it at the same address.
    detail::owned_pieces pieces_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<backing>> make_emulated_backing(std::uint64_t capacity) {
    // Whole segments; a segment more is mapped, for the alignment.
    const std::uint64_t bytes = capacity / segment_bytes * segment_bytes;
    if (bytes / segment_bytes > max_segments) {
        return absl::ResourceExhaustedError(
            absl::StrFormat("cannot reserve %d bytes: a heap has at most %d; ask for a "
                            "smaller capacity",
                            bytes, max_segments * segment_bytes));
    }
    detail::mapping range(bytes + segment_bytes, PROT_NONE);
    if (!range.ok()) {
        return detail::exhausted("reserve", bytes);
    }
    return std::make_unique<emulated_backing>(std::move(range), static_cast<std::uint32_t>(bytes >> segment_shift));
}

}  // namespace orchard
