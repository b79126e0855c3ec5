// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Moves between the tiers; tier_mover.hpp draws one.
///
///     move
///       give_up_late        copies that an earlier call has not awaited
///       map_again           pieces that an earlier call has left without memory
///       begin_batch         take: spare or new memory, in room that the budgets leave; then the copies
///       complete            waits for the copies; exchange_memory for each piece
///       shrink              spare memory beyond the budgets goes back

#include "uvm/memory/tier_mover.hpp"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace orchard::detail {
namespace {

constexpr std::size_t index_of(memory_tier tier) { return static_cast<std::size_t>(tier); }

/// The least bytes of a batch: 1.3 ms of copying, which hide the mapping of large pieces.
constexpr std::uint64_t least_batch = std::uint64_t{64} << 20;

}  // namespace

tier_mover::tier_mover(memory_driver& driver, tier_counts& counts, std::mutex& pieces, std::uint64_t piece_bytes,
                       bool checks)
    : driver_{driver},
      counts_{counts},
      pieces_{pieces},
      batch_bytes_{std::max(piece_bytes, least_batch)},
      checks_{checks} {}

/// At most two batches are under way. A new one is begun whenever a queue is free and there is memory for at least one
/// piece; otherwise the older one is completed, which sets memory free.
absl::Status tier_mover::move(const std::vector<order>& orders) {
    const std::scoped_lock lock(mutex_);
    for (int q = 0; q < memory_driver::copy_queues; ++q) {
        if (absl::Status s = give_up_late(q); !s.ok()) {
            return s;
        }
    }
    std::vector<std::shared_ptr<memory_piece>> unmapped = std::exchange(unmapped_, {});
    for (const std::shared_ptr<memory_piece>& piece : unmapped) {
        const std::scoped_lock pieces(pieces_);
        if (absl::Status s = map_again(*piece); !s.ok()) {
            unmapped_ = std::move(unmapped);
            return s;
        }
    }
    absl::Status status;
    // Behind the last order to the device, its spare memory has no use; it is destroyed while copies are under way.
    const auto last =
        std::find_if(orders.rbegin(), orders.rend(), [](const order& o) { return o.second == memory_tier::device; });
    const auto end_of_device = static_cast<std::size_t>(orders.rend() - last);
    std::size_t next = 0;
    int begun = 0;
    for (int completed = 0;;) {
        while (status.ok() && begun - completed < memory_driver::copy_queues && next < orders.size()) {
            const std::size_t before = next;
            const int queue = begun % memory_driver::copy_queues;
            status = begin_batch(queue, orders, &next, next < end_of_device);
            if (under_way_[static_cast<std::size_t>(queue)].empty()) {
                if (next == before) {
                    break;  // no memory for the next piece, until a batch is complete
                }
                continue;  // all of these pieces had their tier already
            }
            ++begun;
        }
        if (begun == completed) {
            break;
        }
        absl::Status done = complete(completed % memory_driver::copy_queues);
        if (absl::IsDeadlineExceeded(done)) {
            return done;  // both batches stay as they are, for the next call
        }
        status.Update(std::move(done));
        ++completed;
        if (next >= end_of_device) {
            shrink(memory_tier::device, bytes_under_way(memory_tier::device));
        }
    }
    if (status.ok() && next < orders.size()) {
        status = no_room(orders[next]);
    }
    // Other programs may use the device's memory. Creating host memory is slow (230 ms for 1 GiB), so that as much as
    // the budget has room for is kept.
    shrink(memory_tier::device, 0);
    const std::uint64_t on_host = counts_.of(memory_tier::host);
    const std::uint64_t budget = counts_.budget(memory_tier::host);
    shrink(memory_tier::host, allowance() + (budget > on_host ? budget - on_host : 0));
    return status;
}

