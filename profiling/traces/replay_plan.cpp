// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/traces/replay_plan.hpp"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace orchard::traces {
namespace {

/// Makes the plan, event by event.
class planning {
public:
    explicit planning(std::uint64_t most_steps) : most_steps_{most_steps} {}

    void take(const event& e) {
        switch (e.kind) {
            case event_kind::block_allocated: return allocate(e);
            case event_kind::block_freed: return free(e);
            case event_kind::block_tagged: return tag(e);
            case event_kind::shortage: ++plan_.shortages; return;
            default: return;
        }
    }

    replay_plan finish() {
        end_batch();
        // A tag may have come after its batch: the block has the last one from the start.
        for (replay_batch& b : plan_.batches) {
            for (replay_step& s : b.steps) {
                s.tag = plan_.blocks[s.block].tag;
            }
        }
        for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
            if (plan_.is_live[i]) {
                ++plan_.at_end[{plan_.blocks[i].bytes, plan_.blocks[i].tag}];
            }
        }
        return std::move(plan_);
    }

private:
    struct placed_step {
        std::uint32_t thread;
        replay_step step;
    };

    void allocate(const event& e) {
        const auto number = static_cast<std::uint32_t>(plan_.blocks.size());
        const auto [at, is_new] = in_use_.try_emplace(e.at, number);
        if (!is_new) {
            ++plan_.unknown;
            at->second = number;
        }
        plan_.blocks.push_back({e.bytes, number, e.detail});
        plan_.is_live.push_back(true);
        owner_.push_back(e.thread);
        ++plan_.allocations;
        bytes_ += e.bytes;
        plan_.peak_bytes = std::max(plan_.peak_bytes, bytes_);
        if (steps_.size() >= most_steps_) {
            end_batch();
        }
        steps_.push_back({e.thread, plan_.blocks.back()});
    }

    void free(const event& e) {
        const auto at = in_use_.find(e.at);
        if (at == in_use_.end()) {
            ++plan_.unknown;
            return;
        }
        const std::uint32_t number = at->second;
        in_use_.erase(at);
        plan_.is_live[number] = false;
        ++plan_.frees;
        bytes_ -= plan_.blocks[number].bytes;
        if (steps_.size() >= most_steps_ || (number >= first_of_batch_ && owner_[number] != e.thread)) {
            end_batch();
        }
        steps_.push_back({e.thread, {0, number, 0}});
    }

    void tag(const event& e) {
        const auto at = in_use_.find(e.at);
        if (at == in_use_.end()) {
            ++plan_.unknown;
            return;
        }
        std::uint32_t& tag = plan_.blocks[at->second].tag;
        if (e.bytes == 0) {
            tag = e.detail;
        } else if (const auto from = in_use_.find(e.bytes - 1); from != in_use_.end()) {
            tag = plan_.blocks[from->second].tag;
        }
    }

    /// The threads of a kernel are those of the record, by their numbers, so that neighbours stay neighbours.
    void end_batch() {
        if (steps_.empty()) {
            return;
        }
        std::ranges::stable_sort(steps_, {}, &placed_step::thread);
        replay_batch batch;
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            if (i == 0 || steps_[i].thread != steps_[i - 1].thread) {
                batch.first.push_back(static_cast<std::uint32_t>(i));
            }
            batch.steps.push_back(steps_[i].step);
        }
        batch.first.push_back(static_cast<std::uint32_t>(steps_.size()));
        plan_.batches.push_back(std::move(batch));
        steps_.clear();
        first_of_batch_ = static_cast<std::uint32_t>(plan_.blocks.size());
    }

    std::uint64_t most_steps_;
    replay_plan plan_;
    absl::flat_hash_map<std::uint64_t, std::uint32_t> in_use_;  ///< by offset: number of the block
    std::vector<std::uint32_t> owner_;                          ///< of each block: the thread that allocated it
    std::vector<placed_step> steps_;                            ///< of the batch that is being made
    std::uint32_t first_of_batch_ = 0;  ///< blocks from this one on were allocated in that batch
    std::uint64_t bytes_ = 0;
};

}  // namespace

replay_plan plan_replay(const std::vector<event>& events, std::uint64_t most_steps) {
    planning p(most_steps);
    for (const event& e : events) {
        p.take(e);
    }
    return p.finish();
}

}  // namespace orchard::traces
