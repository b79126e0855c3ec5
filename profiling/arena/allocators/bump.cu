// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The floor: a bump pointer, one atomic for each group of converged lanes, whose `free` does nothing. An allocator
/// that hands out different addresses and keeps one counter cannot do with less. It is emptied before each repetition.

#include <utility>

#include "device/group/leader.cuh"
#include "profiling/arena/adapter.hpp"
#include "runtime/published/device_block.hpp"

namespace orchard::arena {
namespace {

struct bump_ref {
    simt::device_word<std::uint64_t>* top = nullptr;  ///< bytes handed out
    char* base = nullptr;
    std::uint64_t size = 0;

    ORCHARD_INLINE void* malloc(std::uint64_t bytes) const {
        if (bytes == 0 || bytes > size) {
            return nullptr;
        }
        const simt::lane_mask here = simt::converge();
        const std::uint64_t each = (bytes + 15) / 16 * 16;
        // Lanes with the same size share one atomic.
        const simt::lane_mask alike = simt::match(here, each);
        std::uint64_t first = 0;
        if (device::is_leader(alike)) {
            first = top->fetch_add<order::relaxed>(each * static_cast<std::uint64_t>(simt::popcount(alike)));
        }
        first = device::from_leader(alike, first) + each * static_cast<std::uint64_t>(simt::rank_in(alike));
        // The counter runs on beyond the end: 2^64 requests of 16 B are never made.
        return first + each <= size ? base + first : nullptr;
    }
    ORCHARD_INLINE void free(void*) const {}
};

class bump_owner {
public:
    static absl::StatusOr<bump_owner> create(const simt::executor& on, std::uint64_t bytes) {
        auto memory = detail::device_block::create(on, bytes);  // not cleared: preparing it is a case
        auto top = device_array<simt::device_word<std::uint64_t>>::create(on, 16);  // a line of its own
        if (!memory.ok() || !top.ok()) {
            return memory.ok() ? top.status() : memory.status();
        }
        bump_owner b;
        b.memory_ = *std::move(memory);
        b.size_ = bytes;
        b.top_ = *std::move(top);
        return b;
    }
    [[nodiscard]] bump_ref ref() const { return {top_.data(), memory_.data(), size_}; }
    absl::Status initialise() { return top_.zero(); }

private:
    detail::device_block memory_;
    std::uint64_t size_ = 0;
    device_array<simt::device_word<std::uint64_t>> top_;
};

const registrar bump_registered{adapt<bump_owner>(
    {.name = "bump", .source = "a bump pointer: the floor", .frees = false, .floor = true}, bump_owner::create)};

}  // namespace
}  // namespace orchard::arena
