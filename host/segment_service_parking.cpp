// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Requests that wait for memory to be committed, and those that wait no more.

#include <algorithm>

#include "host/segment_service.hpp"

namespace orchard {

using mailbox::answer_status;

void segment_service::park(const parked_post& p) {
    counters_.parked.add(1);
    parked_.push_back(p);
    parked_leaves_ += p.all_leaves();
    // A commit that failed is tried again: memory may have become free elsewhere since.
    want_for_parked(p);
}

/// Has at least as much committed as all who wait ask for, so that growth need not be asked again for each, and enough
/// for `one` of them; keep_ahead adds the margin.
void segment_service::want_for_parked(const parked_post& one) {
    const std::uint64_t all = (parked_leaves_ + leaves_per_segment - 1) / leaves_per_segment;
    const std::uint64_t missing = std::max<std::uint64_t>(all, one.most_segments());
    want(static_cast<std::uint32_t>(std::min<std::uint64_t>(committed_ + missing, line_.range.count)));
}

void segment_service::retry_parked() {
    // Before what was committed last is taken up: a failure says that no more came behind it.
    const bool failed = line_.failed.load<simt::order::acquire>() != 0;
    if (line_.committed.load<simt::order::relaxed>() != taken_up_) {
        take_up_growth();
    }
    const bool hopeless = is_closing() || committed_ == line_.range.count || failed;
    if (!may_fit_ && !hopeless) {
        return;  // nothing has changed since they were last tried, and more of them only wait behind them
    }
    may_fit_ = false;
    std::erase_if(parked_, [&](const parked_post& p) {
        const bool granted = !is_closing() && try_grant(p);
        if (!granted && hopeless) {
            refuse_grant(p);
        }
        if (granted || hopeless) {
            parked_leaves_ -= p.all_leaves();
        }
        return granted || hopeless;
    });
    // What has been asked for and is still to come may do.
    if (!parked_.empty() && line_.wanted.load<simt::order::relaxed>() <= taken_up_) {
        want_for_parked(parked_.front());
    }
    publish_counts();
    if (parked_.empty() && grower_.releases_at_once()) {
        release_unused(ahead());  // what came back while somebody waited
    }
}

void segment_service::refuse_grant(const parked_post& p) {
    const auto failed = static_cast<failure_reason>(line_.failed.load<simt::order::acquire>());
    answer_status why = answer_status::out_of_memory;
    if (is_closing()) {
        why = answer_status::closing;
    } else if (p.most_segments() == 0 || p.most_segments() > line_.range.count) {
        why = answer_status::too_large;
    } else if (failed == failure_reason::commit_failed) {
        why = answer_status::commit_failed;
    } else if (tree_.free_count() >= p.most_segments()) {
        why = answer_status::fragmented;
    } else if (failed == failure_reason::out_of_memory_host_budget) {
        why = answer_status::out_of_host_budget;
    }
    server_.answer({why, p.slot, p.tag, {segment_index{0}, 0}});
}

}  // namespace orchard
