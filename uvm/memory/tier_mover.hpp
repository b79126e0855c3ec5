// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Moves pieces of an elastic heap's memory between the device and the host. Their addresses stay the same: only the
/// physical memory behind them changes.
///
///     addresses     | piece 0 | piece 1 | ...           window   | alias of H |      D on the device, H on the host
///     before            D                                              H
///     1. copy           D ------- by a queue of the driver ----------> H
///     2. unmap          .                                              H
///     3. map            H                                              H
///     after             H                                              H             D is spare
///
/// The new memory needs addresses while the copy is made: its alias in the window, which it keeps until it is
/// destroyed, since memory that moved once often moves again. On an H200 unmapping 2 MiB takes 37 us and making it
/// accessible 35 to 72 us, as long as copying it (42 us). A move of memory with an alias therefore makes these calls
/// once, and no others.
///
/// Batches: the copies of one batch are under way while the pieces of the one before are mapped. Two queues, so that
/// both directions of the bus work at the same time.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "uvm/geometry/geometry.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard::detail {

/// Physical memory of a tier, and the addresses in the window at which it is mapped; null: none yet.
struct tier_memory {
    memory_handle handle{};
    memory_tier tier = memory_tier::device;
    char* alias = nullptr;
};

/// Committed memory that moves as a whole. `run`, `at`, `bytes` and `number` are constant. The mutex of the pieces
/// protects the others.
struct memory_piece {
    segment_run run;
    char* at = nullptr;
    std::size_t bytes = 0;
    std::uint64_t number = 0;  ///< counts the commits of pieces: the younger piece has the greater number
    tier_memory memory;
    bool mapped = true;   ///< false between `unmap` and `map`, and after a `map` that failed
    bool moving = false;  ///< a move of it is under way: it must not be decommitted
    bool gone = false;    ///< decommitted: it must not be moved
};

/// Committed bytes of the tiers, what growth is committing, and their limits. The counts order no other access: every
/// access is relaxed.
struct tier_counts {
    std::array<std::atomic<std::uint64_t>, 2> bytes{};
    std::array<std::atomic<std::uint64_t>, 2> pending{};  ///< of a commit under way, whose room no move may take
    std::array<std::atomic<std::uint64_t>, 2> budgets{};
    std::uint64_t most = 0;  ///< both budgets at the beginning, which they never exceed later. Constant

