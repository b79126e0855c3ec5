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

/// Runs a baseline. `repeat(m, step)` returns the microseconds of one repetition, in which it calls `step(memory_for)`:
/// this launches all, with the array that `memory_for(offsets)` returns, and returns the microseconds of the kernels.
template <class Repeat>
outcome run_baseline(const task& t, const Repeat& repeat) {
    measurement m(t);
    if (t.what.what != kind::work) {
        m.result.ended = verdict::not_offered;
        return m.finish();
    }
    const std::uint64_t threads = t.what.threads;
    auto bytes = m.array<std::uint64_t>(threads);
    auto out = m.array<void*>(threads);
    device_array<char> scratch;
    m.preload<count_kernel, place_kernel, write_kernel>();
    const auto step = [&](const auto& memory_for) {
        double all = m.time(count_kernel{m.requests(), bytes.data(), threads}, threads);
        all += scan(m, bytes, scratch);
        all += m.time(place_kernel{bytes.data(), memory_for(bytes), out.data(), threads}, threads);
        if (t.what.write) {
            all += m.time(write_kernel{m.requests(), out.data(), threads}, threads);
        }
        return all;
    };
    for (int i = 0; i < t.repeats && m.going(); ++i) {
        m.result.values.push_back(repeat(m, step));
    }
    note(m.result, inspect(m.blocks_of(out, threads)));
    return m.finish();
}

outcome run_scan(const task& t) {
    device_array<char> memory;
    return run_baseline(t, [&](measurement& m, const auto& step) {
        if (memory.size() == 0) {
            memory = m.array<char>(std::uint64_t{t.what.threads} * (t.what.most + 16));
        }
        return step([&](const device_array<std::uint64_t>&) { return memory.data(); });
    });
}

#if ORCHARD_CUDA_SOURCE
/// The array of one repetition, of the bytes that the host reads: the last place and the last request.
class async_array {
public:
    explicit async_array(cudaStream_t stream) : stream_{stream} {}
    async_array(const async_array&) = delete;
    async_array& operator=(const async_array&) = delete;
    ~async_array() { free(); }

    char* make(measurement& m, const device_array<std::uint64_t>& offsets) {
        std::uint64_t last[1] = {0};
        if (m.going()) {
            m.update(offsets.download(last, offsets.size() - 1));
        }
        const std::uint64_t bytes = last[0] + (m.requests().bytes(offsets.size() - 1) + 15) / 16 * 16;
        const cudaError_t error = m.going() ? cudaMallocAsync(&memory_, bytes, stream_) : cudaSuccess;
        if (error != cudaSuccess) {
            m.update(absl::InternalError(cudaGetErrorString(error)));
        }
        return static_cast<char*>(memory_);
    }
    void free() {
        if (memory_ != nullptr) {
            cudaFreeAsync(std::exchange(memory_, nullptr), stream_);
        }
    }

private:
    cudaStream_t stream_;
    void* memory_ = nullptr;
};

outcome run_scan_async(const task& t) {
    async_array all(static_cast<cudaStream_t>(t.on.stream));
    return run_baseline(t, [&](measurement& m, const auto& step) {
        all.free();
        return microseconds_of(
            [&] { step([&](const device_array<std::uint64_t>& offsets) { return all.make(m, offsets); }); });
    });
}

const registrar async_registered{
    {{.name = "scan_malloc_async", .source = "a prefix sum and one cudaMallocAsync of all", .needs_cuda = true},
     run_scan_async}};
#endif

const registrar scan_registered{
    {{.name = "scan", .source = "a prefix sum and one array: the baseline of a work generation"}, run_scan}};

}  // namespace
}  // namespace orchard::arena
