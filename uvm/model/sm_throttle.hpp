// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// ThrottlingFetch's throttle: how many SMs may begin steps while memory thrashes.
///
///     services, by epoch      |........|..r.rrr.|...rrr..|........|........|     r: brings an evicted block back
///     SMs that run, of 8      8        8        4        2        4        8
///
/// Our reading of C. Li et al., "A framework for memory oversubscription management in graphics processing units"
/// (ASPLOS 2019), whose abstract has "memory-aware throttling", and of AlignMalloc (TPDS 2025, sections VII-A and
/// VII-E), which calls it ThrottlingFetch. The abstract gives no rule: epochs, halving and doubling are ours.

#include <algorithm>
#include <cstdint>

#include "uvm/model/calibration.hpp"

namespace orchard::uvm_model {

/// The throttle of one run. Cost: a few additions for each service and each batch.
class sm_throttle {
public:
    /// @param machine  `throttle_batches` and `throttle_percent`
    /// @param sms  SMs that have warps: at least 1
    sm_throttle(const calibration& machine, std::uint32_t sms)
        : batches_{machine.throttle_batches}, percent_{machine.throttle_percent}, sms_{sms}, running_{sms} {}

    /// Counts the service of a VA block. @param returned  the service brought a block back that had been evicted
    void note(bool returned) {
        ++services_;
        returns_ += returned ? 1 : 0;
    }

    /// Counts the end of a batch, and returns the number of SMs that may begin steps from now on: at the end of an
    /// epoch half as many, at least 1, if more than `throttle_percent` of its services were returns; otherwise twice as
    /// many, at most all.
    std::uint32_t end_batch() {
        if (++ended_ == batches_) {
            const bool thrashes = returns_ * 100 > services_ * percent_;
            running_ = thrashes ? std::max(1u, running_ / 2) : std::min(sms_, running_ * 2);
            ended_ = 0;
            services_ = 0;
            returns_ = 0;
        }
        return running_;
    }

    /// Lets all SMs run again and returns their number. Called when the SMs that may run have no warp left.
    std::uint32_t release() { return running_ = sms_; }

private:
    std::uint32_t batches_;       ///< of an epoch
    std::uint64_t percent_;       ///< of services that are returns, above which memory thrashes
    std::uint32_t sms_;           ///< all
    std::uint32_t running_;       ///< those that may begin steps
    std::uint32_t ended_ = 0;     ///< batches of this epoch that have ended
    std::uint64_t services_ = 0;  ///< of this epoch
    std::uint64_t returns_ = 0;   ///< of these services, those that brought an evicted block back
};

}  // namespace orchard::uvm_model
