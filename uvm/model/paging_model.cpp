// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The driver's loop over the kernel's faults; see paging_model.hpp.
///
///     run
///       advance              while the fault buffer is empty, warps run in slices
///       serve_batch          the driver wakes; warps go on until it reads the buffer
///         fetch              rule F1, F2
///         serve_blocks       rule F3: for each VA block a service; warps that run meanwhile go on to its end
///         flush, replay      rule F4
///
///     fault       fetch                                replay         fetch
///       |<-wake_ns->|<-batch_ns + block 1->|<-block 2->|<-refetch_ns->|<-batch_ns + ...

#include "uvm/model/paging_model.hpp"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "uvm/model/gpu_warps.hpp"

namespace orchard::uvm_model {
namespace {

/// More chunks than any space has.
constexpr std::uint64_t unlimited_chunks = max_segments;
/// The time, in ns, that the GPU runs before the model checks for faults while the driver sleeps. Warps may run ahead
/// of another warp's fault by this much.
constexpr nanoseconds idle_slice = 10'000;

}  // namespace

/// A space has at most as many segments as a heap. Without a capacity, more chunks than any space has are available.
absl::StatusOr<paging_model> paging_model::create(const configuration& c) {
    const std::uint64_t most = std::uint64_t{max_segments} * segment_bytes;
    if (c.bytes == 0 || c.bytes % os_page_bytes != 0 || c.bytes > most) {
        return absl::InvalidArgumentError(
            absl::StrFormat("paging model: a managed space of %u bytes: give whole pages of %u bytes, at most %u bytes",
                            c.bytes, os_page_bytes, most));
    }
    if (c.capacity && (*c.capacity == 0 || *c.capacity % segment_bytes != 0)) {
        return absl::InvalidArgumentError(
            absl::StrFormat("paging model: GPU memory of %u bytes: give whole chunks of %u bytes, at least one",
                            *c.capacity, segment_bytes));
    }
    if (const absl::Status status = check(c.machine); !status.ok()) {
        return status;
    }
    return paging_model(c, c.capacity ? std::min(*c.capacity / segment_bytes, unlimited_chunks) : unlimited_chunks);
}

paging_model::paging_model(const configuration& c, std::uint64_t chunks) : machine_{c.machine}, policy_{c.policy} {
    const bool counts = policy_ == paging_policy::dynamic_act;
    space_ = std::make_unique<managed_space>(c.bytes, chunks, counts ? host_access::remote : host_access::faults);
    if (counts) {
        counters_ = std::make_unique<access_counters>(machine_, *space_);
    }
    if (policy_ == paging_policy::early_adaptor) {
        history_.emplace(machine_, chunks);
    }
}

/// Returns the time of a piece of work, in ns: pages, copies, evictions and bytes. The fixed costs of a batch and of a
/// VA block are not part of it. ThrottlingFetch compresses what it copies, in both directions.
double paging_model::cost_of(const work& w) const {
    const double compression = policy_ == paging_policy::throttling_fetch ? machine_.compression : 1.0;
    return machine_.page_ns * w.pages + machine_.copy_ns * (w.copies_in + w.copies_out) +
           machine_.eviction_ns * w.evictions +
           1e9 * static_cast<double>(w.pages_in * os_page_bytes) / (machine_.in_bytes_per_s * compression) +
           1e9 * static_cast<double>(w.pages_out * os_page_bytes) / (machine_.out_bytes_per_s * compression);
}

/// The time is that of the copies and evictions, and `block_ns` for each segment that the range touches; there is no
/// batch.
absl::Status paging_model::prefetch(byte_range range, processor to) {
    const absl::StatusOr<work> done = space_->prefetch(range, to);
    stamp();
    if (done.ok()) {
        const std::uint64_t blocks = segments_for(range.offset % segment_bytes + range.bytes);
        extra_ns_ += cost_of(*done) + machine_.block_ns * static_cast<double>(blocks);
    }
    return done.status();
}

absl::Status paging_model::populate(byte_range range, processor at) {
    const absl::StatusOr<work> done = space_->populate(range, at);
    stamp();
    if (done.ok()) {
        extra_ns_ += cost_of(*done);
    }
    return done.status();
}

void paging_model::record(event_log* log) {
    log_ = log;
    space_->record(log);
}

/// Gives the events of a service or a call, which has ended now, their time.
void paging_model::stamp() {
    if (log_ != nullptr) {
        log_->stamp(now_);
    }
}

/// Adds the batch, which has ended now, and its faults to the log, if there is one.
/// @param services  VA blocks serviced in it
void paging_model::note_batch(nanoseconds begin, std::uint64_t services, std::uint64_t flushed) {
    if (log_ == nullptr) {
        return;
    }
    const auto batch = static_cast<std::uint32_t>(log_->batches.size());
    for (const fault& f : batch_.faults) {
        log_->faults.push_back({f.arrival, f.page, batch, f.write});
    }
    log_->batches.push_back({begin, now_, static_cast<std::uint32_t>(batch_.faults.size()), batch_.duplicates,
                             static_cast<std::uint32_t>(services), static_cast<std::uint32_t>(flushed)});
}

/// A kernel begins at the driver's clock, with an empty fault buffer, and ends when its last warp ends. The driver's
/// clock is then set to that time: work of the driver for which no warp waits does not delay the next kernel.
absl::StatusOr<result> paging_model::run(access_source& source) {
    if (source.bytes() > space_->bytes()) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "paging model: the accesses are to %u bytes, the managed space has %u: create the model with as many",
            source.bytes(), space_->bytes()));
    }
    const nanoseconds start = now_;
    buffer_ = {};
    awake_ = false;
    gpu_warps warps(machine_, *space_, buffer_, source, counters_.get(), start);
    if (policy_ == paging_policy::throttling_fetch) {
        throttle_.emplace(machine_, std::max(1u, warps.sms()));
    }
    std::uint64_t steps = 0;
    std::uint64_t idle_passes = 0;
    while (warps.alive()) {
        absl::Status status;
        // Nothing to service: the driver sleeps, and the warps run a slice. If all warps waited, the buffer would not
        // be empty: after each replay the first waiting warp of a micro-TLB sends a fault.
        if (buffer_.empty()) {
            awake_ = false;
            // The SMs that may run have no warp left: the others go on.
            if (throttle_ && warps.next_ready() == never) {
                warps.allow(throttle_->release(), std::max(now_, warps.end()));
            }
            status = warps.advance(std::max(now_, warps.next_ready()) + idle_slice);
        } else {
            status = serve_batch(warps);
        }
        if (!status.ok()) {
            return status;
        }
        // A service may bring pages that another one evicts before the warp could use them; some passes without a step
        // are therefore normal.
        idle_passes = warps.steps() == steps ? idle_passes + 1 : 0;
        steps = warps.steps();
        if (idle_passes > max_idle_batches) {
            return absl::AbortedError(absl::StrFormat(
                "paging model: %u batches without progress: a step needs more memory than there is (%u chunks)",
                max_idle_batches, space_->capacity_chunks()));
        }
    }
    result r;
    now_ = warps.end();
    space_->counts().seconds = (static_cast<double>(now_ - start) + std::exchange(extra_ns_, 0.0)) * 1e-9;
    warps.add_to(space_->counts());
    space_->close(r);
    return r;
}

