// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A backing without memory, whose commits are recorded and can be made to fail or to block.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "host/run_ring.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard::rig {

class fake_backing final : public backing {
public:
    explicit fake_backing(std::uint32_t segments, std::uint32_t committed_at_start = 0, bool at_once = false,
                          bool takes_advice = false)
        : segments_{segments}, at_start_{committed_at_start}, at_once_{at_once}, takes_advice_{takes_advice} {}

    [[nodiscard]] char* base() const override { return nullptr; }
    [[nodiscard]] std::uint32_t segments() const override { return segments_; }
    [[nodiscard]] std::uint32_t committed_at_start() const override { return at_start_; }
    commit_outcome commit(segment_run run) override {
        entered_.fetch_add(1);
        entered_.notify_all();
        held_.wait(true);
        const std::scoped_lock lock(mutex_);
        if (!failure_.ok()) {
            return {failure_, memory_tier::device, why_};
        }
        if (run.count > largest_) {
            return {absl::ResourceExhaustedError("not so much"), memory_tier::device, failure_reason::commit_failed};
        }
        if (used(memory_tier::device) + used(memory_tier::host) + run.count > all_) {
            return {absl::ResourceExhaustedError("the budget is spent"), memory_tier::device,
                    failure_reason::out_of_memory_device_budget};
        }
        const bool fits = used(memory_tier::device) + run.count <= device_;
        const memory_tier tier = fits ? memory_tier::device : memory_tier::host;
        calls_.push_back(run);
        // A backing that decommits at once, or that takes advice, takes back each segment by itself.
        const std::uint32_t step = takes_parts() ? 1 : run.count;
        for (std::uint32_t i = 0; i < run.count; i += step) {
            commits_.push_back({{run.first + i, step}, tier});
        }
        return {absl::OkStatus(), tier};
    }
    [[nodiscard]] bool can_decommit() const override { return true; }
    /// Accepts only a run that was committed in one call, or any committed segments if the backing takes them back by
    /// themselves.
    absl::Status decommit(segment_run run) override {
        const std::scoped_lock lock(mutex_);
        const std::uint32_t first = to_underlying(run.first);
        const auto is_of_run = [&](const extent& e) {
            const std::uint32_t at = to_underlying(e.run.first);
            return takes_parts() ? at >= first && at < first + run.count : e.run == run;
        };
        const auto found = std::count_if(commits_.begin(), commits_.end(), is_of_run);
        if (found != (takes_parts() ? run.count : 1)) {
            return absl::FailedPreconditionError("it was not committed so");
        }
        std::erase_if(commits_, is_of_run);
        std::erase_if(advice_, [&](const extent& e) {
            return to_underlying(e.run.first) >= first && to_underlying(e.run.first) < first + run.count;
        });
        return absl::OkStatus();
    }
    [[nodiscard]] bool takes_advice() const override { return takes_advice_; }
    absl::Status advise_segments(segment_run run, advice_code advice) override {
        held_.wait(true);
        const std::scoped_lock lock(mutex_);
        for (std::uint32_t i = 0; i < run.count; ++i) {
            advice_.push_back({{run.first + i, 1}, memory_tier::device, advice});
        }
        return advised_;
    }
    /// The segments with advice of their own, in the order in which it was given.
    [[nodiscard]] std::vector<extent> advice() const {
        const std::scoped_lock lock(mutex_);
        return advice_;
    }
    /// From now on advice ends like this.
    void advise_with(absl::Status status) {
        const std::scoped_lock lock(mutex_);
        (void)(advised_ = std::move(status));
    }
    std::uint64_t free_device_bytes() override {
        const std::scoped_lock lock(mutex_);
        return free_;
    }
    /// From now on the device reports free memory for this many segments.
    void say_free(std::uint32_t segments) {
        const std::scoped_lock lock(mutex_);
        free_ = std::uint64_t{segments} << segment_shift;
    }
    [[nodiscard]] memory_use use() const override {
        const std::scoped_lock lock(mutex_);
        memory_use now;
        now.device_bytes = std::uint64_t{at_start_ + used(memory_tier::device)} << segment_shift;
        now.host_bytes = std::uint64_t{used(memory_tier::host)} << segment_shift;
        const std::uint32_t all = std::min(segments_, at_start_ + all_);
        now.device_budget = std::uint64_t{std::min(all, device_)} << segment_shift;
        now.host_budget = (std::uint64_t{all} << segment_shift) - now.device_budget;
        return now;
    }
    absl::StatusOr<void*> allocate_metadata(std::size_t) override { return absl::UnimplementedError("a fake"); }
    absl::StatusOr<void*> allocate_host_visible(std::size_t) override { return absl::UnimplementedError("a fake"); }
    [[nodiscard]] void* stream() const override { return nullptr; }
    absl::Status read(void*, const void*, std::size_t) override { return absl::UnimplementedError("a fake"); }
    absl::Status write(void*, const void*, std::size_t) override { return absl::UnimplementedError("a fake"); }

