// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The elastic backing: a range of addresses into which the growth thread maps memory while kernels run.
///
///     base                                                                base + range
///     | extent on the device | . . . . | extent on the host | . . . . . . . . |
///     | piece | piece | piece            | piece | piece        . no memory
///       piece: handle, tier; one for each commit, or as many as have the size of `move_unit`
///
///     metadata range   | granule | granule | . . . | granule | . . . |      granules get memory with their segments
///
///     commit            check_free, then for the device and for the host:
///                         allows       budget, tier
///                         create       memory_driver, piece by piece
///                         join         map each piece, set_access of the run
///                       no tier: spent
///     decommit          find, take_back
///     move              tier_mover: pieces change their tier at the same addresses
///     commit_metadata   commit_granules, for each sequence of granules without memory

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "uvm/memory/committed_runs.hpp"
#include "uvm/memory/driven_backing.hpp"
#include "uvm/memory/tier_mover.hpp"

namespace orchard {
namespace {

/// Addresses that are reserved once, and memory that is mapped into them extent by extent, on the device first and then
/// on the host. docs/backings.md has the behaviour as a user sees it.
///
/// A commit takes the first tier whose budget has room for the run: creates memory, maps it, makes it accessible,
/// records the run. If the device has no memory although its budget has room:
///
///     the host could take the run, > 1 segment    ResourceExhausted: the growth thread halves the run and tries again,
///                                                 since the device may have a smaller piece
///     the host could take the run of 1 segment    the device is short: this run and the next ones go to the host
///     the host could not take it                  ResourceExhausted, with the numbers (`spent`)
///
/// Threads: see `backing`. `device_is_short_` and the counts are atomic; runs and pieces have
/// a mutex, which is held for the calls of one piece or of one run, since other threads move pieces; the record of the
/// metadata has one, since the host reads metadata while the growth thread commits more.
class elastic_backing final : public detail::driven_backing {
public:
    elastic_backing(std::unique_ptr<memory_driver> driver, const elastic_shape& shape, char* base)
        : driven_backing{std::move(driver)},
          shape_{shape},
          segments_{static_cast<std::uint32_t>(shape.range >> segment_shift)},
          base_{base},
          runs_{segments_},
          mover_{this->driver(), counts_, pieces_mutex_, shape.move_unit, shape.checks_moves} {
        counts_.set_budget(memory_tier::device, shape.device_budget);
        counts_.set_budget(memory_tier::host, shape.host_budget);
        counts_.most = shape.device_budget + shape.host_budget;
    }
    ~elastic_backing() override;

    [[nodiscard]] char* base() const override { return base_; }
    [[nodiscard]] std::uint32_t segments() const override { return segments_; }
    [[nodiscard]] std::uint32_t committed_at_start() const override { return 0; }

    commit_outcome commit(segment_run run) override;
    [[nodiscard]] bool can_decommit() const override { return true; }
    absl::Status decommit(segment_run run) override;
    /// If the driver does not answer, commits ahead of demand are not limited by it.
    std::uint64_t free_device_bytes() override {
        const auto memory = driver().device_memory();
        return memory.ok() ? memory->free : ~std::uint64_t{0};
    }
    [[nodiscard]] memory_use use() const override;
    absl::Status limit_device(std::uint64_t bytes) override {
        counts_.set_budget(memory_tier::device, bytes);
        return absl::OkStatus();
    }

    [[nodiscard]] bool can_move() const override { return shape_.move_unit != 0; }
    [[nodiscard]] std::vector<movable_memory> movable() const override;
    absl::Status finish_stream(void* stream) override { return driver().finish_stream(stream); }
    absl::Status move(const std::vector<move_order>& orders) override;
    void give_up_spares() override { mover_.give_up_spares(memory_tier::host, 0); }

    absl::StatusOr<void*> reserve_metadata(std::size_t bytes) override;
    // Mapped memory holds the contents that its last owner left; backing.hpp says why it is not cleared here.
    [[nodiscard]] bool zeroes_all() const override { return false; }
    absl::Status commit_metadata(void* at, std::size_t bytes) override;
    /// Metadata outside every range is from `allocate_metadata` and always there. The answer stays true once it is:
    /// memory of metadata is never given back.
    [[nodiscard]] bool has_metadata(const void* at) override {
        const std::scoped_lock lock(metadata_mutex_);
        const auto* p = static_cast<const char*>(at);
        const metadata_range* range = range_of(p, 1);
        return range == nullptr || range->present[static_cast<std::size_t>(p - range->at) / driver().granularity()];
    }

