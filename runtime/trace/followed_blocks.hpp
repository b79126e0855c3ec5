// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "host/events/event.hpp"

namespace orchard {

/// A block that is in use, as the events so far say.
struct live_block {
    std::uint64_t bytes = 0;  ///< that were asked for
    std::uint64_t time_ns = 0;
    std::uint32_t thread = 0;
    std::uint32_t tag = 0;
};

/// The blocks in use after a number of events. Events of other kinds than blocks change nothing.
class followed_blocks {
public:
    /// The effect of an event.
    enum class effect {
        none,       ///< no event of a block
        allocated,  ///< there is a new block
        freed,      ///< `before` is a block no longer
        tagged,     ///< the block that was `before` has another tag
        unknown,    ///< a free, or a tag, of no block in use
        doubled,    ///< a new block where one is in use, which is gone: its free is missing
    };
    struct change {
        effect what = effect::none;
        live_block before{};
        live_block after{};
    };

    change take(const event& e) {
        switch (e.kind) {
            case event_kind::block_allocated: {
                const live_block made{e.bytes, e.time_ns, e.thread, 0};
                const auto [at, is_new] = blocks_.try_emplace(e.at, made);
                const live_block before = at->second;
                at->second = made;
                return {is_new ? effect::allocated : effect::doubled, before, made};
            }
            case event_kind::block_freed: {
                const auto at = blocks_.find(e.at);
                if (at == blocks_.end()) {
                    return {effect::unknown};
                }
                const live_block before = at->second;
                blocks_.erase(at);
                return {effect::freed, before};
            }
            case event_kind::block_tagged: {
                const auto at = blocks_.find(e.at);
                if (at == blocks_.end()) {
                    return {effect::unknown};
                }
                const live_block before = at->second;
                if (e.bytes == 0) {
                    at->second.tag = e.detail;
                } else if (const auto from = blocks_.find(e.bytes - 1); from != blocks_.end()) {
                    at->second.tag = from->second.tag;
                }
                return {effect::tagged, before, at->second};
            }
            default: return {};
        }
    }

    [[nodiscard]] const absl::flat_hash_map<std::uint64_t, live_block>& blocks() const { return blocks_; }

private:
    absl::flat_hash_map<std::uint64_t, live_block> blocks_;  ///< by offset
};

}  // namespace orchard
