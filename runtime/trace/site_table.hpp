// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "host/events/event_sink.hpp"
#include "runtime/trace/followed_blocks.hpp"

namespace orchard {

/// What the blocks of one tag take: of `malloc(bytes, tag)`, of `ORCHARD_SITE`, or of the host's blocks and all others
/// with the tag 0. Bytes are those that were asked for.
struct site_usage {
    std::uint32_t tag = 0;
    std::string name;  ///< `name_of_tag`
    std::uint64_t live_bytes = 0;
    std::uint64_t live_blocks = 0;
    std::uint64_t peak_bytes = 0;
    std::uint64_t allocations = 0;
    std::uint64_t allocated_bytes = 0;

    friend bool operator==(const site_usage&, const site_usage&) = default;
};

/// Returns a report of the blocks that are in use, by tag, the largest first: one line for each, and a sum; empty if
/// there are none.
std::string leak_report(const std::vector<site_usage>& sites);

/// Counts the blocks of a heap by tag, from its events.
class site_table final : public event_sink {
public:
    void take(std::span<const event> events) override;
    void lost(std::uint64_t count) override;

    /// Returns what each tag takes, the most bytes in use first, then the most bytes allocated. Any thread may call it.
    [[nodiscard]] std::vector<site_usage> usage() const;
    /// Returns the number of events that are missing: the counts are wrong by up to as many blocks.
    [[nodiscard]] std::uint64_t missing() const;

private:
    void count(const followed_blocks::change& c);

    mutable std::mutex mutex_;
    followed_blocks blocks_;
    std::map<std::uint32_t, site_usage> sites_;
    std::uint64_t missing_ = 0;
};

}  // namespace orchard