/// Begins the copies of the orders from `*next` on, as far as they have one direction, fit a batch, and find memory.
/// Passes over pieces that have their tier. Errors: the driver's own; nothing is under way on the queue then.
/// @param is_repaid  a later order goes to the device, so that memory of the host may exceed its budget meanwhile
absl::Status tier_mover::begin_batch(int queue, const std::vector<order>& orders, std::size_t* next, bool is_repaid) {
    batch& items = under_way_[static_cast<std::size_t>(queue)];
    std::vector<memory_copy> copies;
    std::uint64_t bytes = 0;
    absl::Status status;
    for (; *next < orders.size(); ++*next) {
        const auto& [piece, to] = orders[*next];
        if (!items.empty() && (items.front().to.tier != to || bytes + piece->bytes > batch_bytes_)) {
            break;
        }
        {
            // From here on the piece is not decommitted.
            const std::scoped_lock lock(pieces_);
            if (piece->memory.tier == to || piece->moving || piece->gone) {
                continue;
            }
            piece->moving = true;
        }
        item i{piece, {}};
        bool has_room = true;
        status = take(to, piece->bytes, is_repaid, &i.to, &has_room);
        if (!status.ok() || !has_room) {
            const std::scoped_lock lock(pieces_);
            piece->moving = false;
            break;
        }
        const char* from = piece->at;
        if (checks_) {
            // The copy is made from the alias, as the piece's own addresses have no memory meanwhile.
            status = give_alias(piece->memory, piece->bytes);
            from = piece->memory.alias;
            if (status.ok()) {
                const std::scoped_lock lock(pieces_);
                status = driver_.unmap(piece->at, piece->bytes);
                piece->mapped = !status.ok();
            }
            if (!status.ok()) {
                abandon(i);
                break;
            }
        }
        copies.push_back({i.to.alias, from, piece->bytes});
        bytes += piece->bytes;
        items.push_back(std::move(i));
    }
    if (status.ok() && !copies.empty()) {
        status = driver_.begin_copies(queue, std::move(copies));
    }
    if (!status.ok()) {
        for (item& i : items) {
            abandon(i);
        }
        items.clear();
    }
    return status;
}

/// Waits for copies that an earlier call has not awaited, and gives them up: kernels may have written to the old memory
/// since, which is therefore the right one. Errors: DeadlineExceeded if they have not ended; they are still under way.
absl::Status tier_mover::give_up_late(int queue) {
    batch& items = under_way_[static_cast<std::size_t>(queue)];
    if (!items.empty()) {
        // An error of the copy does not matter: nothing uses it.
        if (absl::Status copied = driver_.finish_copies(queue); absl::IsDeadlineExceeded(copied)) {
            return copied;
        }
        for (item& i : items) {
            abandon(i);
        }
        items.clear();
    }
    return absl::OkStatus();
}

/// Waits for the copies of a queue and gives each piece its new memory. Errors: DeadlineExceeded if the copies have not
/// ended: the batch is still under way; others: the pieces concerned keep their old memory.
absl::Status tier_mover::complete(int queue) {
    batch& items = under_way_[static_cast<std::size_t>(queue)];
    if (items.empty()) {
        return absl::OkStatus();
    }
    absl::Status copied = driver_.finish_copies(queue);
    if (absl::IsDeadlineExceeded(copied)) {
        return copied;
    }
    absl::Status status = copied;
    for (item& i : items) {
        if (copied.ok()) {
            status.Update(exchange_memory(i));
        } else {
            abandon(i);
        }
    }
    items.clear();
    return status;
}