    absl::Status read(void* to, const void* from, std::size_t n) override;

private:
    using piece = detail::memory_piece;
    /// The pieces of a run, in the order of addresses.
    using pieces = std::vector<std::shared_ptr<piece>>;
    /// A granule or more of metadata, as it was mapped.
    struct metadata_piece {
        char* at = nullptr;
        std::size_t bytes = 0;
        memory_handle memory{};
    };
    /// Addresses for metadata, and the granules of them that have memory.
    struct metadata_range {
        char* at = nullptr;
        std::size_t bytes = 0;
        std::vector<bool> present;
    };

    // The steps of a commit, described at their definitions.
    [[nodiscard]] bool allows(memory_tier tier, std::uint64_t bytes) const;
    [[nodiscard]] commit_outcome spent(std::uint64_t bytes, const absl::Status& failure);
    [[nodiscard]] pieces divide(segment_run run) const;
    absl::Status create(pieces& all, memory_tier tier);
    absl::Status join(pieces& all);
    absl::Status take_back(const pieces& all);
    absl::Status commit_granules(metadata_range& range, std::size_t first, std::size_t count);
    [[nodiscard]] metadata_range* range_of(const char* at, std::size_t bytes);
    elastic_shape shape_;
    std::uint32_t segments_;
    char* base_;
    mutable std::mutex pieces_mutex_;
    detail::committed_runs<pieces> runs_;
    std::uint64_t next_number_ = 0;  // of a piece
    detail::tier_counts counts_;
    detail::tier_mover mover_;
    /// The device could not provide one segment, although the budget allows it. Relaxed: set by the growth thread,
    /// cleared by it and by moves; a commit that misses the change takes the host once more.
    std::atomic<bool> device_is_short_{false};

