// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/traces/replay_plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "uvm/geometry/layout.hpp"

namespace orchard::traces {
namespace {

using action = replay_step::action;

constexpr std::uint32_t lanes_of_warp = simt::warp_size;

/// Returns how a block was asked for: as by `malloc` if the event does not say anything that a heap can do.
block_request request_of(const event& e) {
    const block_request asked = block_request::from_word(e.detail);
    const bool is_known = (asked.kind == request_kind::aligned && asked.log <= segment_shift) ||
                          (asked.kind == request_kind::array && is_tile(std::uint64_t{1} << asked.log)) ||
                          asked.kind == request_kind::zeroed;
    return is_known ? asked : block_request{};
}

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
        end_batch(plan_.blocks.size());
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
    /// A group of lanes of which not all have come.
    struct open_group {
        block_request asked;
        std::size_t first;     ///< the step of the warp's lane 0 in `steps_`
        std::uint32_t left;    ///< lanes that are still to come
        std::uint32_t passed;  ///< those that have come, or have gone on without it; a bit for each
    };

    void allocate(const event& e) {
        const auto number = static_cast<std::uint32_t>(plan_.blocks.size());
        const auto [at, is_new] = in_use_.try_emplace(e.at, number);
        if (!is_new) {
            ++plan_.unknown;
            at->second = number;
        }
        plan_.blocks.push_back({e.bytes, 0, 0, request_of(e)});
        plan_.is_live.push_back(true);
        owner_.push_back(e.thread);
        ++plan_.allocations;
        bytes_ += e.bytes;
        plan_.peak_bytes = std::max(plan_.peak_bytes, bytes_);
        if (plan_.blocks.back().asked.kind == request_kind::array) {
            return allocate_together(e.thread, number);
        }
        if (steps_.size() >= most_steps_) {
            end_batch(number);
        }
        add(e.thread, {number, action::allocate});
    }

    /// Takes the array of a lane: into a group of its warp that has begun and that it may join, or as the first one of
    /// a group. Several groups of a warp may report at the same time.
    void allocate_together(std::uint32_t thread, std::uint32_t number) {
        replay_block& block = plan_.blocks[number];
        block.array = plan_.arrays++;
        const std::uint32_t lane = 1u << thread % lanes_of_warp;
        std::vector<open_group>* groups = &groups_[thread / lanes_of_warp];
        auto group = std::ranges::find_if(
            *groups, [&](const open_group& g) { return g.asked == block.asked && (g.passed & lane) == 0; });
        if (group == groups->end()) {
            if (steps_.size() >= most_steps_) {
                end_batch(number);
                groups = &groups_[thread / lanes_of_warp];
            }
            groups->push_back(begin_group(thread / lanes_of_warp, block.asked));
            group = std::prev(groups->end());
        }
        steps_[group->first + thread % lanes_of_warp].step = {number, action::allocate_together};
        --group->left;
        std::for_each(groups->begin(), std::next(group), [&](open_group& g) { g.passed |= lane; });
        std::erase_if(*groups, [](const open_group& g) { return g.left == 0; });
    }

    open_group begin_group(std::uint32_t warp, block_request asked) {
        has_groups_ = true;
        const open_group begun{asked, steps_.size(), asked.lanes, 0};
        for (std::uint32_t lane = 0; lane < lanes_of_warp; ++lane) {
            steps_.push_back({warp * lanes_of_warp + lane, {}});
        }
        return begun;
    }

    /// Adds a request that a thread makes alone. It joins none of the groups that have begun, as each thread keeps its
    /// order.
    void add(std::uint32_t thread, replay_step step) {
        if (const auto groups = groups_.find(thread / lanes_of_warp); groups != groups_.end()) {
            for (open_group& g : groups->second) {
                g.passed |= 1u << thread % lanes_of_warp;
            }
        }
        steps_.push_back({thread, step});
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
            end_batch(plan_.blocks.size());
        }
        add(e.thread, {number, action::free});
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

    /// The threads of a kernel are those of the record, by their numbers, so that neighbours stay neighbours; with
    /// groups, all threads of their warps.
    /// @param next  number of the first block that the next batch may allocate
    void end_batch(std::size_t next) {
        if (steps_.empty()) {
            return;
        }
        std::ranges::stable_sort(steps_, {}, &placed_step::thread);
        replay_batch batch;
        const std::uint32_t together = has_groups_ ? lanes_of_warp : 1;
        for (std::size_t i = 0; i < steps_.size();) {
            const std::uint32_t first = steps_[i].thread / together * together;
            for (std::uint32_t lane = 0; lane < together; ++lane) {
                batch.first.push_back(static_cast<std::uint32_t>(i));
                for (; i < steps_.size() && steps_[i].thread == first + lane; ++i) {
                    batch.steps.push_back(steps_[i].step);
                }
            }
        }
        batch.first.push_back(static_cast<std::uint32_t>(steps_.size()));
        plan_.batches.push_back(std::move(batch));
        steps_.clear();
        groups_.clear();
        has_groups_ = false;
        first_of_batch_ = static_cast<std::uint32_t>(next);
    }

    std::uint64_t most_steps_;
    replay_plan plan_;
    absl::flat_hash_map<std::uint64_t, std::uint32_t> in_use_;  ///< by offset: number of the block
    std::vector<std::uint32_t> owner_;                          ///< of each block: the thread that allocated it
    std::vector<placed_step> steps_;                            ///< of the batch that is being made
    absl::flat_hash_map<std::uint32_t, std::vector<open_group>> groups_;  ///< by warp, in their order
    bool has_groups_ = false;                                             ///< of that batch
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
