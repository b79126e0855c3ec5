// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/containers/sort_keys.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#if ORCHARD_CUDA_SOURCE
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "device/simt/current_device.hpp"
#endif

namespace orchard::detail {
namespace {

#if ORCHARD_CUDA_SOURCE

absl::Status status_of(cudaError_t error) {
    if (error == cudaSuccess) {
        return absl::OkStatus();
    }
    (void)cudaGetLastError();  // it is reported here
    return absl::InternalError(std::string("a sort or a sum of CUB: CUDA: ") + cudaGetErrorName(error) + ": " +
                               cudaGetErrorString(error));
}

/// Calls a function of CUB's twice: for the size of its memory, and with it, unless `only_reserves` is true.
/// @param call  takes memory, its size, and the stream
template <class Call>
absl::Status with_memory(const simt::executor& on, device_array<std::byte>& memory, const Call& call,
                         bool only_reserves = false) {
    const simt::current_device here(on.device);
    if (here.error() != cudaSuccess) {
        return status_of(here.error());
    }
    auto* const stream = static_cast<cudaStream_t>(on.stream);
    std::size_t bytes = 0;
    if (absl::Status s = status_of(call(nullptr, bytes, stream)); !s.ok()) {
        return s;
    }
    if (memory.size() < bytes) {
        auto made = device_array<std::byte>::create(on, bytes + bytes / 4);
        if (!made.ok()) {
            return made.status();
        }
        memory = *std::move(made);
    }
    if (only_reserves) {
        return absl::OkStatus();
    }
    bytes = memory.size();
    return status_of(call(memory.data(), bytes, stream));
}

absl::Status sort_on_cuda(const simt::executor& on, sorted_arrays& arrays, int count, int bits,
                          device_array<std::byte>& memory) {
    cub::DoubleBuffer<std::uint64_t> keys(arrays.keys, arrays.other_keys);
    cub::DoubleBuffer<std::uint32_t> values(arrays.values, arrays.other_values);
    absl::Status done = with_memory(on, memory, [&](void* p, std::size_t& bytes, cudaStream_t stream) {
        return arrays.values == nullptr
                   ? cub::DeviceRadixSort::SortKeys(p, bytes, keys, count, 0, bits, stream)
                   : cub::DeviceRadixSort::SortPairs(p, bytes, keys, values, count, 0, bits, stream);
    });
    arrays.keys = keys.Current();
    arrays.other_keys = keys.Alternate();
    arrays.values = values.Current();
    arrays.other_values = values.Alternate();
    return done;
}

absl::Status sort_rows_on_cuda(const simt::executor& on, sorted_rows& arrays, int count,
                               device_array<std::byte>& memory, bool only_reserves) {
    cub::DoubleBuffer<std::uint8_t> keys(arrays.keys, arrays.other_keys);
    cub::DoubleBuffer<std::uint32_t> order(arrays.order, arrays.other_order);
    absl::Status done = with_memory(
        on, memory,
        [&](void* p, std::size_t& bytes, cudaStream_t stream) {
            return cub::DeviceRadixSort::SortPairs(p, bytes, keys, order, count, 0, 8, stream);
        },
        only_reserves);
    arrays = {keys.Current(), keys.Alternate(), order.Current(), order.Alternate()};
    return done;
}

#else

absl::Status no_cuda() { return absl::UnimplementedError("this build has no CUDA support; use the emulated device"); }

#endif

void sort_on_host(sorted_arrays& arrays, std::uint64_t count, int bits) {
    const std::uint64_t mask = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return (arrays.keys[a] & mask) < (arrays.keys[b] & mask);
    });
    for (std::uint64_t i = 0; i < count; ++i) {
        arrays.other_keys[i] = arrays.keys[order[i]];
        if (arrays.values != nullptr) {
            arrays.other_values[i] = arrays.values[order[i]];
        }
    }
    std::swap(arrays.keys, arrays.other_keys);
    std::swap(arrays.values, arrays.other_values);
}

}  // namespace

absl::Status sort_keys(const simt::executor& on, sorted_arrays& arrays, std::uint64_t count, int bits,
                       [[maybe_unused]] device_array<std::byte>& memory) {
    if (on.kind == simt::device_kind::emulated) {
        sort_on_host(arrays, count, bits);
        return absl::OkStatus();
    }
#if ORCHARD_CUDA_SOURCE
    return sort_on_cuda(on, arrays, static_cast<int>(count), bits, memory);
#else
    return no_cuda();
#endif
}

absl::Status sort_rows(const simt::executor& on, sorted_rows& arrays, std::uint64_t count,
                       [[maybe_unused]] device_array<std::byte>& memory) {
    if (on.kind == simt::device_kind::emulated) {
        std::stable_sort(arrays.order, arrays.order + count,
                         [&](std::uint32_t a, std::uint32_t b) { return arrays.keys[a] < arrays.keys[b]; });
        std::sort(arrays.keys, arrays.keys + count);
        return absl::OkStatus();
    }
#if ORCHARD_CUDA_SOURCE
    return sort_rows_on_cuda(on, arrays, static_cast<int>(count), memory, false);
#else
    return no_cuda();
#endif
}

absl::Status reserve_sort_rows(const simt::executor& on, [[maybe_unused]] std::uint64_t count,
                               [[maybe_unused]] device_array<std::byte>& memory) {
    if (on.kind == simt::device_kind::emulated) {
        return absl::OkStatus();
    }
#if ORCHARD_CUDA_SOURCE
    sorted_rows none;
    return sort_rows_on_cuda(on, none, static_cast<int>(count), memory, true);
#else
    return no_cuda();
#endif
}

absl::Status sum_before(const simt::executor& on, std::uint64_t* numbers, std::uint64_t count,
                        [[maybe_unused]] device_array<std::byte>& memory) {
    if (on.kind == simt::device_kind::emulated) {
        std::exclusive_scan(numbers, numbers + count, numbers, std::uint64_t{0});
        return absl::OkStatus();
    }
#if ORCHARD_CUDA_SOURCE
    return with_memory(on, memory, [&](void* p, std::size_t& bytes, cudaStream_t stream) {
        return cub::DeviceScan::ExclusiveSum(p, bytes, numbers, numbers, count, stream);
    });
#else
    return no_cuda();
#endif
}

}  // namespace orchard::detail
