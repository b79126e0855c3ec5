// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "host/segment_service.hpp"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace orchard {

using mailbox::answer_status;

segment_service::segment_service(mailbox_server server, growth& grower, std::size_t shard, std::uint32_t ahead,
                                 portion_policy policy)
    : server_{server},
      grower_{grower},
      shard_{shard},
      line_{grower.line(shard)},
      first_{to_underlying(line_.range.first)},
      ahead_{ahead},
      tree_{line_.range.count, false},
      directory_{line_.range.count},
      portions_{{line_.range.count, policy}} {
    parked_.reserve(server_.shape().slots);
    take_up_growth();
    keep_ahead();
    publish_counts();
}

std::uint32_t segment_service::poll_once() {
    counters_.polls.add(1);
    server_.beat();
    if (line_.committed.load<simt::order::relaxed>() != committed_) {
        take_up_growth();
    }
    if (!parked_.empty()) {
        retry_parked();
    }
    std::uint32_t handled = 0;
    for (mailbox::post p; handled < batch && server_.next(&p); ++handled) {
        handle(p);
    }
    server_.flush();
    if (handled != 0) {
        counters_.busy_polls.add(1);
        keep_ahead();
        publish_counts();
    }
    return handled;
}

void segment_service::handle(const mailbox::post& p) {
    switch (p.kind) {
        case mailbox::post_kind::grant: handle_grant(p); break;
        case mailbox::post_kind::give_back: handle_give_back(p); break;
        default:
            counters_.pings.add(1);
            server_.answer({answer_status::acknowledged, p.slot, p.tag, {segment_index{0}, 0}});
    }
}

void segment_service::answer(const parked_post& p, segment_index first, std::uint32_t count) {
    counters_.grants.add(1);
    server_.answer({answer_status::granted, p.slot, p.tag, {first + first_, count}});
}

/// A run of free segments, which are granted now.
std::optional<segment_index> segment_service::take_segments(std::uint32_t count) {
    const auto found = count == 1 ? tree_.take_lowest() : tree_.take_run(count);
    if (found) {
        (void)directory_.grant({*found, count}).ok();  // cannot fail: the tree holds exactly what is free
    }
    return found;
}

/// A place for a tail of its own: in a VA block that has portions, else in one that joins them.
std::optional<portion> segment_service::place_tail(leaf_count leaves) {
    if (const auto found = portions_.take(leaves)) {
        return found;
    }
    const auto fresh = take_segments(1);
    if (!fresh) {
        return std::nullopt;
    }
    (void)portions_.join(*fresh);  // cannot fail: it was free
    return portions_.take_leftmost(*fresh, leaves);
}

bool segment_service::try_grant(const parked_post& p) {
    if (p.count == 0) {
        const auto tail = place_tail(p.leaves);
        if (tail) {
            answer(p, tail->block, to_underlying(tail->first));
        }
        return tail.has_value();
    }
    const auto found = take_segments(p.most_segments());
    if (!found) {
        return false;
    }
    if (to_underlying(p.leaves) != 0) {
        // The last segment joins those of portions, and the tail is its leftmost.
        (void)portions_.join(*found + p.count);
        (void)portions_.take_leftmost(*found + p.count, p.leaves);
    }
    answer(p, *found, 0);
    return true;
}

/// For the magazine: as many as there are in one piece, up to what was asked for.
void segment_service::handle_refill(const mailbox::post& p) {
    // Where a shorter run will do, none is too long.
    const std::uint32_t most = std::min({p.run.count, mailbox::max_refill, line_.range.count});
    // Where memory is scarce, or somebody waits for some, nothing goes into a magazine: who needs it asks for it.
    const std::uint64_t left = tree_.free_count() + (line_.range.count - committed_);
    const bool scarce = left * 8 < line_.range.count || !parked_.empty();
    const std::uint32_t count = scarce ? 0 : tree_.find_run(most) ? most : std::min(most, tree_.longest_run());
    const auto found = count != 0 ? take_segments(count) : std::nullopt;
    if (found) {
        answer({p.slot, p.tag, count, leaf_count{0}}, *found, count);
    } else {
        refuse_grant({p.slot, p.tag, most, leaf_count{0}});
    }
}

void segment_service::handle_grant(const mailbox::post& p) {
    const parked_post request{p.slot, p.tag, p.run.count, p.leaves};
    if (portion_leaves(portions_.shape().policy, p.leaves) != p.leaves) {
        // No portion has so many leaves: it would be a segment, or more of them.
        counters_.refused.add(1);
        server_.answer({answer_status::refused, p.slot, p.tag, {segment_index{0}, 0}});
    } else if (is_closing() || request.most_segments() == 0 ||
               (request.most_segments() > line_.range.count && !p.or_fewer)) {
        refuse_grant(request);
    } else if (p.or_fewer) {
        handle_refill(p);
    } else if (!try_grant(request)) {
        if (committed_ == line_.range.count) {
            return refuse_grant(request);
        }
        counters_.parked.add(1);
        parked_.push_back(request);
        // At least what is missing; keep_ahead adds the margin. A commit that failed is tried again: memory may have
        // become free elsewhere since.
        grower_.want(shard_, std::min(line_.range.count, committed_ + request.most_segments()));
    }
}

