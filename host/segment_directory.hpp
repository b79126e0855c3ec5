// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The host's record of what every segment of a super chunk is.

#include <cstdint>
#include <vector>

#include <absl/status/status.h>

#include "host/or_tree.hpp"
#include "host/word_runs.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard {

/// The state of a segment, as the service knows it. A granted segment may belong to a chunk or a slab, lie in the
/// device's segment cache, or belong to the host (`segment_service::take_for_host`). The directory does not distinguish
/// these.
enum class segment_state : std::uint8_t {
    uncommitted,  ///< has no physical memory
    free,         ///< committed, in the OR-tree
    granted,      ///< handed to the device
    outside,      ///< not a segment of this super chunk
};

/// The kinds of change.
enum class segment_change : std::uint8_t { commit, grant, give_back, decommit };

/// The result of a change: success, or the segment that prevented it. Eight bytes, returned in a register. It is not a
/// `Status`, because the service makes a change for each request and tests only `ok()`; `to_status` makes the text for
/// a caller that wants it.
struct [[nodiscard]] segment_verdict {
    segment_index offender = no_segment;               ///< the first segment that was in a wrong state
    segment_state found = segment_state::uncommitted;  ///< the state of the offender
    segment_change asked = segment_change::commit;     ///< the change asked for
    [[nodiscard]] bool ok() const { return offender == no_segment; }
};

/// Returns `OkStatus`; `OutOfRangeError` if the offender is outside; otherwise `FailedPreconditionError`. The message
/// gives the segment, its state, the change asked for, what that means and what to do instead. Cost: allocates the
/// text.
[[nodiscard]] absl::Status to_status(const segment_verdict& verdict);

/// The state of every segment, two bits each. It distinguishes a right return from a second one, and from a return of
/// memory that was never granted. The OR-tree alone could not, because it knows only free and not free.
///
///     uncommitted --commit--> free --grant--> granted
///                 <-decommit-      <-give_back-
///
///     committed  granted     state
///         0         0        uncommitted
///         1         0        free: exactly these segments are 1 in the OR-tree
///         1         1        granted
///         0         1        impossible
///
/// A change is checked for every segment of its run first, and then made for all or none. An empty run always succeeds.
/// Only the service uses it; not thread-safe. Cost of a change: one word for 64 segments; for a single segment, one
/// load and one store.
class segment_directory {
public:
    /// Creates a directory of uncommitted segments. `segments` is at most `max_segments`; a greater number is reduced
    /// to that (`size()`).
    explicit segment_directory(std::uint32_t segments);

    /// Changes uncommitted segments to free. The offender is committed already, or outside.
    segment_verdict commit(segment_run run) { return change<segment_change::commit>(run); }
    /// Changes free segments to granted. The offender is granted already, uncommitted, or outside.
    segment_verdict grant(segment_run run) { return change<segment_change::grant>(run); }
    /// Changes granted segments to free. The offender is free (returned twice), uncommitted (never granted), or
    /// outside.
    segment_verdict give_back(segment_run run) { return change<segment_change::give_back>(run); }

    /// Changes free segments to uncommitted. The offender is granted, uncommitted already, or outside.
    segment_verdict decommit(segment_run run) { return change<segment_change::decommit>(run); }

    /// Returns the state of segment `i`; `outside` if it is not a segment.
    [[nodiscard]] segment_state state(segment_index i) const;
    /// Returns the number of segments in `state`; 0 for `outside`.
    [[nodiscard]] std::uint32_t count(segment_state state) const;
    /// Returns the number of segments that the directory covers.
    [[nodiscard]] std::uint32_t size() const { return size_; }

    /// Checks the counts, and that the free segments of `tree` are those of the directory. Returns `InternalError`,
    /// which names the first wrong segment or count, if there is one. Cost: O(size / 64).
    [[nodiscard]] absl::Status validate(const or_tree& tree) const;

private:
    friend struct segment_directory_peer;

    /// The states of 64 segments. A granted segment is always committed, too.
    struct states {
        std::uint64_t committed = 0;
        std::uint64_t granted = 0;
    };

    // Returns the segments of `mask` whose state forbids the change: for a commit those that are committed, for a
    // return those that are not granted, and for a grant or a decommit all but the free ones.
    template <segment_change Change>
    static std::uint64_t wrong(const states& s, std::uint64_t mask) {
        return Change == segment_change::commit      ? mask & s.committed
               : Change == segment_change::give_back ? mask & ~s.granted
                                                     : mask & (~s.committed | s.granted);
    }
    // Makes the change for the segments of `mask`, in which `wrong` has found none. Each change flips one of the two
    // bits.
    template <segment_change Change>
    static void apply(states& s, std::uint64_t mask) {
        if constexpr (Change == segment_change::commit || Change == segment_change::decommit) {
            s.committed ^= mask;
        } else {
            s.granted ^= mask;
        }
    }
    // Adds to or subtracts from the count that the change concerns. 0u - n wraps around, so that adding it subtracts n.
    template <segment_change Change>
    void account(std::uint32_t segments) {
        if constexpr (Change == segment_change::commit || Change == segment_change::decommit) {
            committed_ += Change == segment_change::commit ? segments : 0u - segments;
        } else {
            granted_ += Change == segment_change::grant ? segments : 0u - segments;
        }
    }
    // The frequent case, one segment inside, is inlined into the request path; everything else is `change_many`.
    template <segment_change Change>
    segment_verdict change(segment_run run) {
        const std::uint32_t index = to_underlying(run.first);
        if (run.count != 1 || index >= size_) [[unlikely]] {
            return change_many<Change>(run);
        }
        states& s = words_[index / detail::word_bits];
        const std::uint64_t mask = detail::bit_of(index);
        if (wrong<Change>(s, mask) != 0) [[unlikely]] {
            return {run.first, state(run.first), Change};
        }
        apply<Change>(s, mask);
        account<Change>(1);
        return {};
    }
    template <segment_change Change>
    segment_verdict change_many(segment_run run);

    std::uint32_t size_;           ///< number of segments
    std::uint32_t committed_ = 0;  ///< number of free and granted segments
    std::uint32_t granted_ = 0;    ///< number of granted segments
    std::vector<states> words_;    ///< 64 segments each, the lowest in the least significant bit
};

}  // namespace orchard