/// Maps the copy at the piece's addresses in place of the old memory, which becomes spare. If the copy cannot be
/// mapped, the old memory is mapped again.
absl::Status tier_mover::exchange_memory(item& i) {
    memory_piece& piece = *i.piece;
    const std::scoped_lock lock(pieces_);
    if (piece.mapped) {
        if (absl::Status s = driver_.unmap(piece.at, piece.bytes); !s.ok()) {
            piece.moving = false;
            put(i.to, piece.bytes);
            return s;
        }
        piece.mapped = false;
    }
    absl::Status status = driver_.join(piece.at, piece.bytes, i.to.handle);
    if (status.ok()) {
        std::swap(piece.memory, i.to);
        piece.mapped = true;
        piece.moving = false;
        counts_.add(piece.memory.tier, piece.bytes);
        counts_.subtract(i.to.tier, piece.bytes);
        held_[index_of(piece.memory.tier)].fetch_sub(piece.bytes, std::memory_order_relaxed);
        held_[index_of(i.to.tier)].fetch_add(piece.bytes, std::memory_order_relaxed);
        moved_[index_of(piece.memory.tier)].fetch_add(piece.bytes, std::memory_order_relaxed);
    } else if (!map_again(piece).ok()) {
        unmapped_.push_back(i.piece);
    }
    put(i.to, piece.bytes);
    return status;
}

/// Ends a move that did not take place: the piece keeps its old memory, and the new one becomes spare.
void tier_mover::abandon(item& i) {
    const std::scoped_lock lock(pieces_);
    if (!map_again(*i.piece).ok()) {
        unmapped_.push_back(i.piece);
    }
    put(i.to, i.piece->bytes);
}

/// Maps a piece's memory at its addresses, if it is not there. The caller holds the mutex of the pieces. After an error
/// it stays marked as moving, so that no decommit unmaps what is not mapped.
absl::Status tier_mover::map_again(memory_piece& piece) {
    if (!piece.mapped) {
        if (absl::Status s = driver_.join(piece.at, piece.bytes, piece.memory.handle); !s.ok()) {
            return absl::Status(
                s.code(),
                absl::StrCat(s.message(), absl::StrFormat("; %d bytes at %p have no memory at their addresses "
                                                          "until the next call that moves memory succeeds",
                                                          piece.bytes, static_cast<void*>(piece.at))));
        }
        piece.mapped = true;
    }
    piece.moving = false;
    return absl::OkStatus();
}

/// Gives memory its addresses in the window, unless it has them. The window has twice as many addresses as the memory
/// of both tiers, since those of another size are not used again.
absl::Status tier_mover::give_alias(tier_memory& memory, std::size_t bytes) {
    if (memory.alias != nullptr) {
        return absl::OkStatus();
    }
    const auto at = take_addresses(bytes);
    if (!at.ok()) {
        return at.status();
    }
    absl::Status status = driver_.join(*at, bytes, memory.handle);
    if (status.ok()) {
        memory.alias = *at;
    } else {
        const std::scoped_lock lock(window_mutex_);
        free_aliases_[bytes].push_back(*at);
    }
    return status;
}

/// Returns addresses of the window, which is reserved by the first call.
absl::StatusOr<char*> tier_mover::take_addresses(std::size_t bytes) {
    const std::scoped_lock lock(window_mutex_);
    if (window_ == nullptr) {
        window_bytes_ = 2 * (counts_.most + allowance()) / segment_bytes * segment_bytes;
        const auto at = driver_.reserve(window_bytes_, segment_bytes);
        if (!at.ok()) {
            return at.status();
        }
        window_ = *at;
    }
    if (std::vector<char*>& known = free_aliases_[bytes]; !known.empty()) {
        char* const at = known.back();
        known.pop_back();
        return at;
    }
    if (unused_ + bytes > window_bytes_) {
        return absl::InternalError(
            absl::StrFormat("all %d bytes of addresses for copies between the tiers are in use", window_bytes_));
    }
    return window_ + std::exchange(unused_, unused_ + bytes);
}

