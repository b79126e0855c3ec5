// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The emulated device's record of a kernel's accesses to one range of memory, lane by lane.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/simt/config.cuh"
#include "device/simt/emulated/hooks.hpp"

namespace orchard::simt::emulated {

/// One access of one lane.
struct recorded_access {
    std::uint64_t offset;  ///< bytes from the begin of the range
    std::uint32_t step;    ///< step of the lane's warp, from 0
    std::uint8_t lane;     ///< 0 to 31
    access kind;
    friend constexpr bool operator==(const recorded_access&, const recorded_access&) = default;
};

/// Records the accesses of launches to one range of memory, and nothing else. Name it in the `executor` of a launch on
/// the emulated device:
///
///     access_recorder recorder(view.base, bytes);
///     simt::executor on = heap.executor();
///     on.recorder = &recorder;
///     simt::launch(on, shape, kernel);
///
/// **What is recorded.** Every access through `simt::atomic` and `simt::plain`, and every element to which `lane_ptr`,
/// `lane_array` and `tile_span` give a reference. Accesses through that reference are not visible: it counts as one
/// read, even if the element is written or only its address is taken. Elements of the seam's types count by their own
/// accesses. Accesses through plain C++ pointers are not recorded.
///
/// **Steps.** The lanes of an emulated warp run one after another until they meet. Each lane's accesses are therefore
/// numbered. Lanes that meet (in a collective, or as a group in `converge`) continue with one number, the greatest of
/// theirs. Between two meetings, the k-th accesses of all lanes thus form one step. A lane outside a meeting's mask
/// keeps its own number. This is the order of a warp whose lanes execute the same loads together; if lanes diverge
/// without meeting, it runs both sides at once. Every step from 0 to the last has an access; no lane has two in one
/// step.
///
/// **Launches.** A further launch continues where each warp ended; a warp is identified by its index in the grid. The
/// record does not show that all warps end before the next launch begins.
///
/// Record one launch at a time; its blocks may run on several host threads. If the kernel's accesses are the same for
/// any number of threads, so is the record. 16 bytes an access; a launch fails if it finds no memory for them.
class access_recorder {
public:
    /// Creates an empty record of the `bytes` bytes from `begin` on.
    access_recorder(const void* begin, std::uint64_t bytes)
        : begin_{reinterpret_cast<std::uint64_t>(begin)}, bytes_{bytes} {}
    access_recorder(const access_recorder&) = delete;
    access_recorder& operator=(const access_recorder&) = delete;

    /// Returns where the range begins.
    [[nodiscard]] std::uint64_t begin() const { return begin_; }
    /// Returns the bytes of the range.
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    /// Returns the number of warps of the largest launch, including those that accessed nothing.
    [[nodiscard]] std::uint32_t warps() const { return static_cast<std::uint32_t>(warps_.size()); }
    /// Returns the accesses of a warp, by step and lane. No launch may run.
    [[nodiscard]] std::span<const recorded_access> of(std::uint32_t warp) const { return warps_[warp].accesses; }

    // The functions below are for the emulated device.

    void begin_launch(std::uint64_t warps);
    void end_launch();
    /// Records a lane's access. The thread that runs its block calls it.
    void add(std::uint64_t warp, std::uint32_t lane, const volatile void* word, access kind);
    /// Notes that `lanes` of a warp have met. The thread that runs their block calls it.
    void meet(std::uint64_t warp, lane_mask lanes);

private:
    struct warp_record {
        std::vector<recorded_access> accesses;
        std::size_t sorted = 0;                       // accesses of earlier launches, which come before all others
        std::array<std::uint32_t, warp_size> next{};  // each lane's next step
    };

    std::uint64_t begin_;
    std::uint64_t bytes_;
    std::vector<warp_record> warps_;
};

}  // namespace orchard::simt::emulated
