// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The part of a run that is the same for all kernels: its beginning and end, passes, and what the counts say.

#include "profiling/apps/app_run.cuh"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/nvtx/phase.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard::apps {

namespace {

constexpr std::uint64_t max_threads = 1u << 20;

absl::Status check_job(const job& j) {
    if (j.threads == 0 || j.threads > max_threads) {
        return absl::InvalidArgumentError(absl::StrFormat("%d threads: 1 to %d are allowed", j.threads, max_threads));
    }
    if (j.passes < 1 || j.samples == 0 || !(j.part > 0 && j.part <= 1) || !(j.limit_s > 0)) {
        return absl::InvalidArgumentError("passes and samples are at least 1, part is above 0 and at most 1");
    }
    return absl::OkStatus();
}

}  // namespace

double outcome::resident_share() const {
    const auto committed = static_cast<double>(after.committed_bytes);
    return committed > 0 ? (committed - static_cast<double>(after.host_bytes)) / committed : 1;
}

std::uint64_t outcome::moved_bytes() const {
    return after.moved_to_device_bytes + after.moved_to_host_bytes - before.moved_to_device_bytes -
           before.moved_to_host_bytes;
}

app_run::app_run(heap& h, const job& j) : heap_{h}, job_{j}, on_{h.executor()} { on_.timed = true; }

absl::Status app_run::begin() {
    fail(check_job(job_));
    auto made = device_array<tally>::create(on_, 1);
    fail(made.status());
    if (status_.ok()) {
        tally_ = *std::move(made);
    }
    if (status_.ok() && job_.trace_every != 0) {
        const std::uint64_t warps =
            simt::grid_for(threads(), threads_per_block).blocks * std::uint64_t{threads_per_block / simt::warp_size};
        auto log = trace_log::create(on_, reinterpret_cast<std::uint64_t>(heap_.view().base), warps, job_.trace_every);
        fail(log.status());
        if (log.ok()) {
            log_.emplace(*std::move(log));
        }
    }
    return status_;
}

void app_run::record(bool is_active) {
    if (ok() && log_ && found_.pass_us.empty()) {
        fail(log_->set_active(is_active));
    }
}

std::uint64_t app_run::at_least_one(std::uint64_t items, const char* of) {
    if (items == 0) {
        fail(absl::InvalidArgumentError(absl::StrFormat("%s are too few for %d threads: not one of the %s for each",
                                                        format_bytes(job_.bytes), job_.threads, of)));
    }
    return std::max<std::uint64_t>(items, 1);
}

bool app_run::next_pass() {
    const bool is_first = found_.pass_us.empty();
    if (!ok() || found_.pass_us.size() >= static_cast<std::size_t>(job_.passes)) {
        return false;
    }
    // The first call is not part of the run: samples of an earlier one, of other data at the same addresses, must not
    // count for this one.
    if (job_.moves) {
        const std::uint64_t began = simt::clock_ns();
        const nvtx::phase marked(nvtx::phase::migrate);
        fail(heap_.migrate(on_.stream).status());
        found_.moves_us += is_first ? 0 : static_cast<double>(simt::clock_ns() - began) * 1e-3;
    }
    if (is_first) {
        const auto stats = heap_.stats();
        fail(stats.status());
        found_.before = stats.ok() ? *stats : statistics{};
    }
    pass_us_ = 0;
    return ok();
}

void app_run::end_pass(double part, double bytes) {
    if (ok()) {
        found_.pass_us.push_back(pass_us_);
        found_.part = part;
        found_.pass_bytes = bytes;
    }
}

std::uint64_t app_run::items_of_piece(const work& w) const {
    const std::uint64_t accesses = job_.accesses_of_piece != 0 ? job_.accesses_of_piece
                                   : is_emulated()             ? std::uint64_t{1} << 20
                                                               : std::uint64_t{1} << 27;
    const double items = static_cast<double>(accesses) / (static_cast<double>(threads()) * w.accesses_of_item);
    return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(items), 1, w.items);
}

