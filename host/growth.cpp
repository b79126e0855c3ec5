// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The growth thread; see growth.hpp.
///
///     run()                       the thread's loop; sleeps if a step did nothing
///       step()
///         give_advice()             backing::advise_segments
///         decommit_released()       first: backing::decommit; frees budget, adds the addresses to the gaps
///           pop_released()            one extent; if the backing decommits at once, its neighbours with it
///         commit_wanted()           one extent, if more is wanted
///           choose_size()             how many segments, within the budgets
///           take_addresses()          where: continue a long run, or the first gap, or the lowest addresses
///           commit()                  prepares metadata, backing::commit; halves the run if memory is short
///           note_failure()            stops commits until the service wants more

#include "host/growth.hpp"

#include <algorithm>

#include "host/monotonic_clock.hpp"

namespace orchard {
namespace {

/// Adds addresses that have become free to the gaps, and joins adjacent gaps: a request for a long run needs gaps as
/// long as they really are. Cost: logarithmic in the number of gaps.
void add_gap(std::map<std::uint32_t, std::uint32_t>& gaps, std::uint32_t first, std::uint32_t count) {
    auto next = gaps.lower_bound(first);
    if (next != gaps.end() && next->first == first + count) {
        count += next->second;
        next = gaps.erase(next);
    }
    if (next != gaps.begin()) {
        // The gap below, if it ends where the new one begins, is made longer in place.
        const auto before = std::prev(next);
        if (before->first + before->second == first) {
            before->second += count;
            return;
        }
    }
    gaps.emplace_hint(next, first, count);
}

/// Takes up to `count` addresses from the beginning of a gap, and returns them; the rest stays a gap.
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

/// `committed`, `begun` and `wanted` begin with the segments that the backing has committed from the start: none is
/// missing.
growth::growth(backing& memory, extent_sizes sizes, preparation prepare)
    : memory_{memory},
      sizes_{memory.decommits_at_once() ? extent_sizes{1, sizes.most} : sizes},
      prepare_{std::move(prepare)},
      at_once_{memory.decommits_at_once()},
      takes_advice_{memory.takes_advice()} {
    line_.segments = memory.usable_segments();
    line_.most = line_.segments;
    // The segments committed from the start are one extent, on the device.
    const std::uint32_t committed = std::min(memory.committed_at_start(), line_.segments);
    if (committed != 0) {
        (void)line_.ready.push({{segment_index{0}, committed}, memory_tier::device});
    }
    if (committed < line_.segments) {
        add_gap(gaps_, committed, line_.segments - committed);
    }
    line_.committed.store<simt::order::relaxed>(committed);
    line_.begun.store<simt::order::relaxed>(committed);
    line_.wanted.store<simt::order::relaxed>(committed);
}

void growth::limit(std::uint32_t segments, bool by_range) {
    by_range_ = by_range;
    line_.most = std::min(line_.segments, segments);
}

/// The two numbers need not be of the same moment: the minimum keeps the difference from wrapping around to nearly
/// 2^64.
std::uint32_t growth::device_left() const {
    const memory_use use = memory_.use();
    return static_cast<std::uint32_t>((use.device_budget - std::min(use.device_budget, use.device_bytes)) >>
                                      segment_shift);
}

void growth::wake() {
    // Raised even if the thread is awake: it reads the number before each step, so that work which appears during the
    // step makes it do another one.
    signal_.fetch_add<simt::order::release>(1);  // pairs with the acquire in run()
    signal_.notify_all();
}

/// Stores and wakes only if the number rises: the service calls this in every turn with traffic.
void growth::want_ahead(std::uint64_t segments) {
    // Relaxed: only the service writes `wanted`.
    if (segments > line_.wanted.load<simt::order::relaxed>()) {
        // Releases `needed` to the acquire in `commit_wanted`.
        line_.wanted.store<simt::order::release>(segments);
        wake();
    }
}

void growth::want(std::uint64_t segments) {
    line_.needed.store<simt::order::relaxed>(segments);  // the store to `wanted` releases it
    if (why_failed() == failure_reason::none) {
        // If a commit fails at this moment, the waiting requests learn of it and ask again.
        want_ahead(segments);
        return;
    }
    // Relaxed: the release of `wanted` below orders it. The growth thread acquires `wanted`, and then sees no failure.
    line_.failed.store<simt::order::relaxed>(0);
    // The amount wanted when the commit failed may be far more than is needed now; hence a store, not a maximum.
    line_.wanted.store<simt::order::release>(segments);
    wake();
}

void growth::want_apart(std::uint32_t segments) {
    // Relaxed: the release of `wanted` in `want` orders it. The other extents that are wanted come all the same.
    line_.apart.store<simt::order::relaxed>(segments);
    want(line_.wanted.load<simt::order::relaxed>() + segments);
}

/// The extent is in the ring before it is counted: `decommit_released` reads the count first, and must then find at
/// least so many extents.
bool growth::release(const extent& e) {
    if (!line_.released.push(e)) {
        return false;
    }
    given_up_.fetch_add<simt::order::release>(1);  // pairs with `decommit_released`, which then finds the extent
    wake();
    return true;
}

bool growth::advise(segment_run run, advice_code advice) {
    if (!line_.advise.push({run, memory_tier::device, advice})) {
        return false;
    }
    wake();
    return true;
}

/// Gives all advice that was asked for. Returns true if there was any. An error is noted, and the segments count as
/// advised all the same: advice is a hint, and a group waits for the memory.
bool growth::give_advice() {
    bool did = false;
    while (const auto e = line_.advise.pop()) {
        did = true;
        begin_call();
        absl::Status s = memory_.advise_segments(e->run, e->advice);
        end_call();
        if (!s.ok()) {
            note(std::move(s));
        }
        line_.advised.fetch_add<simt::order::release>(1);  // pairs with the acquire in `segment_service::end_advice`
    }
    return did;
}

/// Keeps an error for `last_error`; an older one is replaced.
void growth::note(absl::Status error) {
    const std::scoped_lock lock(error_mutex_);
    error_ = std::move(error);
}

/// Returns the number of segments to commit next: the number wanted beyond `have`, as far as the budget of one tier
/// allows. Returns 0 if none is needed and the device has too little free memory to commit ahead. Called if wanted >
/// have.
///
/// An example with extents of 32 to 1,024 segments, have = 100, wanted = 105, of which 101 are needed:
///
///     clamp(105 - 100, 32, 1024) = 32     one extent at least, since a small one costs as much time
///     needed = 1                          the other 31 are ahead of demand, so that the GPU's free memory limits them:
///     400 MiB free                        an eighth is 25 segments: 25 are committed
///     10 MiB free                         an eighth is 0 segments: 1 is committed, since a request waits for it
///
/// An extent never lies on two tiers: the first tier that has room for a segment limits it. If none has room, the
/// backing is called nevertheless and gives the reason.
std::uint32_t growth::choose_size(std::uint64_t have, std::uint64_t wanted) const {
    const std::uint64_t needed = std::max(line_.needed.load<simt::order::relaxed>(), have) - have;
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

/// Prepares the metadata of a run, then commits the run. The metadata comes first: a segment that the service hands out
/// must have all of its metadata. Metadata that was prepared stays, even if the commit fails.
commit_outcome growth::commit_once(segment_run run) {
    if (absl::Status s = prepare_ ? prepare_(run) : absl::OkStatus(); !s.ok()) {
        return {std::move(s), memory_tier::device, failure_reason::commit_failed};
    }
    return memory_.commit(run);
}

/// Commits `*run`, or as much of it as there is memory for: halves it after each failure for lack of memory. Leaves the
/// committed part in `*run`. Returns the last outcome: an error if not even one segment could be committed, if a budget
/// is spent, or if the driver failed for another reason. In the last two cases the run is not halved. Cost: at most
/// log2 of the run's length failed calls. Each call is timed by itself for `is_blocked`.
commit_outcome growth::commit(segment_run* run) {
    // A run of 100 segments is tried with 100, 50, 25, 12, 6, 3 and 1.
    for (;;) {
        begin_call();
        const std::uint64_t began_ns = monotonic_ns();
        commit_outcome done = commit_once(*run);
        commit_ns_.note(monotonic_ns() - began_ns);
        end_call();
        if (done.ok() || done.why != failure_reason::commit_failed || !absl::IsResourceExhausted(done.status) ||
            run->count == 1) {
            return done;
        }
        run->count /= 2;
    }
}

/// Takes up to `count` addresses without memory: those that continue a run that a request waits for, else the first of
/// a gap with room for such a run, else the lowest. Returns an empty run if there are no addresses left. Lowest first,
/// so that the memory in use stays dense and whole extents above it become free.
///
///     gaps [10, 40) and [100, 300), a run of 80 is needed, extents of 32:
///
///     take 32    the first gap with room for 80       [100, 132)    80 are missing: 48 after the commit
///     take 32    continues at 132                     [132, 164)    16 are missing
///     take 32    continues at 164                     [164, 196)    none is missing
///     take 32    the run has come: a new one begins, in the first gap that has room, while `longest` asks for one
///
/// If the addresses that continue the run are gone, or no gap is long enough, the lowest are taken: they serve other
/// requests. The first segment of the gap becomes a fence if `fence_extents` says so: of a gap [32, 128), 32 segments
/// are then [33, 65). Cost: a walk over the gaps if a run of several segments is needed.
segment_run growth::take_addresses(std::uint32_t count) {
    if (gaps_.empty()) {
        return {segment_index{0}, 0};
    }
    const std::uint32_t longest = line_.longest.load<simt::order::relaxed>();
    auto at = gaps_.end();
    bool continues = false;
    if (longest > 1 && piece_.missing != 0) {
        at = gaps_.find(piece_.next);
        continues = at != gaps_.end();
    } else if (longest > 1) {
        at = std::find_if(gaps_.begin(), gaps_.end(), [&](const auto& gap) { return gap.second >= longest; });
        piece_.missing = longest;
    }
    if (at == gaps_.end()) {
        at = gaps_.begin();
        piece_.missing = 0;
    }
    const bool has_room = at->second > std::max(count, longest);
    return continues || !has_room ? take_from(gaps_, at, count) : take_fenced(at, count);
}

/// Takes `count` addresses from the beginning of a gap that has more, behind a fence if extents get one.
///
/// A segment more than the budgets allow stays free. Without it, a request beyond them would find no addresses to
/// commit, and nothing would tell it that the budgets are spent.
segment_run growth::take_fenced(gaps::iterator at, std::uint32_t count) {
    const bool has_spare = line_.most + fences_.size() + 1 < line_.segments;
    if (!fences_extents_ || !has_spare) {
        return take_from(gaps_, at, count);
    }
    const segment_run taken = take_from(gaps_, at, count + 1);
    fences_.insert(to_underlying(taken.first));
    return {taken.first + 1, count};
}

/// Takes `count` addresses for an extent of its own: from the first gap that has room for fences on both sides, else as
/// any other addresses. The fence behind the extent is that in front of the next one.
segment_run growth::take_addresses_apart(std::uint32_t count) {
    const auto at = std::find_if(gaps_.begin(), gaps_.end(), [&](const auto& gap) { return gap.second >= count + 2; });
    return at == gaps_.end() ? take_addresses(count) : take_fenced(at, count);
}

/// Makes addresses without memory a gap again, and the fence in front of them, if there is one.
void growth::free_addresses(segment_run run) {
    std::uint32_t first = to_underlying(run.first);
    std::uint32_t count = run.count;
    if (first != 0 && fences_.erase(first - 1) != 0) {
        --first;
        ++count;
    }
    add_gap(gaps_, first, count);
}

/// Tells the service that a commit failed. The first release pairs with `why_failed`, for `failed_at` and for the
/// extents that were pushed to `ready` before; the second one with the acquire in `heap::impl::grow`, which waits for a
/// change of `failures`, since `failed` may be cleared before it looks.
void growth::note_failure(commit_outcome why) {
    note(std::move(why.status));
    line_.failed_at.store<simt::order::relaxed>(seen_);
    line_.failed.store<simt::order::release>(static_cast<std::uint32_t>(why.why));
    line_.failures.fetch_add<simt::order::release>(1);
}

/// Commits one extent if more is wanted than there is. Returns true if it tried, even without success. Nothing is done
/// after a failure until `want` clears it, nor while the ring has no room for the extent: the service empties the ring
/// and then wakes this thread.
bool growth::commit_wanted() {
    const std::uint64_t have = line_.committed.load<simt::order::relaxed>();
    // Relaxed: only this thread writes `committed`. The acquire of `wanted` pairs with `want`: `needed`, `longest` and
    // the cleared `failed` are then seen.
    const std::uint64_t wanted = line_.wanted.load<simt::order::acquire>();
    const std::uint32_t apart = line_.apart.load<simt::order::relaxed>();
    if ((have >= wanted && apart == 0) || line_.failed.load<simt::order::relaxed>() != 0 || line_.ready.is_full()) {
        return false;
    }
    // 0 can only come from a commit that is ahead of demand (see there).
    const std::uint32_t size = apart != 0 ? apart : choose_size(have, wanted);
    if (size == 0) {
        const std::uint64_t now = report_begin(activity::commit, 1);
        report_end(activity::commit, event_kind::commit_failed, {segment_index{0}, 1},
                   static_cast<std::uint32_t>(failure_reason::commit_failed), now);
        note_failure({absl::ResourceExhaustedError("the device has too little free to commit memory ahead of demand"),
                      memory_tier::device, failure_reason::commit_failed});
        return true;
    }
    const segment_run taken = apart != 0 ? take_addresses_apart(size) : take_addresses(size);
    // No address is left: nothing can be committed before a decommit. The request for an extent of its own must not
    // wait for that.
    if (taken.count == 0) {
        line_.apart.store<simt::order::release>(0);
        return false;
    }
    // Announced before the call, so that a thread that trims the heap can wait for the commit under way. Corrected
    // below, if less or nothing is committed; such a thread then sees a smaller number and stops waiting.
    line_.begun.store<simt::order::release>(have + taken.count);
    segment_run run = taken;
    const std::uint64_t begun_ns = report_begin(activity::commit, taken.count);
    const commit_outcome done = commit(&run);
    const std::uint32_t count = done.ok() ? run.count : 0;
    done.ok() ? report_end(activity::commit, event_kind::commit, {taken.first, count},
                           static_cast<std::uint32_t>(done.tier), begun_ns)
              : report_end(activity::commit, event_kind::commit_failed, {taken.first, taken.count},
                           static_cast<std::uint32_t>(done.why), begun_ns);
    // Addresses for which there was no memory are a gap again.
    if (count < taken.count) {
        free_addresses({taken.first + count, taken.count - count});
    }
    if (apart != 0) {
        line_.apart_at.store<simt::order::relaxed>(to_underlying(taken.first));
    }
    if (done.ok()) {
        // Cannot fail: the ring was not full, and only this thread adds to it. The extent is pushed before it is
        // counted: a service that sees the count finds the extent at its next turn at the latest.
        (void)line_.ready.push({{taken.first, count}, done.tier});
        line_.committed.store<simt::order::release>(
            have + count);  // pairs with the acquire of a host thread that waits for memory
    } else {
        note_failure(done);
    }
    line_.begun.store<simt::order::release>(have + count);
    if (apart != 0) {
        line_.apart.store<simt::order::release>(0);  // pairs with `segment_service::retry_apart`
        return true;
    }
    piece_ = {to_underlying(taken.first) + count, done.ok() ? piece_.missing - std::min(piece_.missing, count) : 0};
    return true;
}

/// Takes the oldest extent that was released out of the ring; returns nothing if there is none. If the backing
/// decommits at once, the next ones come with it, up to `*left` in all, as far as each lies beside those before: its
/// calls wait for the device, and one call then takes back what was returned together. `*left` is lowered by the
/// number taken.
///
///     released  4 5 6 2 3      takes [4, +3), then [2, +2)
std::optional<extent> growth::pop_released(std::uint32_t* left) {
    auto all = line_.released.pop();
    if (!all) {
        return all;
    }
    for (--*left; at_once_ && *left != 0; --*left) {
        const auto next = line_.released.front();
        const bool above = next && next->run.first == all->run.first + all->run.count;
        const bool below = next && all->run.first == next->run.first + next->run.count;
        if (!next || next->tier != all->tier || (!above && !below)) {
            break;
        }
        (void)line_.released.pop();
        all->run = {above ? all->run.first : next->run.first, all->run.count + next->run.count};
    }
    return all;
}

/// Decommits the extents that were released, at most one ring of them, so that a commit gets its turn. Returns true if
/// there were any. An extent is popped only while `ready` has room, because one that cannot be decommitted goes back
/// there. Sets `seen_`, with which a failure is stamped: if as many extents were decommitted before the commit as had
/// ever been given up, then the budgets really are spent.
bool growth::decommit_released() {
    // Pairs with `growth::release`: the extents counted are in the ring.
    const std::uint32_t before = given_up_.load<simt::order::acquire>();
    bool did = false;
    // An extent that cannot be decommitted goes back to the service, so that no memory is lost.
    for (std::uint32_t left = run_ring::capacity; left != 0 && !line_.ready.is_full();) {
        const auto e = pop_released(&left);
        if (!e) {
            break;
        }
        did = true;
        // Advice about these segments that was asked for before they were released is in the ring by now: the pop has
        // acquired it. It must not come after the decommit, when the segments may have another owner.
        (void)give_advice();
        const std::uint64_t begun_ns = report_begin(activity::decommit, e->run.count);
        begin_call();
        const absl::Status s = memory_.decommit(e->run);
        end_call();
        report_end(activity::decommit, event_kind::decommit, s.ok() ? e->run : segment_run{e->run.first, 0},
                   static_cast<std::uint32_t>(e->tier), begun_ns);
        if (s.ok()) {
            // The addresses may be committed again from now on. The release pairs with `segment_service::has_released`.
            free_addresses(e->run);
            line_.decommitted.fetch_add<simt::order::release>(e->run.count);
        } else {
            note(s);
            // Counted as a new commit, because the service has already counted it as given up. `taken_again` tells the
            // service and `heap::trim` that memory came back, so that they do not release it again for ever.
            (void)line_.ready.push(*e);
            line_.committed.fetch_add<simt::order::release>(e->run.count);
            line_.taken_again.fetch_add<simt::order::release>(e->run.count);
        }
    }
    // If some extents could not be decommitted yet, a commit that fails now does not prove that the budgets are spent.
    seen_ = line_.ready.is_full() ? before - 1 : before;
    return did;
}

/// Reports that a call of the backing begins. Returns the time, for `report_end`; 0 if nobody listens.
std::uint64_t growth::report_begin(activity what, std::uint32_t segments) {
    if (reports_.observer != nullptr) {
        reports_.observer->begin(what, std::uint64_t{segments} << segment_shift);
    }
    return reports_.events != nullptr ? simt::clock_ns() : 0;
}

/// Reports that it has ended. A decommit that failed, with an empty run, is no event: the memory is still there.
void growth::report_end(activity what, event_kind kind, segment_run run, std::uint32_t detail, std::uint64_t begun_ns) {
    const std::uint64_t bytes = std::uint64_t{run.count} << segment_shift;
    if (reports_.observer != nullptr) {
        reports_.observer->end(what, kind == event_kind::commit_failed ? 0 : bytes);
    }
    if (reports_.events != nullptr && run.count != 0) {
        const std::uint64_t now = simt::clock_ns();
        reports_.events->emit({.time_ns = now,
                               .at = std::uint64_t{to_underlying(run.first)} << segment_shift,
                               .bytes = bytes,
                               .thread = event_microseconds(now - begun_ns),
                               .detail = detail & 0xff'ffff,
                               .kind = kind});
    }
}

/// The order matters: `seen_`, which `decommit_released` sets, must hold for the commit behind it.
bool growth::step() {
    // First, since a group waits for it.
    const bool advised = give_advice();
    const bool decommitted = decommit_released();
    return commit_wanted() || decommitted || advised;
}

// The thread ends by `ask_to_stop`, which `stop` and the exit of the process call.
void growth::start() {
    thread_.emplace([this] { run(); }, [this] { ask_to_stop(); });
}

/// The loop of the thread. A step that did anything is followed by another one, since its effect may have made room for
/// more, such as budget or addresses.
void growth::run() {
    if (reports_.observer != nullptr) {
        reports_.observer->thread_begins("growth");
    }
    for (;;) {
        // Read before the work that it may signal, so that no signal is lost. Pairs with `wake`.
        const std::uint32_t seen = signal_.load<simt::order::acquire>();
        if (stopping_.load<simt::order::acquire>() != 0) {
            return;
        }
        if (!step()) {
            signal_.wait(seen);
        }
    }
}

void growth::ask_to_stop() {
    // Release: pairs with the acquire in `run`.
    stopping_.store<simt::order::release>(1);
    wake();
}

void growth::stop() {
    if (thread_) {
        thread_->stop();
    }
}

absl::Status growth::last_error() const {
    const std::scoped_lock lock(error_mutex_);
    return error_;
}

}  // namespace orchard
