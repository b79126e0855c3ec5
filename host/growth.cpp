// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "host/growth.hpp"

#include <algorithm>

namespace orchard {
namespace {

/// Addresses are free again: they join those beside them.
void add_gap(std::map<std::uint32_t, std::uint32_t>& gaps, std::uint32_t first, std::uint32_t count) {
    auto next = gaps.lower_bound(first);
    if (next != gaps.end() && next->first == first + count) {
        count += next->second;
        next = gaps.erase(next);
    }
    if (next != gaps.begin()) {
        const auto before = std::prev(next);
        if (before->first + before->second == first) {
            before->second += count;
            return;
        }
    }
    gaps.emplace_hint(next, first, count);
}

/// Takes up to `count` of the addresses at which a gap begins.
segment_run take_from(std::map<std::uint32_t, std::uint32_t>& gaps, std::map<std::uint32_t, std::uint32_t>::iterator at,
                      std::uint32_t count) {
    const auto [first, room] = *at;
    gaps.erase(at);
    count = std::min(count, room);
    if (count < room) {
        gaps.emplace(first + count, room - count);
    }
    return {segment_index{first}, count};
}

}  // namespace

growth::growth(backing& memory, std::vector<segment_run> ranges, extent_sizes sizes, preparation prepare)
    : memory_{memory},
      sizes_{memory.decommits_at_once() ? extent_sizes{1, 1} : sizes},
      prepare_{std::move(prepare)},
      at_once_{memory.decommits_at_once()},
      lines_(ranges.size()),
      gaps_(ranges.size()),
      pieces_(ranges.size()) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        growth_line& line = lines_[i];
        line.range = ranges[i];
        line.most = line.range.count;
        const std::uint32_t first = to_underlying(line.range.first);
        const std::uint32_t at_start = memory.committed_at_start();
        const std::uint32_t committed = at_start > first ? std::min(at_start - first, line.range.count) : 0;
        if (committed != 0) {
            (void)line.ready.push({{segment_index{0}, committed}, memory_tier::device});
        }
        if (committed < line.range.count) {
            add_gap(gaps_[i], committed, line.range.count - committed);
        }
        line.committed.store<simt::order::relaxed>(committed);
        line.begun.store<simt::order::relaxed>(committed);
        line.wanted.store<simt::order::relaxed>(committed);
    }
}

void growth::limit(std::uint32_t segments, bool by_range) {
    by_range_ = by_range;
    for (growth_line& line : lines_) {
        line.most = std::min(line.range.count, segments);
    }
}

std::uint32_t growth::device_left() const {
    const memory_use use = memory_.use();
    return static_cast<std::uint32_t>((use.device_budget - std::min(use.device_budget, use.device_bytes)) >>
                                      segment_shift);
}

void growth::wake() {
    signal_.fetch_add<simt::order::release>(1);  // pairs with the acquire in run()
    signal_.notify_all();
}

void growth::want_ahead(std::size_t shard, std::uint64_t segments) {
    growth_line& line = lines_[shard];
    if (segments > line.wanted.load<simt::order::relaxed>()) {
        line.wanted.store<simt::order::release>(segments);
        wake();
    }
}

void growth::want(std::size_t shard, std::uint64_t segments) {
    lines_[shard].needed.store<simt::order::relaxed>(segments);  // released with `wanted`
    if (why_failed(shard) == failure_reason::none) {
        // Should one fail just now, the requests that wait learn of it.
        want_ahead(shard, segments);
        return;
    }
    growth_line& line = lines_[shard];
    line.failed.store<simt::order::relaxed>(0);
    // What was asked for when it failed may be far more than is asked for now.
    line.wanted.store<simt::order::release>(segments);
    wake();
}

bool growth::release(std::size_t shard, const extent& e) {
    if (!lines_[shard].released.push(e)) {
        return false;
    }
    given_up_.fetch_add<simt::order::release>(1);  // pairs with `decommit_all`: it finds the extent
    wake();
    return true;
}

void growth::note(absl::Status error) {
    const std::scoped_lock lock(error_mutex_);
    error_ = std::move(error);
}

/// Returns how many segments to commit next: of what is wanted beyond `have`, as much as one tier still has in its
/// budget; 0 where nothing is needed and the device has too little free to commit ahead.
std::uint32_t growth::choose_size(const growth_line& line, std::uint64_t have, std::uint64_t wanted) const {
    const std::uint64_t needed = std::max(line.needed.load<simt::order::relaxed>(), have) - have;
    std::uint64_t size = std::clamp<std::uint64_t>(wanted - have, sizes_.least, sizes_.most);
    if (size > needed) {
        size = std::min(size, std::max(needed, memory_.free_device_bytes() / 8 >> segment_shift));
    }
    const memory_use use = memory_.use();
    for (const std::uint64_t left : {use.device_budget - std::min(use.device_budget, use.device_bytes),
                                     use.host_budget - std::min(use.host_budget, use.host_bytes)}) {
        if (left >= segment_bytes) {
            return static_cast<std::uint32_t>(std::min<std::uint64_t>(size, left >> segment_shift));
        }
    }
    return static_cast<std::uint32_t>(size);
}

commit_outcome growth::commit_once(segment_run run) {
    if (absl::Status s = prepare_ ? prepare_(run) : absl::OkStatus(); !s.ok()) {
        return {std::move(s), memory_tier::device, failure_reason::commit_failed};
    }
    return memory_.commit(run);
}

