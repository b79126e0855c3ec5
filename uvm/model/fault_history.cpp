// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The epochs of Early-Adaptor's history of faults; see fault_history.hpp.

#include "uvm/model/fault_history.hpp"

#include <utility>

#include "uvm/model/prefetch_tree.hpp"

namespace orchard::uvm_model {
namespace {

/// No node of the tree has more than all of its pages: nothing is prefetched.
constexpr std::uint32_t no_prefetch = 100;

}  // namespace

std::uint32_t fault_history::threshold_of(std::uint32_t block) const {
    const std::uint64_t own = block < of_.size() ? of_[block].last : 0;
    if (last_.size() <= chunks_ || own == 0) {
        return prefetch_threshold;
    }
    // The comparison with the average, in whole numbers.
    return own * last_.size() > last_total_ ? dense_ : no_prefetch;
}

void fault_history::note(std::uint32_t block, std::uint32_t pages) {
    if (block >= of_.size()) {
        of_.resize(std::size_t{block} + 1);
    }
    if (of_[block].now == 0) {
        now_.push_back(block);
    }
    of_[block].now += pages;
    ++services_;
    now_total_ += pages;
}

void fault_history::end_batch() {
    if (services_ < length_) {
        return;
    }
    services_ = 0;
    for (const std::uint32_t block : last_) {
        of_[block].last = 0;
    }
    for (const std::uint32_t block : now_) {
        of_[block] = {of_[block].now, 0};
    }
    last_total_ = std::exchange(now_total_, 0);
    last_.swap(now_);
    now_.clear();
}

}  // namespace orchard::uvm_model
