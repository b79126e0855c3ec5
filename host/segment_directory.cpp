// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The states of segments; see segment_directory.hpp.

#include "host/segment_directory.hpp"

#include <algorithm>
#include <bit>

#include <absl/strings/str_format.h>

namespace orchard {

using detail::bit_of;
using detail::every_word;
using detail::word_bits;

namespace {

// The names of states and changes in messages. The last enumerator breaks out of the switch, which has no default, so
// that a compiler warns of an enumerator that is missing.
const char* name(segment_state state) {
    switch (state) {
        case segment_state::uncommitted: return "uncommitted";
        case segment_state::free: return "free";
        case segment_state::granted: return "granted";
        case segment_state::outside: break;
    }
    return "outside";
}

const char* name(segment_change change) {
    switch (change) {
        case segment_change::commit: return "commit";
        case segment_change::grant: return "grant";
        case segment_change::decommit: return "decommit";
        case segment_change::give_back: break;
    }
    return "give back";
}

// Returns why a segment in state `found` cannot be changed as asked, and what the caller should do. The state `outside`
// has a text of its own (`to_status`).
const char* meaning(segment_change asked, segment_state found) {
    switch (asked) {
        case segment_change::commit: return "memory is committed once; commit only segments that are uncommitted";
        case segment_change::grant:
            return found == segment_state::granted
                       ? "it would have two owners; take segments from the OR-tree before granting them"
                       : "it has no memory; commit it before granting it";
        case segment_change::decommit:
            return found == segment_state::granted ? "it is in use; decommit only what is free"
                                                   : "it has no memory; decommit only what is committed";
        case segment_change::give_back: break;
    }
    return found == segment_state::free ? "it was returned twice, or never granted; return each granted run once"
                                        : "it was never granted; return only what was granted";
}

}  // namespace

absl::Status to_status(const segment_verdict& verdict) {
    if (verdict.ok()) {
        return absl::OkStatus();
    }
    const std::uint32_t index = to_underlying(verdict.offender);
    if (verdict.found == segment_state::outside) {
        return absl::OutOfRangeError(absl::StrFormat(
            "cannot %s segment %u: it is outside the super chunk; the run's first segment or count is wrong",
            name(verdict.asked), index));
    }
    return absl::FailedPreconditionError(absl::StrFormat("cannot %s segment %u: it is %s: %s", name(verdict.asked),
                                                         index, name(verdict.found),
                                                         meaning(verdict.asked, verdict.found)));
}

// Words of zeros: all segments are uncommitted.
segment_directory::segment_directory(std::uint32_t segments)
    : size_(std::min(segments, max_segments)), words_(detail::words_for(size_)) {}

// The change of a run of any length. The part of the run that lies inside is checked first, so that the offender
// reported is the lowest one; a run that reaches beyond the end is rejected as a whole. A run may come from a request
// of a kernel and hold any numbers, so that no sum of `first` and `count` is computed, which could overflow.
//
//     100 segments    run [90, 110), all inside as needed       offender 100, outside
//                     run [90, 110), 95 in a wrong state        offender 95, in that state
//                     run [200, 210)                            offender 200, outside
template <segment_change Change>
segment_verdict segment_directory::change_many(segment_run run) {
    const std::uint32_t first = to_underlying(run.first);
    if (run.count == 0) {
        return {};
    }
    const std::uint32_t inside = std::min(run.count, size_ - std::min(size_, first));
    segment_verdict verdict{.asked = Change};
    every_word(first, inside, [&](std::size_t w, std::uint64_t mask) {
        const std::uint64_t bad = wrong<Change>(words_[w], mask);
        if (bad != 0) {
            verdict.offender = segment_index{static_cast<std::uint32_t>(w) * word_bits +
                                             static_cast<std::uint32_t>(std::countr_zero(bad))};
            verdict.found = state(verdict.offender);
        }
        return bad == 0;
    });
    if (verdict.ok() && inside != run.count) {
        // `no_segment` as the offender would mean success.
        verdict.offender = segment_index{std::min(std::max(first, size_), to_underlying(no_segment) - 1)};
        verdict.found = segment_state::outside;
    }
    if (verdict.ok()) {
        every_word(first, inside, [&](std::size_t w, std::uint64_t mask) {
            apply<Change>(words_[w], mask);
            return true;
        });
        account<Change>(run.count);
    }
    return verdict;
}

// The four changes, for the header's `change`, which calls them from other files.
template segment_verdict segment_directory::change_many<segment_change::commit>(segment_run);
template segment_verdict segment_directory::change_many<segment_change::grant>(segment_run);
template segment_verdict segment_directory::change_many<segment_change::give_back>(segment_run);
template segment_verdict segment_directory::change_many<segment_change::decommit>(segment_run);

// `granted` is tested first, since a granted segment has both bits.
segment_state segment_directory::state(segment_index i) const {
    const std::uint32_t index = to_underlying(i);
    if (index >= size_) {
        return segment_state::outside;
    }
    const states& s = words_[index / word_bits];
    return (s.granted & bit_of(index)) != 0     ? segment_state::granted
           : (s.committed & bit_of(index)) != 0 ? segment_state::free
                                                : segment_state::uncommitted;
}

// Computed from two counts: all segments are `size_`, those with memory `committed_`, and of these `granted_` are
// granted.
std::uint32_t segment_directory::count(segment_state state) const {
    switch (state) {
        case segment_state::uncommitted: return size_ - committed_;
        case segment_state::free: return committed_ - granted_;
        case segment_state::granted: return granted_;
        case segment_state::outside: break;
    }
    return 0;
}

// Compares word by word with the tree, whose bits past the end must be 0, as the directory's must. A word is checked
// first for states that are impossible, then against the tree; the counts come last.
absl::Status segment_directory::validate(const or_tree& tree) const {
    if (tree.size() != size_) {
        return absl::InternalError(
            absl::StrFormat("segment_directory: covers %u segments, its OR-tree %u; create both with the same size",
                            size_, tree.size()));
    }
    const auto bits = tree.free_words();
    std::uint32_t committed = 0;
    std::uint32_t granted = 0;
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
        const states& s = words_[w];
        const std::uint32_t used = std::min(word_bits, size_ - w * word_bits);
        const std::uint64_t impossible = (s.granted & ~s.committed) | (s.committed & ~detail::bits_from(0, used));
        const auto segment = [w](std::uint64_t bad) {
            return w * word_bits + static_cast<std::uint32_t>(std::countr_zero(bad));
        };
        if (impossible != 0) {
            return absl::InternalError(absl::StrFormat(
                "segment_directory: segment %u is granted without memory, or lies past the %u that are covered",
                segment(impossible), size_));
        }
        if (const std::uint64_t differ = bits[w] ^ (s.committed & ~s.granted); differ != 0) {
            const std::uint32_t i = segment(differ);
            return absl::InternalError(absl::StrFormat("segment_directory: segment %u is %s, but %s in the OR-tree", i,
                                                       name(state(segment_index{i})),
                                                       tree.is_free(segment_index{i}) ? "free" : "taken"));
        }
        committed += static_cast<std::uint32_t>(std::popcount(s.committed));
        granted += static_cast<std::uint32_t>(std::popcount(s.granted));
    }
    if (committed != committed_ || granted != granted_) {
        return absl::InternalError(
            absl::StrFormat("segment_directory: counts %u committed and %u granted segments, its words hold %u and %u",
                            committed_, granted_, committed, granted));
    }
    return absl::OkStatus();
}

}  // namespace orchard
