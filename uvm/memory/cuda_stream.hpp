// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Streams that are created once and never destroyed, because destroying a stream may wait for running kernels.

#if ORCHARD_HAS_CUDA

#include <cuda_runtime_api.h>

#include "absl/status/status.h"

namespace orchard::detail {

/// Holds a stream that waits for no work of other streams (`cudaStreamNonBlocking`), for one owner at a time. When its
/// owner is destroyed, the stream goes into a list of the process, without any CUDA call. The next owner in the same
/// context takes it from there. A context is identified by its number, so that new streams are created after
/// `cudaDeviceReset`. Two owners never share a stream, because a heap that waits for its stream would then wait for the
/// other heap's kernels. The process therefore holds as many streams as its heaps ever had at one time.
///
///     take() --none unused in this context--> cudaStreamCreateWithFlags --+
///        |                                                                v
///        +--one unused---------------------------------------------> owned --owner destroyed--> unused
class kept_stream {
public:
    kept_stream() = default;
    /// Makes the stream unused. It must have no work left: the next owner would wait for it. Waits for no kernel,
    /// unless the driver does not number contexts.
    ~kept_stream();
    kept_stream(const kept_stream&) = delete;
    kept_stream& operator=(const kept_stream&) = delete;

    /// Takes a stream of the calling thread's current context. Call it once. Errors: the runtime's own. Cost: a call of
    /// the driver, if an unused stream is there; otherwise that of creating one.
    absl::Status take();
    /// Returns the stream; null before `take`.
    [[nodiscard]] cudaStream_t get() const { return stream_; }

private:
    // Both are set by `take`, and constant afterwards.
    cudaStream_t stream_ = nullptr;
    unsigned long long context_ = 0;  ///< 0: the driver does not number contexts, so the stream is not reused
};

}  // namespace orchard::detail

#endif
