// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What a kernel accesses, lane by lane: the emulated device's record of one range of memory.

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
    std::uint64_t offset;  ///< bytes from the beginning of the range
    std::uint32_t step;    ///< of the lane's warp, from 0
    std::uint8_t lane;     ///< 0 to 31
    access kind;
    friend constexpr bool operator==(const recorded_access&, const recorded_access&) = default;
};

/// Records what launches access in the range of memory that it is made for, and nothing else. To be named in the
/// `executor` of a launch on the emulated device:
///
///     access_recorder recorder(view.base, bytes);
///     simt::executor on = heap.executor();
///     on.recorder = &recorder;
///     simt::launch(on, shape, kernel);
///
/// **What is seen**: every access through `simt::atomic` and `simt::plain`, and every element that `lane_ptr`,
/// `lane_array` and `tile_span` give a reference to. What is done with that reference is not: it counts as one read,
/// also where the element is written or only its address taken. Elements of the seam's types count as what is done with
/// them. Plain C++ pointers are not seen.
///
/// **Steps.** The lanes of an emulated warp run one after another until they meet. So the accesses of each lane are
/// numbered, and the lanes that meet (in a collective, or as a group in `converge`) go on with one number, the greatest
/// of theirs: between two meetings the k-th accesses of all lanes are one step. A lane that is not in a meeting's mask
/// keeps its own number. That is the order of a warp whose lanes execute the same loads together; where they diverge
/// without meeting it runs both sides at once. Every step from 0 to the last has an access; no lane has two in one.
///
/// **Launches.** A further launch goes on where each warp ended: what a warp is, is its index in the grid. That all
/// warps end before the next launch begins is not recorded.
///
/// One launch at a time; its blocks may run on several host threads. What is recorded is the same for all of those,
/// where the kernel's accesses are. 16 bytes an access; a launch that finds no memory for them fails.
class access_recorder {
public:
    /// Nothing recorded yet of `bytes` bytes from `begin` on.
    access_recorder(const void* begin, std::uint64_t bytes)
        : begin_{reinterpret_cast<std::uint64_t>(begin)}, bytes_{bytes} {}
    access_recorder(const access_recorder&) = delete;
    access_recorder& operator=(const access_recorder&) = delete;

    /// Where the range begins.
    [[nodiscard]] std::uint64_t begin() const { return begin_; }
    /// Bytes of the range.
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    /// Warps of the largest launch; those that accessed nothing included.
    [[nodiscard]] std::uint32_t warps() const { return static_cast<std::uint32_t>(warps_.size()); }
    /// What a warp accessed, by step and lane. No launch runs.
    [[nodiscard]] std::span<const recorded_access> of(std::uint32_t warp) const { return warps_[warp].accesses; }

    // For the engine.

    void begin_launch(std::uint64_t warps);
    void end_launch();
    /// A lane's access; from the thread that runs its block.
    void add(std::uint64_t warp, std::uint32_t lane, const volatile void* word, access kind);
    /// `lanes` of a warp have met; likewise.
    void meet(std::uint64_t warp, lane_mask lanes);

private:
    struct warp_record {
        std::vector<recorded_access> accesses;
        std::size_t sorted = 0;                       // of earlier launches: they come before all others
        std::array<std::uint32_t, warp_size> next{};  // each lane's next step
    };

    std::uint64_t begin_;
    std::uint64_t bytes_;
    std::vector<warp_record> warps_;
};

}  // namespace orchard::simt::emulated
