// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `sampled_array`: a `lane_array` that counts one of 64 accesses for `heap::migrate`.

#include <cstdint>
#include <type_traits>

#include "device/heap_ref.cuh"

namespace orchard {

/// A view of an array in a heap whose memory moves between the device and the host. It is used as the array itself;
/// about one of 64 accesses is counted (`heap_ref::note_access`), so that `heap::migrate` knows which memory is in use.
///
///     orchard::sampled_array<float> a(array, heap);     // in a kernel
///     sum += a[i];
///
/// Which indices are counted depends on a hash of the index and of the calling thread: every stride meets some of them.
/// The view is of the thread that made it. Cost: four instructions for each access, and one relaxed atomic without a
/// result for one of 64.
template <class T>
class sampled_array {
public:
    ORCHARD_INLINE sampled_array(const lane_array<T>& array, const heap_ref& heap)
        : array_{array},
          samples_{heap.view().samples},
          base_{heap.view().base},
          bytes_{std::uint64_t{heap.view().segments} << segment_shift},
          seed_{static_cast<std::uint32_t>(simt::position().global_thread()) * 0x9e3779b9u} {}

    [[nodiscard]] ORCHARD_INLINE std::uint64_t size() const { return array_.size(); }
    /// Returns the array without samples.
    [[nodiscard]] ORCHARD_INLINE const lane_array<T>& array() const { return array_; }

    /// Returns element `i` < `size()`.
    template <class Index, device::if_integer<Index> = 0>
    ORCHARD_INLINE T& operator[](Index i) const {
        T& element = array_[i];
        // The upper 6 bits of the product: the factor is 2^32 divided by the golden ratio, which spreads any sequence.
        if ((static_cast<std::uint32_t>(i) * 0x9e3779b9u + seed_) >> 26 == 0 && samples_ != nullptr) {
            // Of another heap's array nothing is counted.
            const auto offset = static_cast<std::uint64_t>(reinterpret_cast<const char*>(&element) - base_);
            if (offset < bytes_) {
                (void)samples_[offset >> segment_shift].template fetch_add<simt::order::relaxed>(1u);
            }
        }
        return element;
    }

private:
    lane_array<T> array_;
    simt::device_word<std::uint32_t>* samples_;
    const char* base_;
    std::uint64_t bytes_;
    std::uint32_t seed_;
};

}  // namespace orchard