double app_run::wanted_share_of(std::uint64_t items) const {
    constexpr double rounding = 1e-12;  // far more than that of a double, far less than an item
    return job_.part * static_cast<double>(items) * (1 - rounding);
}

std::uint64_t app_run::wanted_of(std::uint64_t items) const {
    return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::ceil(wanted_share_of(items))), 1, items);
}

void app_run::check_number(std::uint64_t found, std::uint64_t right) {
    if (job_.corrupt && job_.corrupt->check == checks_) {
        ++found;
    }
    ++checks_;
    if (ok()) {
        ++found_.checked;
        found_.wrong += found != right ? 1 : 0;
    }
}

void app_run::zero(counter* word) {
    if (ok()) {
        fail(zero_device_memory(on_, word, sizeof *word));
    }
}

std::uint32_t app_run::value_of(const counter* word) {
    counter copy{0};
    if (ok()) {
        fail(copy_to_host(on_, &copy, word, sizeof copy));
    }
    return copy.load<simt::order::relaxed>();
}

void app_run::reset_total() {
    if (ok()) {
        fail(tally_.zero());  // the other counts are read as soon as they are made
    }
}

tally app_run::read() {
    tally t{};
    if (status_.ok()) {
        fail(tally_.download({&t, 1}));
    }
    return t;
}

void app_run::look_for_nulls() {
    found_.nulls = read().nulls.load<simt::order::relaxed>();
    if (found_.nulls != 0 && found_.error.ok()) {
        const std::optional<failure> why = heap_.last_failure();
        found_.error = absl::ResourceExhaustedError(
            absl::StrFormat("%d parts of arrays are missing: %s", found_.nulls, why ? to_text(*why) : "no reason"));
    }
}

void app_run::look_at_results() {
    found_.wrong += read().wrong.load<simt::order::relaxed>();
    if (found_.wrong != 0 && found_.error.ok()) {
        found_.error =
            absl::InternalError(absl::StrFormat("%d of %d checked results are wrong", found_.wrong, found_.checked));
    }
}

absl::Status app_run::expect_empty() {
    absl::Status status = heap_.validate();
    const auto stats = heap_.stats();
    status.Update(stats.status());
    if (status.ok() && (stats->allocations != stats->frees || stats->pages_in_use != 0 || stats->live_chunks != 0 ||
                        stats->invalid_frees != 0)) {
        status = absl::InternalError(absl::StrFormat(
            "the heap is not empty behind the run: %d allocations, %d frees, %d pages, %d chunks, %d invalid frees",
            stats->allocations, stats->frees, stats->pages_in_use, stats->live_chunks, stats->invalid_frees));
    }
    return status;
}

absl::StatusOr<outcome> app_run::end() {
    if (found_.error.ok()) {
        look_at_results();
    }
    if (status_.ok()) {
        const auto stats = heap_.stats();
        fail(stats.status());
        found_.after = stats.ok() ? *stats : statistics{};
    }
    if (status_.ok() && log_) {
        auto recorded = log_->read();
        fail(recorded.status());
        found_.recorded = recorded.ok() ? *std::move(recorded) : trace_log::result{};
    }
    // A launch that failed on a GPU ends the use of the GPU; one of these then fails, too.
    absl::Status freed;
    for (const auto& free : frees_) {
        freed.Update(free());
    }
    frees_.clear();
    fail(freed);
    if (status_.ok() || absl::IsInvalidArgument(status_)) {
        status_.Update(expect_empty());
    }
    tables_.clear();
    return status_.ok() ? absl::StatusOr<outcome>(std::move(found_)) : status_;
}

absl::StatusOr<outcome> run_app(heap& h, const app& a, const job& j) {
    app_run s(h, j);
    if (absl::Status status = s.begin(); !status.ok()) {
        return status;
    }
    a.run(s);
    return s.end();
}

}  // namespace orchard::apps
