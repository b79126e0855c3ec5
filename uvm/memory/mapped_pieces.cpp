// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The pieces of memory that live as long as their driver; mapped_pieces.hpp draws them.
///
///     take()            a piece with room? else
///       add_piece()       reserve, create, join, prepare: one piece more
///     release()         unmap, destroy, unreserve, piece by piece

#include "uvm/memory/mapped_pieces.hpp"

#include <algorithm>
#include <iterator>

namespace orchard::detail {
namespace {

// Returns `n` rounded up to a multiple of `to`.
constexpr std::size_t rounded_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

/// The mutex is held during the driver's calls, too: two threads that find no room would otherwise create a piece each.
/// Pieces are few, as each takes many requests, so that a walk over all of them is cheap.
absl::StatusOr<void*> mapped_pieces::take(memory_tier tier, std::size_t bytes) {
    constexpr std::size_t device_alignment = 256;
    constexpr std::size_t host_alignment = 4096;
    const std::scoped_lock lock(mutex_);
    // Multiples of the alignment keep `used` aligned, and each piece begins at a multiple of the granularity. A request
    // for no bytes takes one unit, so that two results are never equal.
    const std::size_t wanted =
        rounded_up(std::max<std::size_t>(bytes, 1), tier == memory_tier::device ? device_alignment : host_alignment);
    auto found = std::find_if(pieces_.begin(), pieces_.end(),
                              [&](const piece& p) { return p.tier == tier && wanted <= p.bytes - p.used; });
    if (found == pieces_.end()) {
        // The rest of the last granule serves later requests.
        if (absl::Status s = add_piece(tier, rounded_up(wanted, driver_.granularity())); !s.ok()) {
            return s;
        }
        found = std::prev(pieces_.end());
    }
    // The memory is zero already: a piece is cleared as a whole, before any part is handed out, and no part is ever
    // handed out twice.
    found->used += wanted;
    return found->at + (found->used - wanted);
}

/// Adds a piece that is ready for use: addresses, memory, mapping, preparation. On an error, undoes the steps that
/// succeeded, in reverse order, and adds no piece. There is one exception: if the preparation exceeded its deadline, it
/// may still write to the memory later. The piece is then kept mapped, with nothing free in it, until `release`.
absl::Status mapped_pieces::add_piece(memory_tier tier, std::size_t bytes) {
    const auto at = driver_.reserve(bytes, driver_.granularity());
    if (!at.ok()) {
        return at.status();
    }
    const auto memory = driver_.create(bytes, tier);
    if (!memory.ok()) {
        driver_.unreserve(*at, bytes);
        return memory.status();
    }
    // From here on a failure must undo up to four steps. `join` undoes its own.
    piece made{*at, bytes, 0, *memory, tier};
    absl::Status status = driver_.join(made.at, made.bytes, made.memory);
    if (status.ok()) {
        status = prepare_(made.at, made.bytes, tier);
        if (status.ok()) {
            pieces_.push_back(made);
            return status;
        }
        // From here on no memory is taken from the piece, whichever way it ends.
        made.used = made.bytes;
        if (!driver_.is_idle() || !driver_.unmap(made.at, made.bytes).ok()) {
            pieces_.push_back(made);  // its preparation may still write to it
            return status;
        }
    }
    driver_.destroy(made.memory, made.bytes);
    driver_.unreserve(made.at, made.bytes);
    return status;
}

/// A piece that cannot be unmapped is left as it is: `destroy` and `unreserve` require that nothing is mapped.
void mapped_pieces::release() {
    const std::scoped_lock lock(mutex_);
    for (const piece& p : pieces_) {
        if (driver_.unmap(p.at, p.bytes).ok()) {
            driver_.destroy(p.memory, p.bytes);
            driver_.unreserve(p.at, p.bytes);
        }
    }
    pieces_.clear();
}

}  // namespace orchard::detail
