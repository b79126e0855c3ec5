// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The fault buffer between GPU and driver: raw entries in the order in which they arrive, fetched in batches, flushed.
/// Rules F1, F2 and F4 of docs/uvm.md.
///
///     entries by arrival   | a | b | c | d | e | f | g |         now: 40
///                            10  20  30  35  40  45  60
///                          ^               ^
///                          fetch(40, 3)    put pointer as the driver read it at 40: 5 entries are known
///     taken: a b c         known and left: d e, which the flush drops
///                          f g: stay; with `update_put` they are dropped if they have arrived by the flush
///
/// A dropped entry is not lost for its warp: after the replay the warp accesses the page again, and faults again if the
/// page is still missing.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace orchard::uvm_model {

/// Model time in nanoseconds from the model's beginning.
using nanoseconds = std::int64_t;
/// Later than every other time.
inline constexpr nanoseconds never = std::numeric_limits<nanoseconds>::max();
/// Returns the nearest whole number of nanoseconds.
[[nodiscard]] inline nanoseconds whole(double ns) { return static_cast<nanoseconds>(std::llround(ns)); }

/// One raw entry.
struct fault {
    nanoseconds arrival;  ///< time when it is in the buffer
    std::uint64_t page;   ///< OS page of the managed space
    bool write;           ///< a write or an atomic
};

/// The contents of one batch.
struct fault_batch {
    std::vector<fault> faults;     ///< ascending by page, duplicates next to each other
    std::uint32_t duplicates = 0;  ///< entries for a page that an earlier entry also has
};

/// A buffer without a limit. The hardware's buffer holds thousands of entries, and the limits of the micro-TLBs keep it
/// from filling.
///
/// The driver learns how far the GPU has written only by reading the buffer's *put* pointer. It does so only when it
/// has used up all entries that it knew of, or when a flush requires it.
class fault_buffer {
public:
    /// Adds an entry that arrives at `f.arrival`, which may be in the future.
    void push(const fault& f) { entries_.push_back(f); }

    /// Return whether there are entries, and their number. Entries that have not arrived yet count.
    [[nodiscard]] bool empty() const { return entries_.empty(); }
    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    /// Returns the time when the first entry arrives; `never` if there is none. Cost: O(entries), since new entries are
    /// not sorted yet.
    [[nodiscard]] nanoseconds first_arrival() const;

    /// Takes up to `most` entries that have arrived by `now`, oldest first, and sorts them by page. The batch is empty
    /// if none has arrived. Source: `uvm_gpu_replayable_faults.c: fetch_fault_buffer_entries`,
    /// `preprocess_fault_batch`.
    void fetch(nanoseconds now, std::uint32_t most, fault_batch& out);

    /// Drops the entries that the driver knew of at the last fetch and did not take (`CACHED_PUT`), or with
    /// `update_put` all that have arrived by `now`; entries that arrive later stay. Returns the number of dropped
    /// entries. Source: `uvm_gpu_replayable_faults.c: fault_buffer_flush_locked`.
    std::uint64_t flush(nanoseconds now, bool update_put);

private:
    /// Sorts the entries by arrival. Entries with the same arrival keep the order of their `push`.
    void sort();

    std::vector<fault> entries_;  ///< by arrival up to sorted_, then in the order of `push`
    std::size_t sorted_ = 0;      ///< the first entries, in order of arrival
    std::size_t known_ = 0;       ///< number of entries_ before the put pointer as last read by the driver
};

}  // namespace orchard::uvm_model