    // One thread may reserve while another commits.
    std::mutex metadata_mutex_;
    // An element's address and size are constant from its creation on; `present` changes under the mutex.
    std::deque<metadata_range> metadata_;  // a deque, so that its elements do not move
    // To be unmapped by the destructor; nothing else needs them.
    std::vector<metadata_piece> metadata_pieces_;
};

// Collects all that must be undone, and hands it to the driver together with its end: unmapping and releasing memory
// wait for no kernel, so that this heap can end beside kernels of another one.
elastic_backing::~elastic_backing() {
    // No lock: no thread uses the heap any more.
    detail::tier_mover::ending all = mover_.end();
    runs_.for_each([&](const pieces& of_run) {
        for (const std::shared_ptr<piece>& p : of_run) {
            if (p->mapped) {
                all.mapped.emplace_back(p->at, p->bytes);
            }
            if (p->memory.alias != nullptr) {
                all.mapped.emplace_back(p->memory.alias, p->bytes);
            }
            all.created.emplace_back(p->memory.handle, p->bytes);
        }
    });
    for (const metadata_piece& p : metadata_pieces_) {
        all.mapped.emplace_back(p.at, p.bytes);
        all.created.emplace_back(p.memory, p.bytes);
    }
    all.reserved.emplace_back(base_, shape_.range);
    for (const metadata_range& range : metadata_) {
        all.reserved.emplace_back(range.at, range.bytes);
    }
    // A read that exceeded its deadline, or a copy between the tiers, may still be under way, so the release may happen
    // later.
    end([all = std::move(all)](memory_driver& driver) {
        // A destructor cannot report an error. Memory that cannot be unmapped is released at the end of the process.
        for (const auto& [at, bytes] : all.mapped) {
            (void)driver.unmap(at, bytes);
        }
        for (const auto& [memory, bytes] : all.created) {
            driver.destroy(memory, bytes);
        }
        // Addresses are released after everything that is mapped there, as `unreserve` requires.
        for (const auto& [at, bytes] : all.reserved) {
            driver.unreserve(at, bytes);
        }
    });
}

memory_use elastic_backing::use() const {
    memory_use now;
    // What a move holds on the device counts as committed: growth must not plan with it.
    now.device_bytes = counts_.of(memory_tier::device) + mover_.held(memory_tier::device);
    now.host_bytes = counts_.of(memory_tier::host);
    now.metadata_bytes = metadata_use_.get();
    now.device_budget = counts_.budget(memory_tier::device);
    now.host_budget = counts_.budget(memory_tier::host);
    now.spare_bytes = mover_.held(memory_tier::device) + mover_.held(memory_tier::host);
    now.moved_to_device = mover_.moved_to(memory_tier::device);
    now.moved_to_host = mover_.moved_to(memory_tier::host);
    return now;
}

/// Returns true if the budget of a tier has room for `bytes` more, and the tier exists. A move under way may take the
/// room at the same time: memory of the device that it holds counts as committed, and the tiers then exceed a budget by
/// no more than one batch.
bool elastic_backing::allows(memory_tier tier, std::uint64_t bytes) const {
    // The sums do not wrap around: a run has at most 2^45 bytes, and the budgets are limited by the options.
    return tier == memory_tier::device ? counts_.of(tier) + mover_.held(tier) + bytes <= counts_.budget(tier)
                                       : driver().has_host_tier() && counts_.of(tier) + bytes <= counts_.budget(tier);
}

/// Returns the outcome of a commit for which no tier has memory, with all numbers in the text. `failure` is the
/// driver's last error for lack of memory; OK if only the budgets were in the way.
commit_outcome elastic_backing::spent(std::uint64_t bytes, const absl::Status& failure) {
    const memory_use now = use();
    std::string text = absl::StrFormat(
        "cannot commit %d bytes: of the device budget %d of %d bytes are committed, of the host budget %d of %d", bytes,
        now.device_bytes, now.device_budget, now.host_bytes, now.host_budget);
    if (!failure.ok()) {  // the driver's query is slow, so it is skipped if only the budget rejects the commit
        if (auto memory = driver().device_memory(); memory.ok()) {
            absl::StrAppendFormat(&text, "; the device has %d of %d bytes free", memory->free, memory->total);
        }
        absl::StrAppend(&text, "; ", failure.message());
    }
    // A host budget without a host tier is a mistake that the text should name: raising it would change nothing.
    const bool no_tier = now.host_budget != 0 && !driver().has_host_tier();
    absl::StrAppend(&text, no_tier ? "; this device has no host tier: ask for a larger device budget, or free memory"
                                   : "; ask for a larger device or host budget, or free memory");
    // A shortage of the machine may end at any time; a budget that is spent allows more only after a decommit.
    return {absl::ResourceExhaustedError(text), memory_tier::device,
            !failure.ok()                     ? failure_reason::commit_failed
            : now.host_budget == 0 || no_tier ? failure_reason::out_of_memory_device_budget
                                              : failure_reason::out_of_memory_host_budget};
}

/// Returns the pieces of a run, without memory yet: all of it, or parts of `move_unit` bytes and a rest.
elastic_backing::pieces elastic_backing::divide(segment_run run) const {
    const auto most = shape_.move_unit == 0 ? run.count : static_cast<std::uint32_t>(shape_.move_unit >> segment_shift);
    pieces all;
    for (std::uint32_t done = 0; done < run.count; done += most) {
        const segment_run part{segment_index{to_underlying(run.first) + done}, std::min(most, run.count - done)};
        auto p = std::make_shared<piece>();
        p->run = part;
        p->at = base_ + (std::uint64_t{to_underlying(part.first)} << segment_shift);
        p->bytes = std::size_t{part.count} << segment_shift;
        all.push_back(std::move(p));
    }
    return all;
}

/// Creates the memory of all pieces; on an error, none has any.
absl::Status elastic_backing::create(pieces& all, memory_tier tier) {
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto memory = driver().create(all[i]->bytes, tier);
        if (!memory.ok()) {
            for (std::size_t made = 0; made < i; ++made) {
                driver().destroy(all[made]->memory.handle, all[made]->bytes);
            }
            return memory.status();
        }
        all[i]->memory = {*memory, tier, nullptr};
    }
    return absl::OkStatus();
}

/// Maps created pieces and makes them accessible in one call; destroys their memory on an error.
absl::Status elastic_backing::join(pieces& all) {
    absl::Status status;
    std::size_t mapped = 0;
    for (; status.ok() && mapped < all.size(); mapped += status.ok() ? 1 : 0) {
        status = driver().map(all[mapped]->at, all[mapped]->bytes, all[mapped]->memory.handle);
    }
    if (status.ok()) {
        const auto bytes = static_cast<std::size_t>(all.back()->at + all.back()->bytes - all.front()->at);
        status = driver().set_access(all.front()->at, bytes);
        if (status.ok()) {
            return status;
        }
    }
    // The memory is not accessible, so that no kernel has seen it.
    for (std::size_t i = 0; i < mapped; ++i) {
        (void)driver().unmap(all[i]->at, all[i]->bytes);  // the first error is the one to report
    }
    for (const std::shared_ptr<piece>& p : all) {
        driver().destroy(p->memory.handle, p->bytes);
    }
    return status;
}

/// Unmaps all pieces, and then destroys their memory. If one cannot be unmapped, the others are mapped again: their
/// memory is still there.
absl::Status elastic_backing::take_back(const pieces& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (absl::Status s = driver().unmap(all[i]->at, all[i]->bytes); !s.ok()) {
            for (std::size_t before = 0; before < i; ++before) {
                const piece& p = *all[before];
                s.Update(driver().join(p.at, p.bytes, p.memory.handle));
            }
            return s;
        }
    }
    for (const std::shared_ptr<piece>& p : all) {
        p->gone = true;
        mover_.destroy(p->memory, p->bytes);
        counts_.subtract(p->memory.tier, p->bytes);
    }
    return absl::OkStatus();
}

