// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The committed runs of a super chunk; each is the run of one commit call. A backing checks its caller with it: a
/// commit of memory that is committed, or a decommit of another run than was committed, is an error and not a
/// corruption.

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "uvm/geometry/geometry.hpp"

namespace orchard::detail {

/// Disjoint runs, each with a `Record` of its commit: whatever the backing needs to undo it. Not thread-safe: the
/// thread that commits uses it, and the destructor of the backing. Cost of each function: logarithmic in the number of
/// runs.
///
/// Runs do not overlap, so that their first segments identify them:
///
///     add [0, +4)     runs_   0 -> 4
///     add [8, +2)     runs_   0 -> 4, 8 -> 2
///     check_free [2, +4)      FailedPrecondition: [0, +4) are committed already
///     check_free [4, +4)      OK
///     find [0, +2)            FailedPrecondition: a part of a run is not a run
///     find [8, +2)            the record of [8, +2)
///
/// @tparam Record  copied by `find`
template <class Record>
class committed_runs {
public:
    /// Creates an empty set for a super chunk of `segments` segments.
    explicit committed_runs(std::uint32_t segments) : segments_{segments} {}

    /// Returns OK if `run` may be committed. Errors: OutOfRange for an empty run or one that is not inside the super
    /// chunk; FailedPrecondition if a part is already committed, with the run that has it.
    [[nodiscard]] absl::Status check_free(segment_run run) const {
        const std::uint32_t first = to_underlying(run.first);
        if (run.count == 0 || std::uint64_t{first} + run.count > segments_) {
            return absl::OutOfRangeError(
                absl::StrFormat("cannot commit segments [%d, +%d): there are %d", first, run.count, segments_));
        }
        // Of the runs that begin before the end of `run`, only the last can overlap it.
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

    /// Adds a run, for which `check_free` has returned OK.
    void add(segment_run run, Record record) {
        runs_.emplace(to_underlying(run.first), entry{run.count, std::move(record)});
    }

    /// Returns the record of exactly this run. Errors: FailedPrecondition if no single commit had these segments, even
    /// if all of them are committed.
    [[nodiscard]] absl::StatusOr<Record> find(segment_run run) const {
        const auto found = runs_.find(to_underlying(run.first));
        if (found == runs_.end() || found->second.count != run.count) {
            return absl::FailedPreconditionError(
                absl::StrFormat("cannot decommit segments [%d, +%d): no commit was of exactly these",
                                to_underlying(run.first), run.count));
        }
        return found->second.record;
    }

    /// Removes a run, for which `find` has returned a record: its segments may be committed again.
    void remove(segment_run run) { runs_.erase(to_underlying(run.first)); }

    /// Calls `f(record)` for each run, in the order of addresses.
    template <class F>
    void for_each(F&& f) const {
        for (const auto& [first, kept] : runs_) {
            f(kept.record);
        }
    }

private:
    /// A run without its first segment, which is the key.
    struct entry {
        std::uint32_t count;
        Record record;
    };
    std::uint32_t segments_;
    std::map<std::uint32_t, entry> runs_;  // keyed by first segment
};

}  // namespace orchard::detail
