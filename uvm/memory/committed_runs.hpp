// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Which runs of a super chunk are committed, each as one call committed it.

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "uvm/geometry/geometry.hpp"

namespace orchard::detail {

/// Runs that do not overlap, each with a `Record` of how it was committed.
template <class Record>
class committed_runs {
public:
    explicit committed_runs(std::uint32_t segments) : segments_{segments} {}

    /// Whether `run` may be committed. Errors: OutOfRange; FailedPrecondition where a part is committed already.
    [[nodiscard]] absl::Status check_free(segment_run run) const {
        const std::uint32_t first = to_underlying(run.first);
        if (run.count == 0 || std::uint64_t{first} + run.count > segments_) {
            return absl::OutOfRangeError(
                absl::StrFormat("cannot commit segments [%d, +%d): there are %d", first, run.count, segments_));
        }
        // Of the runs that begin before this one's end, only the last can reach into it.
        const auto after = runs_.lower_bound(first + run.count);
        if (after == runs_.begin()) {
            return absl::OkStatus();
        }
        const auto& [other, kept] = *std::prev(after);
        return other + kept.count <= first ? absl::OkStatus()
                                           : absl::FailedPreconditionError(absl::StrFormat(
                                                 "cannot commit segments [%d, +%d): [%d, +%d) are committed already",
                                                 first, run.count, other, kept.count));
    }

    void add(segment_run run, Record record) {
        runs_.emplace(to_underlying(run.first), entry{run.count, std::move(record)});
    }

    /// The record of exactly this run. Errors: FailedPrecondition where no commit was of these segments.
    [[nodiscard]] absl::StatusOr<Record> find(segment_run run) const {
        const auto found = runs_.find(to_underlying(run.first));
        if (found == runs_.end() || found->second.count != run.count) {
            return absl::FailedPreconditionError(
                absl::StrFormat("cannot decommit segments [%d, +%d): no commit was of exactly these",
                                to_underlying(run.first), run.count));
        }
        return found->second.record;
    }

    void remove(segment_run run) { runs_.erase(to_underlying(run.first)); }

    template <class F>
    void for_each(F&& f) const {
        for (const auto& [first, kept] : runs_) {
            f(kept.record);
        }
    }

private:
    struct entry {
        std::uint32_t count;
        Record record;
    };
    std::uint32_t segments_;
    std::map<std::uint32_t, entry> runs_;  // by first segment
};

}  // namespace orchard::detail
