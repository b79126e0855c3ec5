// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A part of `orchard bench first`: a kernel allocates from an empty heap, and a kernel that was never launched before
/// is launched after it. CUDA loads the second kernel at its launch, unless all kernels are loaded eagerly, while the
/// first one waits for memory. The rows count the first kernel's nulls and its time. On a GPU only.
///
/// The danger: the loading waits for the running kernel (`heap::preload`), and that kernel waits for memory. If the
/// heap's growth had to wait for the loading, requests would run into their timeout and get null.
///
///     stream                         of the second kernel: that of the first one, or another one
///     loading                        lazy or eager, as the process was started
///     second_launch_ms               time of the call that launches the second kernel, on the host
///     answered_ms                    time until all threads of the first kernel had their result; null: over a minute
///     answered_before_second_launch  whether they had it already: the row then says nothing about loading
///     kernel_ms                      the first kernel, between events, its wait for the release included
///     nulls                          requests that failed; 0 is expected

#include "profiling/bench/first.hpp"
#include "profiling/bench/first_launch.cuh"

#if ORCHARD_CUDA_SOURCE
#include <cuda_runtime_api.h>

#include <array>
#include <new>
#include <utility>

#include "runtime/heap/device_memory.hpp"
#include "runtime/nvtx/phase.hpp"
#endif

namespace orchard::bench::first {

using nlohmann::ordered_json;

#if ORCHARD_CUDA_SOURCE

namespace {

using simt::order;

/// Words of pinned memory that the host and the first kernel share.
struct signals {
    simt::host_word<std::uint32_t> answered;  ///< 1 when all threads have their result
    simt::host_word<std::uint32_t> released;  ///< 1 when they may end
};

/// Words of device memory that the threads of the first kernel share.
struct shared_state {
    simt::device_word<std::uint32_t> answered;  ///< threads that have their result
    simt::device_word<std::uint32_t> released;  ///< the host's word, passed on by thread 0
    simt::device_word<std::uint64_t> nulls;
};

/// The first kernel: each thread allocates a block, then waits at most five seconds to be released. The blocks are not
/// freed; they end with the heap.
struct ask_and_wait {
    /// So that a kernel ends even if the host does not release it.
    static constexpr std::uint64_t deadline_ns = 5'000'000'000;

    heap_ref heap;
    std::uint32_t threads;
    std::uint32_t least;  ///< bytes
    std::uint32_t most;   ///< bytes, included
    shared_state* shared;
    signals* host;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i >= threads) {
            return;
        }
        if (heap.malloc(least + device::mix(i) % (most - least + 1)) == nullptr) {
            shared->nulls.fetch_add<order::relaxed>(1);
        }
        // The thread that completes the count tells the host.
        if (shared->answered.fetch_add<order::relaxed>(1) + 1 == threads) {
            host->answered.store<order::release>(1);
        }
        const std::uint64_t began = simt::clock_ns();
        while (shared->released.load<order::relaxed>() == 0 && simt::clock_ns() - began < deadline_ns) {
            // One thread alone reads the host's word: reads of host memory by all threads would delay commits.
            if (i == 0 && host->released.load<order::relaxed>() != 0) {
                shared->released.store<order::relaxed>(1);
            }
            simt::pause(1000);
        }
    }
};

/// The second kernel. Each instance is launched once, by `second_launches`.
template <int N>
__global__ void never_launched(std::uint32_t* word) {
    *word = N;
}

/// Launches instance `N`. Each instance is a kernel of its own, which the driver has not loaded yet.
template <int N>
void launch_never_launched(cudaStream_t stream, std::uint32_t* word) {
    never_launched<N><<<1, 1, 0, stream>>>(word);
}

/// One for each case: a second launch of the same instance would find it loaded.
constexpr std::array second_launches{&launch_never_launched<0>, &launch_never_launched<1>, &launch_never_launched<2>,
                                     &launch_never_launched<3>};