/// See the drawing above. The device is skipped while it is known to be short, since each attempt costs a call of the
/// driver. It is tried again after a decommit on the device, or after a commit that neither tier could serve.
commit_outcome elastic_backing::commit(segment_run run) {
    {
        // Only this thread adds and removes runs, so that the answer holds without the lock.
        const std::scoped_lock lock(pieces_mutex_);
        if (auto s = runs_.check_free(run); !s.ok()) {
            return {s, memory_tier::device, failure_reason::commit_failed};
        }
    }
    const std::uint64_t bytes = std::uint64_t{run.count} << segment_shift;
    pieces made = divide(run);
    // The last error of a tier that had no memory, for the text of `spent`.
    absl::Status failure;
    for (const memory_tier tier : {memory_tier::device, memory_tier::host}) {
        // True if the host could take this run instead of the device.
        const bool spills = tier == memory_tier::device && allows(memory_tier::host, bytes);
        if (!allows(tier, bytes) || (spills && device_is_short_.load(std::memory_order_relaxed))) {
            continue;
        }
        counts_.plan(tier, bytes);
        if (tier == memory_tier::host) {
            const std::uint64_t on_host = counts_.planned(tier);
            const std::uint64_t budget = counts_.budget(tier);
            mover_.try_to_give_up_spares(tier, mover_.allowance() + (budget > on_host ? budget - on_host : 0));
        }
        absl::Status status = create(made, tier);
        const bool is_short = absl::IsResourceExhausted(status);
        status = status.ok() ? join(made) : status;
        if (status.ok()) {
            counts_.add(tier, bytes);
        }
        counts_.plan(tier, 0);
        // The machine has less than the budget allows. Any other error is returned below: the other tier would not
        // help.
        if (is_short) {
            failure = status;
            if (spills && run.count > 1) {
                // The device may still provide a smaller piece, which is better than the whole piece on the host.
                return {failure, tier, failure_reason::commit_failed};
            }
            if (spills) {
                device_is_short_.store(true, std::memory_order_relaxed);
            }
            continue;
        }
        if (!status.ok()) {
            return {status, tier, failure_reason::commit_failed};
        }
        // The record first: from here on a decommit can undo the commit.
        const std::scoped_lock lock(pieces_mutex_);
        for (const std::shared_ptr<piece>& p : made) {
            p->number = next_number_++;
        }
        runs_.add(run, std::move(made));
        return {absl::OkStatus(), tier};
    }
    device_is_short_.store(false, std::memory_order_relaxed);  // the next commit tries the device again
    return spent(bytes, failure);
}

