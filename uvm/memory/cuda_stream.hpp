// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Streams that are made once and never destroyed: destroying a stream may wait for kernels that run.

#if ORCHARD_HAS_CUDA

#include <cuda_runtime_api.h>

#include "absl/status/status.h"

namespace orchard::detail {

/// A stream that waits for no work of other streams (`cudaStreamNonBlocking`), for one owner at a time. At its owner's
/// end it goes into a list of the process, from which the next owner in the same context takes it; the end makes no
/// CUDA call. A context is known by its number, so that after `cudaDeviceReset` new streams are made. Streams are not
/// shared: what one heap waits for on its stream would wait for the other heap's kernels.
class kept_stream {
public:
    kept_stream() = default;
    /// The stream has no work left by then.
    ~kept_stream();
    kept_stream(const kept_stream&) = delete;
    kept_stream& operator=(const kept_stream&) = delete;

    /// Takes a stream of the calling thread's current context. Once. Errors: the runtime's own.
    absl::Status take();
    /// Null before `take`.
    [[nodiscard]] cudaStream_t get() const { return stream_; }

private:
    cudaStream_t stream_ = nullptr;
    unsigned long long context_ = 0;  ///< 0: the driver does not number contexts, and the stream is not kept
};

}  // namespace orchard::detail

#endif
