// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The baselines of a work generation (Winter et al., Fig. 11c to 11e): threads say how many bytes they need, an
/// exclusive prefix sum (CUB's on CUDA) gives each its place, and one array holds all. No allocator: it needs all sizes
/// before any block, and frees the array as a whole.
///
///     scan                 the array is made before the time begins
///     scan_malloc_async    the host reads the sum, and makes the array by cudaMallocAsync: by the host's clock

#include <numeric>
#include <utility>
#include <vector>

#include "profiling/arena/adapter.hpp"
#if ORCHARD_CUDA_SOURCE
#include <cub/device/device_scan.cuh>

#include "device/simt/event_pair.hpp"
#endif

namespace orchard::arena {
namespace {

/// Thread i writes the bytes that it needs.
struct count_kernel {
    request what;
    std::uint64_t* bytes;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads) {
            bytes[i] = (what.bytes(i) + 15) / 16 * 16;
        }
    }
};

/// Thread i takes its place in the array.
struct place_kernel {
    const std::uint64_t* offsets;
    char* memory;
    void** out;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads) {
            out[i] = memory + offsets[i];
        }
    }
};

/// Replaces `bytes` by their exclusive prefix sums. Returns the microseconds.
double scan(measurement& m, device_array<std::uint64_t>& bytes, [[maybe_unused]] device_array<char>& scratch) {
    if (!m.going()) {
        return 0;
    }
#if ORCHARD_CUDA_SOURCE
    if (m.on().kind == simt::device_kind::cuda) {
        auto* const stream = static_cast<cudaStream_t>(m.on().stream);
        const auto count = static_cast<int>(bytes.size());
        std::size_t needed = 0;
        cudaError_t error = cub::DeviceScan::ExclusiveSum(nullptr, needed, bytes.data(), bytes.data(), count, stream);
        if (scratch.size() < needed) {
            scratch = m.array<char>(needed);
        }
        simt::event_pair events;
        events.begin(stream);
        if (error == cudaSuccess && m.going()) {
            error = cub::DeviceScan::ExclusiveSum(scratch.data(), needed, bytes.data(), bytes.data(), count, stream);
        }
        events.end(stream);
        events.wait();
        if (error != cudaSuccess || events.error() != cudaSuccess) {
            m.update(absl::InternalError(cudaGetErrorString(error != cudaSuccess ? error : events.error())));
        }
        return events.microseconds();
    }
#endif
    return microseconds_of([&] {
        std::vector<std::uint64_t> host(bytes.size());
        m.update(bytes.download(host));
        std::exclusive_scan(host.begin(), host.end(), host.begin(), std::uint64_t{0});
        m.update(bytes.upload(host));
    });
}

outcome run_scan(const task& t) {
    measurement m(t);
    if (t.what.what != kind::work) {
        m.result.ended = verdict::not_offered;
        return m.finish();
    }
    const std::uint64_t threads = t.what.threads;
    auto bytes = m.array<std::uint64_t>(threads);
    auto memory = m.array<char>(threads * (t.what.most + 16));
    auto out = m.array<void*>(threads);
    device_array<char> scratch;
    m.preload<count_kernel, place_kernel, write_kernel>();
    for (int i = 0; i < t.repeats && m.going(); ++i) {
        double all = m.time(count_kernel{m.requests(), bytes.data(), threads}, threads);
        all += scan(m, bytes, scratch);
        all += m.time(place_kernel{bytes.data(), memory.data(), out.data(), threads}, threads);
        if (t.what.write) {
            all += m.time(write_kernel{m.requests(), out.data(), threads}, threads);
        }
        m.result.values.push_back(all);
    }
    note(m.result, inspect(m.blocks_of(out, threads)));
    return m.finish();
}

#if ORCHARD_CUDA_SOURCE
/// The sum of all bytes, and the array of that size.
struct async_array {
    cudaStream_t stream;
    void* memory = nullptr;

    /// Reads the last place and the last request, and allocates what they sum up to.
    void make(measurement& m, const device_array<std::uint64_t>& offsets, std::uint64_t last_bytes) {
        std::uint64_t last[1] = {0};
        if (m.going()) {
            m.update(offsets.download(last, offsets.size() - 1));
        }
        const cudaError_t error =
            m.going() ? cudaMallocAsync(&memory, last[0] + (last_bytes + 15) / 16 * 16, stream) : cudaSuccess;
        if (error != cudaSuccess) {
            m.update(absl::InternalError(cudaGetErrorString(error)));
        }
    }
    void free() {
        if (memory != nullptr) {
            cudaFreeAsync(std::exchange(memory, nullptr), stream);
        }
    }
};

outcome run_scan_async(const task& t) {
    measurement m(t);
    if (t.what.what != kind::work) {
        m.result.ended = verdict::not_offered;
        return m.finish();
    }
    const std::uint64_t threads = t.what.threads;
    auto bytes = m.array<std::uint64_t>(threads);
    auto out = m.array<void*>(threads);
    device_array<char> scratch;
    async_array all{static_cast<cudaStream_t>(t.on.stream)};
    m.preload<count_kernel, place_kernel, write_kernel>();
    for (int i = 0; i < t.repeats && m.going(); ++i) {
        all.free();
        m.result.values.push_back(microseconds_of([&] {
            m.time(count_kernel{m.requests(), bytes.data(), threads}, threads);
            scan(m, bytes, scratch);
            all.make(m, bytes, m.requests().bytes(threads - 1));
            m.time(place_kernel{bytes.data(), static_cast<char*>(all.memory), out.data(), threads}, threads);
            if (t.what.write) {
                m.time(write_kernel{m.requests(), out.data(), threads}, threads);
            }
        }));
    }
    note(m.result, inspect(m.blocks_of(out, threads)));
    all.free();
    return m.finish();
}

const registrar async_registered{
    {{.name = "scan_malloc_async", .source = "a prefix sum and one cudaMallocAsync of all", .needs_cuda = true},
     run_scan_async}};
#endif

const registrar scan_registered{
    {{.name = "scan", .source = "a prefix sum and one array: the baseline of a work generation"}, run_scan}};

}  // namespace
}  // namespace orchard::arena
