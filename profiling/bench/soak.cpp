// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Arithmetic of the soak on the host: rates, the length of launches, descriptions of errors.

#include "profiling/bench/soak.hpp"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace orchard::bench::soak {
namespace {

/// Returns the rate over the first launches of a sequence that made a tenth of `all`.
template <class Iterator>
double rate_of_tenth(Iterator begin, Iterator end, std::uint64_t all) {
    std::uint64_t done = 0;
    double us = 0;
    // Stops at the launch with which the tenth is full.
    for (; begin != end && done * 10 < all; ++begin) {
        done += begin->allocations;
        us += begin->us;
    }
    return us > 0 ? static_cast<double>(done) / us : 0;
}

}  // namespace

tenths rates_of_tenths(std::span<const sample> launches) {
    std::uint64_t all = 0;
    for (const sample& s : launches) {
        all += s.allocations;
    }
    return {rate_of_tenth(launches.begin(), launches.end(), all),
            // The same sequence from its end: the last tenth.
            rate_of_tenth(launches.rbegin(), launches.rend(), all)};
}

std::uint32_t next_rounds(const plan& p, std::uint32_t rounds, double us) {
    constexpr double launches = 50;
    // Half of the rounds allocate.
    // The rounds of one launch if all of them were shared by 50 launches.
    const double share = static_cast<double>(p.allocations) / launches / (static_cast<double>(p.threads) / 2);
    const double in_time = us > 0 ? rounds * p.launch_us / us : 4.0 * rounds;
    // At most a million rounds, whatever the time of the last launch was.
    const double wanted = std::min({4.0 * rounds, in_time, share, 1e6});
    return static_cast<std::uint32_t>(std::max(1.0, wanted));
}

absl::Status status_of(const counts& c, const mismatch& first) {
    if (c.mismatches == 0) {
        return absl::OkStatus();
    }
    const std::uint64_t slot = first.slot.get();
    const std::uint64_t id = first.id.get();
    // The slot's key has 16 bits of the block's hash: a first word whose hash has others was overwritten.
    std::string found = absl::StrFormat("its first word is %#x, which is no id of the block that was put there", id);
    if (((hash_of(id) ^ slot) & ~address_mask) == 0) {
        found = absl::StrFormat("it is number %d of thread %d, but its last word is %#x and should be %#x",
                                id & 0xffffffffu, id >> 32, first.last.get(), hash_of(id));
    }
    return absl::InternalError(absl::StrFormat(
        "%d blocks did not carry their tags, after %d allocations; the first was found by thread %d at %#x: %s",
        c.mismatches, c.allocations, first.thread.get(), slot & address_mask, found));
}

absl::Status expect_count(const char* what, std::uint64_t found, std::uint64_t expected) {
    return found == expected ? absl::OkStatus()
                             : absl::InternalError(absl::StrFormat("at the end the heap says %d %s, expected %d", found,
                                                                   what, expected));
}

}  // namespace orchard::bench::soak
