// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Early-Adaptor's history of faults: the prefetch threshold of each VA block.
///
///     last epoch    block 3: 12 faults    block 5: 1 fault    block 8: 2 faults       2 chunks of GPU memory
///                   3 blocks for 2 chunks: they may thrash; 5 faults a block on average
///     this epoch    block 3: `adapt_percent`, more prefetch    5, 8: 100, none        all others: 51, as the driver
///
/// Our reading of S. Go et al., "Early-Adaptor: An adaptive framework for proactive UVM memory management" (ISPASS
/// 2023). Its abstract says: prefetching helps a VA block that faults relatively often; the risk of thrashing is given
/// by the number of VA blocks that keep faulting; the driver therefore changes the prefetch threshold by both.
/// AlignMalloc (TPDS 2025, section VII-E) adds that monitoring each VA block is expensive (`monitor_ns`). The length of
/// an epoch, the average as the border, and the two thresholds are ours.

#include <cstdint>
#include <vector>

#include "uvm/model/calibration.hpp"

namespace orchard::uvm_model {

/// The faults of all VA blocks in the last epoch and in this one. An epoch ends with the batch in which
/// `adapt_services` services were made for each chunk of GPU memory: with the default, 2, as many as could replace all
/// memory twice. The history goes on from run to run.
class fault_history {
public:
    /// @param machine  `adapt_services` and `adapt_percent`
    /// @param chunks  2 MiB chunks of GPU memory
    fault_history(const calibration& machine, std::uint64_t chunks)
        : dense_{machine.adapt_percent}, chunks_{chunks}, length_{machine.adapt_services * chunks} {}

    /// Returns the prefetch threshold of a VA block, as a percentage for `prefetch_mask`: the driver's if no more
    /// blocks faulted in the last epoch than the GPU has chunks, or if this one did not; otherwise `adapt_percent` if
    /// it faulted more than the average of them, and 100, which is no prefetch, if not. @param block  its index
    [[nodiscard]] std::uint32_t threshold_of(std::uint32_t block) const;

    /// Counts the faults of a service. @param pages  distinct pages that faulted in the block, at least 1
    void note(std::uint32_t block, std::uint32_t pages);

    /// Counts the end of a batch; the last one of an epoch begins the next. Cost: the blocks of two epochs.
    void end_batch();

private:
    /// The distinct faults of a VA block, batch by batch.
    struct faults {
        std::uint64_t last = 0;  ///< in the last epoch
        std::uint64_t now = 0;   ///< in this one
    };

    std::uint32_t dense_;  ///< threshold of blocks that fault more than the average
    std::uint64_t chunks_;
    std::uint64_t length_;             ///< services of an epoch, at least
    std::vector<faults> of_;           ///< indexed by block; it grows as blocks fault
    std::vector<std::uint32_t> last_;  ///< blocks that faulted in the last epoch
    std::vector<std::uint32_t> now_;   ///< blocks that faulted in this one
    std::uint64_t last_total_ = 0;     ///< faults of the last epoch
    std::uint64_t now_total_ = 0;      ///< faults of this one
    std::uint64_t services_ = 0;       ///< of this epoch
};

}  // namespace orchard::uvm_model
