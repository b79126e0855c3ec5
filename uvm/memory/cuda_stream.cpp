// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The list of unused streams of the process; cuda_stream.hpp says why no stream is destroyed.
///
///     context 1    | stream | stream |      streams of ended heaps; `take` uses the last one
///     context 7    | stream |

#include "uvm/memory/cuda_stream.hpp"

#if ORCHARD_HAS_CUDA

#include <map>
#include <mutex>
#include <vector>

#include "uvm/memory/cuda_calls.hpp"
#include "uvm/memory/cuda_memory.hpp"

namespace orchard::detail {
namespace {

/// The unused streams of the process, by context. The mutex is held for the list alone, and for no call of CUDA.
struct free_streams {
    std::mutex mutex;
    std::map<unsigned long long, std::vector<cudaStream_t>> of_context;
};

/// Never destroyed, because heaps may end later than static objects.
free_streams& unused() {
    static auto* const streams = new free_streams;
    return *streams;
}

/// Returns the number of the calling thread's current context, which is unique in this process; 0 if unknown.
unsigned long long current_context() {
    decltype(cuCtxGetId)* number_of = nullptr;
    unsigned long long number = 0;
    return driver_calls::find("cuCtxGetId", number_of).ok() && number_of(nullptr, &number) == CUDA_SUCCESS ? number : 0;
}

}  // namespace

/// The stream that became unused last is taken first. An unused stream has no work left (see the destructor), so that
/// the new owner need not wait for it. Creating one happens without the mutex, since it may wait for running kernels.
absl::Status kept_stream::take() {
    context_ = current_context();
    if (context_ != 0) {
        const std::scoped_lock lock(unused().mutex);
        if (auto& streams = unused().of_context[context_]; !streams.empty()) {
            stream_ = streams.back();
            streams.pop_back();
            return absl::OkStatus();
        }
    }
    return to_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

/// Makes no CUDA call if the context is numbered: adding to the list waits for no kernel. Without a number the stream
/// cannot be attributed to a context, and a later owner could get a stream of another one; it is destroyed.
kept_stream::~kept_stream() {
    if (stream_ == nullptr) {
        return;
    }
    if (context_ == 0) {
        cudaStreamDestroy(stream_);
        return;
    }
    const std::scoped_lock lock(unused().mutex);
    unused().of_context[context_].push_back(stream_);
}

}  // namespace orchard::detail

#endif