/// Finds memory with an alias: spare, or created in room that the budget leaves, once spare memory of other sizes is
/// destroyed for it. `*has_room` becomes false if there is none. Errors: the driver's own.
absl::Status tier_mover::take(memory_tier tier, std::size_t bytes, bool is_repaid, tier_memory* result,
                              bool* has_room) {
    if (std::vector<tier_memory>& known = spares_[index_of(tier)][bytes]; !known.empty()) {
        *result = known.back();
        known.pop_back();
    } else {
        const std::uint64_t beyond = tier == memory_tier::host && is_repaid ? allowance() : 0;
        const std::uint64_t most = counts_.budget(tier) + beyond;
        const std::uint64_t taken = counts_.planned(tier) + bytes;
        if (taken + bytes_under_way(tier) <= most) {
            shrink(tier, most - taken);
        }
        *has_room = (tier == memory_tier::device || driver_.has_host_tier()) && taken + held(tier) <= most;
        if (!*has_room) {
            return absl::OkStatus();
        }
        const auto created = driver_.create(bytes, tier);
        if (!created.ok()) {
            return created.status();
        }
        *result = {*created, tier, nullptr};
        held_[index_of(tier)].fetch_add(bytes, std::memory_order_relaxed);
    }
    absl::Status status = give_alias(*result, bytes);
    if (!status.ok()) {
        put(*result, bytes);
    }
    return status;
}

void tier_mover::put(const tier_memory& memory, std::size_t bytes) {
    spares_[index_of(memory.tier)][bytes].push_back(memory);
}

void tier_mover::destroy(const tier_memory& memory, std::size_t bytes) {
    if (memory.alias != nullptr) {
        if (!driver_.unmap(memory.alias, bytes).ok()) {
            return;  // memory that cannot be unmapped is released at the end of the process
        }
        const std::scoped_lock lock(window_mutex_);
        free_aliases_[bytes].push_back(memory.alias);
    }
    driver_.destroy(memory.handle, bytes);
}

void tier_mover::give_up_spares(memory_tier tier, std::uint64_t bytes) {
    const std::scoped_lock lock(mutex_);
    shrink(tier, bytes);
}

void tier_mover::try_to_give_up_spares(memory_tier tier, std::uint64_t bytes) {
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
        shrink(tier, bytes);
    }
}

void tier_mover::shrink(memory_tier tier, std::uint64_t bytes) {
    for (auto& [size, memory] : spares_[index_of(tier)]) {
        while (!memory.empty() && held(tier) > bytes) {
            destroy(memory.back(), size);
            memory.pop_back();
            held_[index_of(tier)].fetch_sub(size, std::memory_order_relaxed);
        }
    }
}

std::uint64_t tier_mover::bytes_under_way(memory_tier tier) const {
    std::uint64_t bytes = 0;
    for (const batch& items : under_way_) {
        for (const item& i : items) {
            bytes += i.to.tier == tier ? i.piece->bytes : 0;
        }
    }
    return bytes;
}

absl::Status tier_mover::no_room(const order& first) const {
    const auto& [piece, tier] = first;
    return absl::ResourceExhaustedError(absl::StrFormat(
        "cannot move %d bytes at %p to the %s: %d of its budget of %d bytes are committed; ask for a larger %s, or %s",
        piece->bytes, static_cast<void*>(piece->at), tier == memory_tier::host ? "host" : "device", counts_.of(tier),
        counts_.budget(tier), tier == memory_tier::host ? "host_budget" : "capacity",
        tier == memory_tier::host ? "free memory" : "demote other memory first"));
}

tier_mover::ending tier_mover::end() const {
    ending all;
    const auto add = [&](const tier_memory& memory, std::size_t bytes) {
        if (memory.alias != nullptr) {
            all.mapped.emplace_back(memory.alias, bytes);
        }
        all.created.emplace_back(memory.handle, bytes);
    };
    for (const batch& items : under_way_) {
        for (const item& i : items) {
            add(i.to, i.piece->bytes);
        }
    }
    for (const auto& of_tier : spares_) {
        for (const auto& [bytes, memory] : of_tier) {
            for (const tier_memory& m : memory) {
                add(m, bytes);
            }
        }
    }
    if (window_ != nullptr) {
        all.reserved.emplace_back(window_, window_bytes_);
    }
    return all;
}

}  // namespace orchard::detail
