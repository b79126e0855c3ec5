// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// DynamicACT's access counters: accesses reach host memory remotely until a counter passes a threshold, which grows
/// with the use of GPU memory.
///
///     a lane accesses a page on the CPU      count(page): the counter of its 64 KiB region is one higher
///       below the threshold                  the access reaches host memory
///       at the threshold                     the region is unmapped, the access faults, the driver brings the page
///                                            and what its tree adds; the counter begins again at 0
///
///     threshold      1 + `act_threshold` * chunks in use / all chunks                 while a chunk is free
///                    `act_threshold` * (evictions of the VA block + 1) * `act_penalty`    afterwards
///
/// Our reading of D. Ganguly et al., "Adaptive page migration for irregular data-intensive applications under GPU
/// memory oversubscription" (IPDPS 2020), and of the abstract of their patent US 11,893,266: accesses to far memory are
/// counted for each unit of data, and a unit migrates when its count exceeds a dynamic threshold, which is computed
/// from a static one. AlignMalloc (TPDS 2025, section VII-E) calls it DynamicACT and says that the threshold follows
/// memory use. The formulas and their constants are ours.

#include <cstdint>
#include <vector>

#include "uvm/model/calibration.hpp"
#include "uvm/model/managed_space.hpp"

namespace orchard::uvm_model {

/// The counters of a managed space that was made with `host_access::remote`. Counting takes no modelled time: it is the
/// hardware's. Memory: 4 bytes for each 64 KiB.
class access_counters {
public:
    /// @param machine  `act_threshold` and `act_penalty`
    /// @param space  it must outlive the counters
    access_counters(const calibration& machine, managed_space& space);

    /// Counts one lane's access to page `page` of the space, which is mapped on the host. Returns true if the counter
    /// has reached the threshold: the region is not mapped any more, and the access faults. Returns false, and counts
    /// nothing, for memory that its advice keeps on the host: preferred location CPU, and accessed-by.
    [[nodiscard]] bool count(std::uint64_t page);

    /// Returns the threshold of a VA block now, in accesses: at least 1. With 1 the first access migrates, as by the
    /// driver's own rules.
    [[nodiscard]] std::uint64_t threshold_of(const va_block& block) const;

private:
    std::uint64_t base_;     ///< `act_threshold`
    std::uint64_t penalty_;  ///< `act_penalty`
    managed_space& space_;
    std::vector<std::uint32_t> counts_;  ///< by 64 KiB region of the space
};

}  // namespace orchard::uvm_model