/// Services one batch: `uvm_gpu_replayable_faults.c: uvm_parent_gpu_service_replayable_faults`; rules F1 and F4. The
/// buffer is not empty. Errors: those of `gpu_warps::advance`.
absl::Status paging_model::serve_batch(gpu_warps& warps) {
    // After a replay the driver checks once more; if there are no faults, it sleeps until an interrupt.
    const nanoseconds first = buffer_.first_arrival();
    const nanoseconds look = now_ + whole(machine_.refetch_ns);
    now_ = awake_ && first <= look ? look : std::max(now_, first + whole(machine_.wake_ns));
    if (absl::Status status = warps.advance(now_); !status.ok()) {
        return status;
    }
    buffer_.fetch(now_, machine_.batch_entries, batch_);
    result& counts = space_->counts();
    ++counts.batches;
    counts.raw_faults += batch_.faults.size();
    const nanoseconds begin = now_;
    const std::uint64_t services = counts.block_services;
    if (absl::Status status = serve_blocks(warps); !status.ok()) {
        return status;
    }
    // Whole numbers, so that the comparison is exact: more than `update_put_percent` of the entries were duplicates.
    const bool update_put =
        batch_.duplicates * std::uint64_t{100} > batch_.faults.size() * std::uint64_t{machine_.update_put_percent};
    const std::uint64_t flushed = buffer_.flush(now_, update_put);
    counts.flushed_faults += flushed;
    note_batch(begin, counts.block_services - services, flushed);
    warps.replay(now_);
    if (history_) {
        history_->end_batch();
    }
    if (throttle_) {
        warps.allow(throttle_->end_batch(), now_);
    }
    awake_ = true;
    return absl::OkStatus();
}

/// Services the batch's faults in the order of addresses, one service for each VA block that has any: rule F3,
/// `uvm_gpu_replayable_faults.c: service_fault_batch`. The cost of the batch itself is part of the first block's time.
absl::Status paging_model::serve_blocks(gpu_warps& warps) {
    double cost = machine_.batch_ns;
    const std::vector<fault>& faults = batch_.faults;
    for (std::size_t i = 0; i < faults.size();) {
        const std::uint32_t index = space_->block_of(faults[i].page);
        const va_block& block = space_->block(index);
        const std::uint64_t base = managed_space::first_page(block.segment);
        // The faults are sorted by page, so that those of a block follow each other. A page with a write fault is not
        // noted as a read: its write entries come first.
        block_faults in_block;
        for (; i < faults.size() && faults[i].page < base + block.pages.end; ++i) {
            const auto page = static_cast<std::uint32_t>(faults[i].page - base);
            if (faults[i].write) {
                in_block.write.add(page);
            } else if (!in_block.write.test(page)) {
                in_block.read.add(page);
            }
        }
        const work done =
            space_->service(index, in_block, history_ ? history_->threshold_of(index) : prefetch_threshold);
        cost += machine_.block_ns + cost_of(done);
        if (history_) {
            cost += machine_.monitor_ns;
            history_->note(index, in_block.all().count());
        }
        if (throttle_) {
            throttle_->note(done.returns != 0);
        }
        // Pages are accessible once their block has been served: warps that run meanwhile do not see them earlier.
        // The rest, less than a nanosecond, is carried on to the next block, so that rounding does not add up.
        const nanoseconds taken = whole(cost);
        cost -= static_cast<double>(taken);
        now_ += taken;
        stamp();
        if (absl::Status status = warps.advance(now_); !status.ok()) {
            return status;
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard::uvm_model