/// Commits as much of a run as there is memory for in one piece, and leaves so much of it.
commit_outcome growth::commit(segment_run* run) {
    for (;;) {
        begin_call();
        commit_outcome done = commit_once(*run);
        end_call();
        if (done.ok() || done.why != failure_reason::commit_failed || !absl::IsResourceExhausted(done.status) ||
            run->count == 1) {
            return done;
        }
        run->count /= 2;
    }
}

/// Returns up to `count` addresses that have no memory: where a run goes on that a request waits for, else the lowest
/// in a gap with room for one, else the lowest.
segment_run growth::take_addresses(std::size_t shard, std::uint32_t count) {
    gaps& all = gaps_[shard];
    if (all.empty()) {
        return {segment_index{0}, 0};
    }
    piece& p = pieces_[shard];
    const std::uint32_t longest = lines_[shard].longest.load<simt::order::relaxed>();
    auto at = all.end();
    if (longest > 1 && p.missing != 0) {
        at = all.find(p.next);
    } else if (longest > 1) {
        at = std::find_if(all.begin(), all.end(), [&](const auto& gap) { return gap.second >= longest; });
        p.missing = longest;
    }
    if (at == all.end()) {
        at = all.begin();
        p.missing = 0;
    }
    return take_from(all, at, count);
}

/// Tells a shard's service that a commit has failed.
void growth::note_failure(growth_line& line, commit_outcome why) {
    note(std::move(why.status));
    line.failed_at.store<simt::order::relaxed>(seen_);
    line.failed.store<simt::order::release>(static_cast<std::uint32_t>(why.why));
    line.failures.fetch_add<simt::order::release>(1);
}

bool growth::commit_wanted(std::size_t shard) {
    growth_line& line = lines_[shard];
    const std::uint64_t have = line.committed.load<simt::order::relaxed>();
    const std::uint64_t wanted = line.wanted.load<simt::order::acquire>();
    if (have >= wanted || line.failed.load<simt::order::relaxed>() != 0 || line.ready.is_full()) {
        return false;
    }
    const std::uint32_t size = choose_size(line, have, wanted);
    if (size == 0) {
        note_failure(line,
                     {absl::ResourceExhaustedError("the device has too little free to commit memory ahead of demand"),
                      memory_tier::device, failure_reason::commit_failed});
        return true;
    }
    const segment_run taken = take_addresses(shard, size);
    if (taken.count == 0) {
        return false;
    }
    line.begun.store<simt::order::release>(have + taken.count);
    segment_run run{line.range.first + to_underlying(taken.first), taken.count};
    const commit_outcome done = commit(&run);
    const std::uint32_t count = done.ok() ? run.count : 0;
    if (count < taken.count) {
        add_gap(gaps_[shard], to_underlying(taken.first) + count, taken.count - count);
    }
    if (done.ok()) {
        (void)line.ready.push({{taken.first, count}, done.tier});
        line.committed.store<simt::order::release>(have + count);  // pairs with the service's acquire
    } else {
        note_failure(line, done);
    }
    line.begun.store<simt::order::release>(have + count);
    piece& p = pieces_[shard];
    p = {to_underlying(taken.first) + count, done.ok() ? p.missing - std::min(p.missing, count) : 0};
    return true;
}

/// Whether it did anything. No more than were under way at once, so that other shards get their turn.
bool growth::decommit_released(std::size_t shard) {
    growth_line& line = lines_[shard];
    bool did = false;
    // What cannot be taken back goes back to the service, so that nothing is lost.
    for (std::uint32_t i = 0; i < run_ring::capacity && !line.ready.is_full(); ++i) {
        const auto e = line.released.pop();
        if (!e) {
            break;
        }
        did = true;
        begin_call();
        const absl::Status s = memory_.decommit({line.range.first + to_underlying(e->run.first), e->run.count});
        end_call();
        if (s.ok()) {
            add_gap(gaps_[shard], to_underlying(e->run.first), e->run.count);
            line.decommitted.fetch_add<simt::order::release>(e->run.count);
        } else {
            note(s);
            (void)line.ready.push(*e);
            line.committed.fetch_add<simt::order::release>(e->run.count);
            line.taken_again.fetch_add<simt::order::release>(e->run.count);
        }
    }
    return did;
}

/// What was given up before, of all shards; whether it did anything.
bool growth::decommit_all() {
    const std::uint32_t before = given_up_.load<simt::order::acquire>();
    bool did = false;
    bool left = false;
    for (std::size_t shard = 0; shard < lines_.size(); ++shard) {
        did |= decommit_released(shard);
        left = left || lines_[shard].ready.is_full();
    }
    // Where some had to be left, a commit that fails now does not say that the budgets are spent.
    seen_ = left ? before - 1 : before;
    return did;
}

bool growth::step() {
    bool did = decommit_all();
    for (std::size_t shard = 0; shard < lines_.size(); ++shard) {
        did |= commit_wanted(shard);
    }
    return did;
}

void growth::start() {
    thread_ = std::thread([this] { run(); });
}

void growth::run() {
    for (;;) {
        // Before all that it may have been raised for, so that nothing is slept through.
        const std::uint32_t seen = signal_.load<simt::order::acquire>();
        if (stopping_.load<simt::order::acquire>() != 0) {
            return;
        }
        if (!step()) {
            signal_.wait(seen);
        }
    }
}

void growth::stop() {
    if (thread_.joinable()) {
        stopping_.store<simt::order::release>(1);
        wake();
        thread_.join();
    }
}

absl::Status growth::last_error() const {
    const std::scoped_lock lock(error_mutex_);
    return error_;
}

}  // namespace orchard
