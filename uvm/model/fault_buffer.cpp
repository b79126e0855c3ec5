// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The fault buffer; see fault_buffer.hpp. Entries are kept in one vector, sorted when the driver looks at it: many are
/// added between two looks, and not in order of arrival, because each warp's clock is its own.

#include "uvm/model/fault_buffer.hpp"

#include <algorithm>

namespace orchard::uvm_model {

nanoseconds fault_buffer::first_arrival() const {
    nanoseconds first = never;
    for (const fault& f : entries_) {
        first = std::min(first, f.arrival);
    }
    return first;
}

/// Sorts the entries added since the last sort, and merges them with the sorted ones.
void fault_buffer::sort() {
    const auto earlier = [](const fault& a, const fault& b) { return a.arrival < b.arrival; };
    const auto middle = entries_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    // Stable, so that entries with the same time keep the order in which the model's warps made them.
    std::stable_sort(middle, entries_.end(), earlier);
    std::inplace_merge(entries_.begin(), middle, entries_.end(), earlier);
    sorted_ = entries_.size();
}

/// The put pointer is read only if no known entry is left. Otherwise entries that arrived since the last reading stay
/// unseen.
void fault_buffer::fetch(nanoseconds now, std::uint32_t most, fault_batch& out) {
    sort();
    if (known_ == 0) {
        known_ =
            static_cast<std::size_t>(std::upper_bound(entries_.begin(), entries_.end(), now,
                                                      [](nanoseconds t, const fault& f) { return t < f.arrival; }) -
                                     entries_.begin());
    }
    const std::size_t n = std::min<std::size_t>(known_, most);
    const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(n);
    out.faults.assign(entries_.begin(), end);
    entries_.erase(entries_.begin(), end);
    sorted_ -= n;
    known_ -= n;
    // By address, with the most intrusive access of a page first.
    std::stable_sort(out.faults.begin(), out.faults.end(), [](const fault& a, const fault& b) {
        return a.page != b.page ? a.page < b.page : a.write > b.write;
    });
    out.duplicates = 0;
    for (std::size_t i = 1; i < n; ++i) {
        out.duplicates += out.faults[i].page == out.faults[i - 1].page ? 1 : 0;
    }
}

/// After a flush no entry is known: the next fetch reads the put pointer.
std::uint64_t fault_buffer::flush(nanoseconds now, bool update_put) {
    sort();
    std::size_t n = known_;
    if (update_put) {
        while (n < entries_.size() && entries_[n].arrival <= now) {
            ++n;
        }
    }
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(n));
    sorted_ -= n;
    known_ = 0;
    return n;
}

}  // namespace orchard::uvm_model