/// Unmaps first: the record and the count change only once the memory is gone, so that a failed decommit changes
/// nothing. A run with a piece that is being moved stays: the copy may have to wait for a kernel, and a decommit must
/// not.
absl::Status elastic_backing::decommit(segment_run run) {
    const std::scoped_lock lock(pieces_mutex_);
    const auto found = runs_.find(run);
    if (!found.ok()) {
        return found.status();
    }
    if (std::any_of(found->begin(), found->end(), [](const auto& p) { return p->moving; })) {
        return absl::UnavailableError(absl::StrFormat("cannot decommit segments [%d, +%d): they are being moved",
                                                      to_underlying(run.first), run.count));
    }
    const bool on_device =
        std::any_of(found->begin(), found->end(), [](const auto& p) { return p->memory.tier == memory_tier::device; });
    if (auto s = take_back(*found); !s.ok()) {
        return s;
    }
    runs_.remove(run);
    // The device has memory again, so that the next commit may try it. Memory that other programs release is noticed
    // only when neither tier could serve a commit.
    if (on_device) {
        device_is_short_.store(false, std::memory_order_relaxed);
    }
    return absl::OkStatus();
}

std::vector<movable_memory> elastic_backing::movable() const {
    std::vector<movable_memory> all;
    if (can_move()) {
        const std::scoped_lock lock(pieces_mutex_);
        runs_.for_each([&](const pieces& of_run) {
            for (const std::shared_ptr<piece>& p : of_run) {
                all.push_back({p->run, p->memory.tier, p->number});
            }
        });
    }
    return all;
}

/// Pieces are found by their first segments. Between this and the move, a piece may be decommitted, which it is marked
/// with.
absl::Status elastic_backing::move(const std::vector<move_order>& orders) {
    if (!can_move()) {
        return backing::move(orders);
    }
    std::map<segment_index, std::shared_ptr<piece>> by_first;
    {
        const std::scoped_lock lock(pieces_mutex_);
        runs_.for_each([&](const pieces& of_run) {
            for (const std::shared_ptr<piece>& p : of_run) {
                by_first.emplace(p->run.first, p);
            }
        });
    }
    std::vector<detail::tier_mover::order> found;
    for (const move_order& o : orders) {
        if (const auto p = by_first.find(o.first); p != by_first.end()) {
            found.emplace_back(p->second, o.to);
        }
    }
    const std::uint64_t before = mover_.moved_to(memory_tier::host);
    absl::Status status = mover_.move(found);
    if (mover_.moved_to(memory_tier::host) != before) {
        device_is_short_.store(false, std::memory_order_relaxed);  // memory of the device was given up
    }
    return status;
}

/// Reserves addresses in whole granules, at least one, and notes that none of them has memory. Called by the thread
/// that creates the heap.
absl::StatusOr<void*> elastic_backing::reserve_metadata(std::size_t bytes) {
    const std::size_t granule = driver().granularity();
    // Rounded up without a sum that could overflow.
    const std::size_t granules = std::max<std::size_t>(1, bytes / granule + (bytes % granule != 0 ? 1 : 0));
    const auto at = driver().reserve(granules * granule, granule);
    if (!at.ok()) {
        return at.status();
    }
    const std::scoped_lock lock(metadata_mutex_);
    metadata_.push_back({*at, granules * granule, std::vector<bool>(granules)});
    return *at;
}

/// Returns the range of metadata that contains all of [at, at + bytes); null if there is none. The caller holds the
/// mutex. Cost: a walk over the ranges, one for each array of metadata.
elastic_backing::metadata_range* elastic_backing::range_of(const char* at, std::size_t bytes) {
    // The distance to the end is compared, as `at` + `bytes` could overflow.
    const auto found = std::find_if(metadata_.begin(), metadata_.end(), [&](const metadata_range& r) {
        return at >= r.at && at <= r.at + r.bytes && bytes <= static_cast<std::size_t>(r.at + r.bytes - at);
    });
    return found != metadata_.end() ? &*found : nullptr;
}