    [[nodiscard]] std::uint64_t of(memory_tier tier) const {
        return bytes[static_cast<std::size_t>(tier)].load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t planned(memory_tier tier) const {
        return of(tier) + pending[static_cast<std::size_t>(tier)].load(std::memory_order_relaxed);
    }
    void plan(memory_tier tier, std::uint64_t n) {
        pending[static_cast<std::size_t>(tier)].store(n, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t budget(memory_tier tier) const {
        return budgets[static_cast<std::size_t>(tier)].load(std::memory_order_relaxed);
    }
    void set_budget(memory_tier tier, std::uint64_t n) {
        budgets[static_cast<std::size_t>(tier)].store(n, std::memory_order_relaxed);
    }
    void add(memory_tier tier, std::uint64_t n) {
        bytes[static_cast<std::size_t>(tier)].fetch_add(n, std::memory_order_relaxed);
    }
    void subtract(memory_tier tier, std::uint64_t n) {
        bytes[static_cast<std::size_t>(tier)].fetch_sub(n, std::memory_order_relaxed);
    }
};

/// See the drawing above. Threads: `move` and `give_up_spares` any, one after the other by a mutex; `held` any, at any
/// time. The mutex of the pieces is held while one piece is mapped, or those of a run are unmapped, never while a copy
/// is awaited.
class tier_mover {
public:
    /// @param pieces  protects all pieces; taken by this object
    /// @param checks  pieces have no memory at their addresses while they are copied, so that a kernel that uses them
    ///                against the caller's promise faults
    tier_mover(memory_driver& driver, tier_counts& counts, std::mutex& pieces, std::uint64_t piece_bytes, bool checks);

    /// A piece and the tier that it is to have.
    using order = std::pair<std::shared_ptr<memory_piece>, memory_tier>;

    /// Carries out the orders one after the other, in batches. A piece that has its tier already is passed over.
    /// Returns OK if all pieces have the tiers that were asked for. Errors: ResourceExhausted, with the numbers, if a
    /// tier has no room; DeadlineExceeded if running kernels delay a copy: it continues, and the next call gives it
    /// up; the driver's own. After an error each piece is in one of the two tiers, with its contents, and the orders
    /// that were carried out stay so.
    absl::Status move(const std::vector<order>& orders);

    /// Destroys spare memory of a tier until at most `bytes` are left. Cost: 70 us for each 2 MiB of the host's.
    void give_up_spares(memory_tier tier, std::uint64_t bytes);
    /// The same, unless a move is under way: never waits.
    void try_to_give_up_spares(memory_tier tier, std::uint64_t bytes);
    /// Returns the bytes of a tier that are spare, or that pieces move to. Those of the host may exceed its budget by
    /// `allowance`.
    [[nodiscard]] std::uint64_t held(memory_tier tier) const {
        return held_[static_cast<std::size_t>(tier)].load(std::memory_order_relaxed);
    }
    /// Returns the bytes of host memory that moves may take beyond the budget: three batches. Without them, no piece
    /// could leave a device whose budget is spent if the host's is spent, too.
    [[nodiscard]] std::uint64_t allowance() const { return 3 * batch_bytes_; }
    /// Returns the bytes that have been moved to a tier so far.
    [[nodiscard]] std::uint64_t moved_to(memory_tier tier) const {
        return moved_[static_cast<std::size_t>(tier)].load(std::memory_order_relaxed);
    }

    /// For the end of the heap, when no other call is made: returns all memory of this object, and where it is mapped.
    struct ending {
        std::vector<std::pair<char*, std::size_t>> mapped;
        std::vector<std::pair<memory_handle, std::size_t>> created;
        std::vector<std::pair<char*, std::size_t>> reserved;
    };
    [[nodiscard]] ending end() const;
    /// Unmaps and destroys memory that is mapped at most at its alias, which may be used again. Any thread; never waits
    /// for a move.
    void destroy(const tier_memory& memory, std::size_t bytes);

private:
    /// A piece whose contents are being copied to other memory.
    struct item {
        std::shared_ptr<memory_piece> piece;
        tier_memory to;
    };
    using batch = std::vector<item>;

    // Described at their definitions.
    absl::Status begin_batch(int queue, const std::vector<order>& orders, std::size_t* next, bool is_repaid);
    absl::Status give_up_late(int queue);
    absl::Status complete(int queue);
    absl::Status exchange_memory(item& i);
    void abandon(item& i);
    absl::Status map_again(memory_piece& piece);
    absl::Status give_alias(tier_memory& memory, std::size_t bytes);
    absl::StatusOr<char*> take_addresses(std::size_t bytes);
    absl::Status take(memory_tier tier, std::size_t bytes, bool is_repaid, tier_memory* result, bool* has_room);
    void put(const tier_memory& memory, std::size_t bytes);
    void shrink(memory_tier tier, std::uint64_t bytes);
    [[nodiscard]] std::uint64_t bytes_under_way(memory_tier tier) const;
    [[nodiscard]] absl::Status no_room(const order& first) const;

    memory_driver& driver_;
    tier_counts& counts_;
    std::mutex& pieces_;
    const std::uint64_t batch_bytes_;
    const bool checks_;

    // Held for a whole `move`; protects all below but the window.
    std::mutex mutex_;
    std::array<batch, memory_driver::copy_queues> under_way_;
    // Pieces without memory at their addresses, after a `map` that failed; the next call maps them.
    std::vector<std::shared_ptr<memory_piece>> unmapped_;
    std::array<std::map<std::size_t, std::vector<tier_memory>>, 2> spares_;  // by tier and size
    // The window: addresses from `unused_` on were never used; those of destroyed memory are listed by size. It has a
    // mutex of its own, as a decommit must not wait for a `move`.
    std::mutex window_mutex_;
    char* window_ = nullptr;
    std::uint64_t window_bytes_ = 0;
    std::uint64_t unused_ = 0;
    std::map<std::size_t, std::vector<char*>> free_aliases_;
    // Relaxed: counts.
    std::array<std::atomic<std::uint64_t>, 2> held_{};
    std::array<std::atomic<std::uint64_t>, 2> moved_{};
};

}  // namespace orchard::detail