    /// From now on commits end like this; `why` is for those that fail.
    void end_with(absl::Status status, failure_reason why = failure_reason::commit_failed) {
        const std::scoped_lock lock(mutex_);
        why_ = why;
        (void)(failure_ = std::move(status));
    }
    /// From now on runs of more than `segments` fail.
    void give_at_most(std::uint32_t segments) {
        const std::scoped_lock lock(mutex_);
        largest_ = segments;
    }
    /// From now on the budgets allow `segments` in addition to those of the start.
    void give_in_all(std::uint32_t segments) {
        const std::scoped_lock lock(mutex_);
        all_ = segments;
    }
    [[nodiscard]] bool decommits_at_once() const override { return at_once_; }
    /// From now on commits that would put more than `segments` on the device use the spill tier.
    void give_device(std::uint32_t segments) {
        const std::scoped_lock lock(mutex_);
        device_ = segments;
    }
    /// From now on commits do not end before `let_go`.
    void hold() { held_.store(true); }
    void let_go() {
        held_.store(false);
        held_.notify_all();
    }
    /// Waits until `n` commits have begun in total.
    void wait_until_entered(std::uint32_t n) const {
        for (std::uint32_t seen = entered_.load(); seen < n; seen = entered_.load()) {
            entered_.wait(seen);
        }
    }
    /// Commits begun.
    [[nodiscard]] std::uint32_t entered() const { return entered_.load(); }
    /// The runs of all calls of `commit` that succeeded, in order.
    [[nodiscard]] std::vector<segment_run> calls() const {
        const std::scoped_lock lock(mutex_);
        return calls_;
    }
    /// The commits that succeeded and were not taken back, in order; single segments if the backing decommits at once.
    [[nodiscard]] std::vector<segment_run> commits() const {
        const std::scoped_lock lock(mutex_);
        std::vector<segment_run> runs;
        for (const extent& e : commits_) {
            runs.push_back(e.run);
        }
        return runs;
    }

private:
    [[nodiscard]] bool takes_parts() const { return at_once_ || takes_advice_; }

    std::uint64_t free_ = ~std::uint64_t{0};
    [[nodiscard]] std::uint32_t used(memory_tier tier) const {
        std::uint32_t segments = 0;
        for (const extent& e : commits_) {
            segments += e.tier == tier ? e.run.count : 0;
        }
        return segments;
    }

    std::uint32_t segments_;
    std::uint32_t at_start_;
    bool at_once_;
    bool takes_advice_;
    std::atomic<std::uint32_t> entered_{0};
    std::atomic<bool> held_{false};
    mutable std::mutex mutex_;
    absl::Status failure_;
    std::uint32_t largest_ = max_segments;
    failure_reason why_ = failure_reason::commit_failed;
    std::uint32_t device_ = max_segments;
    std::uint32_t all_ = max_segments;
    std::vector<extent> commits_;
    std::vector<segment_run> calls_;
    std::vector<extent> advice_;
    absl::Status advised_;
};

}  // namespace orchard::rig