/// Copies a reserved range of metadata granule by granule, and any other memory in one piece. Metadata that was never
/// committed reads as zero, so that a reader of all metadata need not know which part exists. The mutex is held only
/// for the look-up, not for the copy: memory that is present remains so.
absl::Status elastic_backing::read(void* to, const void* from, std::size_t bytes) {
    const std::size_t granule = driver().granularity();
    while (bytes != 0) {
        std::size_t n = bytes;
        bool is_there = true;
        {
            const std::scoped_lock lock(metadata_mutex_);
            if (const metadata_range* range = range_of(static_cast<const char*>(from), 1); range != nullptr) {
                const auto offset = static_cast<std::size_t>(static_cast<const char*>(from) - range->at);
                // Up to the end of the granule; the next round looks at the next one.
                n = std::min(bytes, granule - offset % granule);
                is_there = range->present[offset / granule];
            }
        }
        if (!is_there) {
            std::memset(to, 0, n);
        } else if (absl::Status s = driver().read(to, from, n); !s.ok()) {
            return s;
        }
        to = static_cast<char*>(to) + n;
        from = static_cast<const char*>(from) + n;
        bytes -= n;
    }
    return absl::OkStatus();
}

// Commits the granules that have no memory yet, each sequence of them in one piece. Only this thread changes `present`,
// so it may read it without the lock. It does not hold the lock while the driver works, so that other threads do not
// wait. The pointer to the range stays valid, since the deque's elements do not move.
//
//     granules   present   .   .   present   .          [1, 3) and then [4, 5) are committed
absl::Status elastic_backing::commit_metadata(void* at, std::size_t bytes) {
    char* first = static_cast<char*>(at);
    metadata_range* range = nullptr;
    {
        const std::scoped_lock lock(metadata_mutex_);
        range = range_of(first, bytes);
    }
    if (range == nullptr) {
        return absl::OutOfRangeError(
            absl::StrFormat("cannot commit %d bytes of metadata at %p: they were not reserved", bytes, at));
    }
    const std::size_t granule = driver().granularity();
    const auto offset = static_cast<std::size_t>(first - range->at);
    // The granule behind the last one that [at, at + bytes) touches. No bytes touch no granule.
    const std::size_t end = bytes == 0 ? 0 : (offset + bytes - 1) / granule + 1;
    for (std::size_t i = offset / granule; i < end;) {
        std::size_t next = i;
        while (next < end && !range->present[next]) {
            ++next;
        }
        if (next > i) {
            if (absl::Status s = commit_granules(*range, i, next - i); !s.ok()) {
                return s;
            }
        }
        i = next + 1;  // `next` is present, or the end
    }
    return absl::OkStatus();
}

/// Commits `count` granules of a range from `first` on, always on the device and outside the budgets. `present` is set
/// last: `read` then never touches memory that is not accessible yet.
absl::Status elastic_backing::commit_granules(metadata_range& range, std::size_t first, std::size_t count) {
    const std::size_t granule = driver().granularity();
    metadata_piece p{range.at + first * granule, count * granule};
    // On the device: metadata in host memory would be read over the bus by every request.
    const auto memory = driver().create(p.bytes, memory_tier::device);
    if (!memory.ok()) {
        return memory.status();
    }
    p.memory = *memory;
    if (absl::Status s = driver().join(p.at, p.bytes, p.memory); !s.ok()) {
        driver().destroy(p.memory, p.bytes);
        return s;
    }
    const std::scoped_lock lock(metadata_mutex_);
    std::fill_n(range.present.begin() + static_cast<std::ptrdiff_t>(first), count, true);
    metadata_pieces_.push_back(p);
    metadata_use_.add(p.bytes);
    return absl::OkStatus();
}

}  // namespace

/// Reserves the addresses; memory comes with the first commit. An error destroys the driver, which is idle, so that
/// this waits for nothing.
absl::StatusOr<std::unique_ptr<backing>> make_elastic_backing(std::unique_ptr<memory_driver> driver,
                                                              const elastic_shape& shape) {
    // Whole segments only; the rest of the range is not reserved.
    elastic_shape whole = shape;
    whole.range = shape.range / segment_bytes * segment_bytes;
    // Without a second tier there is nowhere to move to.
    whole.move_unit = driver->has_host_tier() && shape.host_budget != 0 ? shape.move_unit : 0;
    if (whole.range == 0 || whole.range / segment_bytes > max_segments) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a range of %d bytes is not possible: a heap has from %d to %d bytes of addresses",
                            shape.range, segment_bytes, max_segments * segment_bytes));
    }
    const auto base = driver->reserve(whole.range, segment_bytes);
    if (!base.ok()) {
        return base.status();
    }
    return std::make_unique<elastic_backing>(std::move(driver), whole, *base);
}

}  // namespace orchard