void segment_service::refuse_grant(const parked_post& p) {
    answer_status why = answer_status::out_of_memory;
    if (is_closing()) {
        why = answer_status::closing;
    } else if (p.most_segments() == 0 || p.most_segments() > line_.range.count) {
        why = answer_status::too_large;
    } else if (line_.failed.load<simt::order::acquire>() != 0) {
        why = answer_status::commit_failed;
    } else if (tree_.free_count() >= p.most_segments()) {
        why = answer_status::fragmented;
    }
    server_.answer({why, p.slot, p.tag, {segment_index{0}, 0}});
}

/// Segments are free again; false, and nothing has changed, where they were not granted or hold portions.
bool segment_service::take_back(segment_run local) {
    for (std::uint32_t i = 0; i < local.count; ++i) {
        if (portions_.contains(local.first + i)) {
            return false;
        }
    }
    if (!directory_.give_back(local).ok()) {
        return false;
    }
    (void)tree_.give_back(local);  // cannot fail: the directory has checked every segment
    return true;
}

/// A portion is free again; its VA block too, where it was the last.
bool segment_service::take_back_portion(segment_index block, leaf_index first) {
    const auto p = portions_.portion_at(block, first);
    if (!p) {
        return false;
    }
    if (portions_.release(*p) == portion_release::emptied) {
        (void)portions_.leave(block);
        (void)take_back({block, 1});
    }
    return true;
}

void segment_service::handle_give_back(const mailbox::post& p) {
    counters_.returns.add(1);
    const segment_index block{to_underlying(p.run.first) - first_};
    const bool of_portion = p.run.count >= mailbox::post::portion_at;
    const bool ok = of_portion ? take_back_portion(block, leaf_index{p.run.count - mailbox::post::portion_at})
                               : take_back({block, p.run.count});
    if (!ok) {
        counters_.refused.add(1);
    }
    server_.answer({ok ? answer_status::acknowledged : answer_status::refused, p.slot, p.tag, {segment_index{0}, 0}});
}

void segment_service::retry_parked() {
    // Before what was committed last is taken up: a failure says that no more came behind it.
    const bool failed = line_.failed.load<simt::order::acquire>() != 0;
    if (line_.committed.load<simt::order::relaxed>() != committed_) {
        take_up_growth();
    }
    const bool hopeless = is_closing() || committed_ == line_.range.count || failed;
    std::erase_if(parked_, [&](const parked_post& p) {
        if (!is_closing() && try_grant(p)) {
            return true;
        }
        if (hopeless) {
            refuse_grant(p);
        }
        return hopeless;
    });
    if (!parked_.empty()) {
        grower_.want(shard_, std::min(line_.range.count, committed_ + parked_.front().most_segments()));
    }
    publish_counts();
}

void segment_service::take_up_growth() {
    const std::uint32_t now = line_.committed.load<simt::order::acquire>();
    const segment_run fresh{segment_index{committed_}, now - committed_};
    if (directory_.commit(fresh).ok() && tree_.give_back(fresh)) {
        committed_ = now;
    }
    publish_counts();
}

void segment_service::keep_ahead() {
    if (committed_ < line_.range.count && tree_.free_count() < ahead_) {
        grower_.want(shard_, committed_ + (ahead_ - tree_.free_count()));
    }
}

void segment_service::publish_counts() {
    const std::uint32_t granted = directory_.count(segment_state::granted);
    counters_.segments_granted.set(granted);
    counters_.portions.set(portions_.portions());
    counters_.portion_blocks.set(portions_.blocks());
    counters_.peak_segments_granted.raise_to(granted);
    counters_.segments_free.set(tree_.free_count());
    counters_.segments_committed.set(committed_);
}

absl::Status segment_service::validate() const {
    if (auto s = tree_.validate(); !s.ok()) {
        return s;
    }
    if (auto s = directory_.validate(tree_); !s.ok()) {
        return s;
    }
    if (auto s = portions_.validate(directory_); !s.ok()) {
        return s;
    }
    const std::uint32_t uncommitted = directory_.count(segment_state::uncommitted);
    if (uncommitted + committed_ != line_.range.count) {
        return absl::InternalError(absl::StrFormat("shard %d: %d segments committed, %d uncommitted, of %d", shard_,
                                                   committed_, uncommitted, line_.range.count));
    }
    return absl::OkStatus();
}

bool segment_service::is_granted(segment_index i) const {
    return directory_.state(segment_index{to_underlying(i) - first_}) == segment_state::granted;
}

}  // namespace orchard
