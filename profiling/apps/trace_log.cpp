// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Entries of a log, and the steps of a trace.

#include "profiling/apps/trace_log.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

#include "uvm/model/trace_file.hpp"

namespace orchard::apps {

namespace {

using applications::page_log;
using uvm_model::access;
using uvm_model::access_kind;

/// Returns the entry as an access whose address counts from `first`.
access access_of(std::uint64_t entry, std::uint64_t first) {
    return {(entry & page_log::address_mask) - first,
            static_cast<std::uint8_t>(entry >> page_log::lane_shift & (max_lanes - 1)),
            (entry & page_log::atomic_bit) != 0 ? access_kind::atomic : access_kind::read};
}

/// Writes the entries of one warp as steps.
absl::Status write_warp(uvm_model::trace_writer& out, std::uint32_t warp, const std::vector<std::uint64_t>& entries,
                        std::uint64_t first) {
    std::vector<access> step;
    std::uint32_t lanes = 0;  // of the step
    absl::Status status;
    const auto finish = [&] {
        std::sort(step.begin(), step.end(), [](const access& a, const access& b) { return a.lane < b.lane; });
        status.Update(step.empty() ? absl::OkStatus() : out.add(warp, step));
        step.clear();
        lanes = 0;
    };
    for (const std::uint64_t entry : entries) {
        const access next = access_of(entry, first);
        if ((lanes >> next.lane & 1) != 0) {
            finish();
        }
        lanes |= std::uint32_t{1} << next.lane;
        step.push_back(next);
    }
    finish();
    return status;
}

}  // namespace

absl::StatusOr<trace_log> trace_log::create(const simt::executor& on, std::uint64_t base, std::uint64_t warps,
                                            std::uint32_t every) {
    if (every == 0 || warps == 0) {
        return absl::InvalidArgumentError("a trace records each n-th warp, where n is at least 1");
    }
    const std::uint64_t recorded = (warps + every - 1) / every;
    const std::uint64_t capacity = std::max<std::uint64_t>(most_bytes / sizeof(std::uint64_t) / recorded, 1);
    auto log = device_array<page_log>::create(on, 1);
    auto used = device_array<simt::device_word<std::uint32_t>>::create(on, recorded);
    auto entries = device_array<std::uint64_t>::create(on, recorded * capacity);
    auto kept = device_array<std::uint32_t>::create(on, recorded * max_lanes * page_log::kept_words);
    absl::Status status = log.status();
    status.Update(used.status());
    status.Update(entries.status());
    status.Update(kept.status());
    if (!status.ok()) {
        return status;
    }
    trace_log made;
    made.log_ = *std::move(log);
    made.used_ = *std::move(used);
    made.entries_ = *std::move(entries);
    made.kept_ = *std::move(kept);
    made.view_ = {base / segment_bytes * segment_bytes,
                  every,
                  0,
                  capacity,
                  made.used_.data(),
                  made.entries_.data(),
                  made.kept_.data()};
    status = made.set_active(false);
    return status.ok() ? absl::StatusOr<trace_log>(std::move(made)) : status;
}

absl::Status trace_log::set_active(bool is_active) {
    view_.is_active = is_active ? 1 : 0;
    return log_.upload({&view_, 1});
}

absl::StatusOr<trace_log::result> trace_log::read() const {
    std::vector<simt::device_word<std::uint32_t>> used(used_.size());
    absl::Status status = used_.download(used);
    result found;
    std::vector<std::vector<std::uint64_t>> of_warp(used.size());
    std::uint64_t first = ~std::uint64_t{0};
    std::uint64_t last = 0;
    for (std::size_t w = 0; w < used.size() && status.ok(); ++w) {
        const std::uint64_t wanted = used[w].load<simt::order::relaxed>();
        of_warp[w].resize(std::min(wanted, view_.capacity));
        found.accesses += of_warp[w].size();
        found.lost += wanted - of_warp[w].size();
        status.Update(entries_.download(of_warp[w], w * view_.capacity));
        for (const std::uint64_t entry : of_warp[w]) {
            const std::uint64_t block = (entry & page_log::address_mask) / segment_bytes * segment_bytes;
            first = std::min(first, block);
            last = std::max(last, block);
        }
    }
    if (!status.ok() || found.accesses == 0) {
        return status.ok() ? absl::StatusOr<result>(found) : status;
    }
    std::ostringstream out(std::ios::binary);
    auto writer =
        uvm_model::trace_writer::create(out, last - first + segment_bytes, static_cast<std::uint32_t>(used.size()));
    status.Update(writer.status());
    for (std::size_t w = 0; w < used.size() && status.ok(); ++w) {
        status.Update(write_warp(*writer, static_cast<std::uint32_t>(w), of_warp[w], first));
    }
    if (status.ok()) {
        status.Update(writer->finish());
    }
    found.trace = out.str();
    return status.ok() ? absl::StatusOr<result>(std::move(found)) : status;
}

}  // namespace orchard::apps