/// Streams, events and pinned memory, all made before any kernel runs, because such calls may wait for running kernels.
/// The streams are non-blocking: the default stream would order the two kernels.
class loading_run {
public:
    loading_run() {
        note(cudaStreamCreateWithFlags(&first_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
        note(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
        note(cudaHostAlloc(&pinned_, sizeof(signals), cudaHostAllocMapped), "cudaHostAlloc");
    }
    loading_run(const loading_run&) = delete;
    loading_run& operator=(const loading_run&) = delete;
    ~loading_run() {
        cudaFreeHost(pinned_);
        for (const cudaStream_t stream : {first_, other_}) {
            if (stream != nullptr) {
                cudaStreamDestroy(stream);
            }
        }
    }

    /// One row: the first kernel's requests, and the stream of the second one.
    struct one_case {
        std::uint32_t threads;
        std::uint32_t least;  ///< bytes
        std::uint32_t most;
        bool same_stream;
    };

    /// Measures one case on a new heap and adds its row. Errors: those of the heap and of the runtime. A null is no
    /// error: it is the result.
    /// @param number  of the instance to launch, another one in each case
    absl::Status measure(const settings& s, const one_case& c, std::size_t number, ordered_json& rows) {
        options values = options_of(s, backing_option::elastic, std::uint64_t{40} << 30);
        // A heap that cannot grow then ends the kernel soon. All other options have their defaults.
        values.request_timeout = std::min(values.request_timeout, absl::Seconds(1));
        auto h = heap::create(values);
        if (!h.ok()) {
            return h.status();
        }
        auto shared = device_array<shared_state>::create(h->executor(), 1);
        auto word = device_array<std::uint32_t>::create(h->executor(), 1);
        if (!shared.ok() || !word.ok() || !status_.ok()) {
            return !status_.ok() ? status_ : shared.ok() ? word.status() : shared.status();
        }
        // Both words begin at 0, in memory that the previous case used.
        auto* const host = new (pinned_) signals{};
        const ask_and_wait work{h->ref(), c.threads, c.least, c.most, shared->data(), host};
        ordered_json row{{"what", "a kernel is loaded beside one that allocates"},
                         {"stream", c.same_stream ? "the same" : "another"},
                         {"loading", h->loads_kernels_eagerly() ? "eager" : "lazy"},
                         {"backing", "elastic"},
                         {"threads", c.threads},
                         {"bytes", c.least},
                         {"bytes_to", c.most}};
        launch_both(work, c, number, word->data(), *host, row);
        shared_state seen{};
        status_.Update(shared->download({&seen, 1}));
        row["nulls"] = seen.nulls.load<order::relaxed>();
        rows.push_back(std::move(row));
        return status_;
    }

private:
    /// Keeps the first error of the runtime.
    void note(cudaError_t error, const char* call) { status_.Update(cuda_status(error, call)); }

    /// Launches both kernels, waits for the results, releases the first kernel, and adds the times to the row.
    void launch_both(const ask_and_wait& work, const one_case& c, std::size_t number, std::uint32_t* word,
                     signals& host, ordered_json& row) {
        const simt::grid shape = simt::grid_for(c.threads);
        const nvtx::phase marked(nvtx::phase::allocate, c.threads);
        const stopwatch watch;
        events_.begin(first_);
        plain_kernel<<<shape.blocks, shape.threads_per_block, 0, first_>>>(work);
        note(cudaGetLastError(), "the first launch");
        events_.end(first_);
        const double began_ms = watch.ms();
        // Read before the second launch. If all were answered already, the loading was not beside any request.
        const bool before = host.answered.load<order::acquire>() != 0;
        second_launches[number](c.same_stream ? first_ : other_, word);
        note(cudaGetLastError(), "the second launch");
        row["second_launch_ms"] = watch.ms() - began_ms;
        // The host waits without a CUDA call, because such a call could wait for the kernel that waits for the host.
        const bool answered = wait_for_results(host, watch);
        row["answered_ms"] = answered ? ordered_json(watch.ms()) : ordered_json(nullptr);
        row["answered_before_second_launch"] = before;
        host.released.store<order::release>(1);
        note(cudaStreamSynchronize(first_), "cudaStreamSynchronize");
        note(cudaStreamSynchronize(other_), "cudaStreamSynchronize");
        row["kernel_ms"] = events_.microseconds() / 1000;
        note(events_.error(), "the events around the first launch");
    }
    /// Returns true if all threads had their result within a minute. Makes no CUDA call.
    static bool wait_for_results(const signals& host, const stopwatch& watch) {
        while (host.answered.load<order::acquire>() == 0) {
            if (watch.ms() > 60'000) {
                return false;
            }
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        return true;
    }

    cudaStream_t first_ = nullptr;
    cudaStream_t other_ = nullptr;
    simt::event_pair events_;
    void* pinned_ = nullptr;  ///< host memory that the GPU can access: the `signals`
    absl::Status status_;
};

}  // namespace

absl::Status measure_loading_beside(const settings& s, ordered_json& rows) {
    if (s.device != simt::device_kind::cuda) {
        return absl::OkStatus();
    }
    simt::executor device;
    device.kind = s.device;
    launcher on(device);
    // The first kernel is loaded beforehand: only the loading of the second one is of interest.
    absl::Status status = on.load<ask_and_wait>().status();
    loading_run run;
    std::size_t number = 0;
    for (const bool same_stream : {true, false}) {
        for (const auto& c :
             {loading_run::one_case{256, 64, 64, same_stream}, {16'384, 1 << 10, 256 << 10, same_stream}}) {
            if (status.ok()) {
                status.Update(run.measure(s, c, number++, rows));
            }
            let_memory_rest(s);
        }
    }
    return status;
}

#else

absl::Status measure_loading_beside(const settings&, ordered_json&) { return absl::OkStatus(); }

#endif

}  // namespace orchard::bench::first
