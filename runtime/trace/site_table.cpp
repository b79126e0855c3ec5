// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/trace/site_table.hpp"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/options/byte_size.hpp"
#include "runtime/trace/site_names.hpp"

namespace orchard {
namespace {

void add(site_usage& s, const live_block& b) {
    s.live_bytes += b.bytes;
    ++s.live_blocks;
    s.peak_bytes = std::max(s.peak_bytes, s.live_bytes);
}
void remove(site_usage& s, const live_block& b) {
    s.live_bytes -= b.bytes;
    --s.live_blocks;
}

}  // namespace

void site_table::take(std::span<const event> events) {
    const std::scoped_lock lock(mutex_);
    for (const event& e : events) {
        count(blocks_.take(e));
    }
}

void site_table::lost(std::uint64_t count) {
    const std::scoped_lock lock(mutex_);
    missing_ += count;
}

/// A tag that arrives after the block moves the whole block to the tag, as if it had been there from the start.
void site_table::count(const followed_blocks::change& c) {
    using effect = followed_blocks::effect;
    switch (c.what) {
        case effect::none: return;
        case effect::unknown: ++missing_; return;
        case effect::doubled:
            ++missing_;
            remove(sites_[c.before.tag], c.before);
            [[fallthrough]];
        case effect::allocated: {
            site_usage& s = sites_[c.after.tag];
            add(s, c.after);
            ++s.allocations;
            s.allocated_bytes += c.after.bytes;
            return;
        }
        case effect::freed: return remove(sites_[c.before.tag], c.before);
        case effect::tagged: {
            site_usage& from = sites_[c.before.tag];
            remove(from, c.before);
            --from.allocations;
            from.allocated_bytes -= c.before.bytes;
            site_usage& to = sites_[c.after.tag];
            add(to, c.after);
            ++to.allocations;
            to.allocated_bytes += c.after.bytes;
            return;
        }
    }
}

std::vector<site_usage> site_table::usage() const {
    std::vector<site_usage> all;
    {
        const std::scoped_lock lock(mutex_);
        for (const auto& [tag, s] : sites_) {
            if (s.allocations != 0) {
                all.push_back(s);
                all.back().tag = tag;
            }
        }
    }
    for (site_usage& s : all) {
        s.name = name_of_tag(s.tag);
    }
    std::ranges::sort(all, std::greater{},
                      [](const site_usage& s) { return std::tuple(s.live_bytes, s.allocated_bytes, s.tag); });
    return all;
}

std::uint64_t site_table::missing() const {
    const std::scoped_lock lock(mutex_);
    return missing_;
}

std::string leak_report(const std::vector<site_usage>& sites) {
    std::string text;
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
    for (const site_usage& s : sites) {
        if (s.live_blocks != 0) {
            absl::StrAppendFormat(&text, "%12s in %9d blocks, of %d allocated: %s\n", format_bytes(s.live_bytes),
                                  s.live_blocks, s.allocations, s.name);
            bytes += s.live_bytes;
            blocks += s.live_blocks;
        }
    }
    return blocks == 0
               ? ""
               : absl::StrFormat("blocks that were not freed: %d, %s in all\n%s", blocks, format_bytes(bytes), text);
}

}  // namespace orchard
