// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The time of work on a stream, by CUDA events. Only for builds with CUDA.

#include <cuda_runtime_api.h>

namespace orchard::simt {

/// Two events, which `begin` and `end` record before and behind the work. The first error stays, and nothing is
/// recorded after it: the time is 0 then.
class event_pair {
public:
    /// @param wanted  false: no events are made, and the time is 0
    explicit event_pair(bool wanted = true) : wanted_{wanted} {
        if (wanted_) {
            note(cudaEventCreate(&begin_));
            note(cudaEventCreate(&end_));
        }
    }
    event_pair(const event_pair&) = delete;
    event_pair& operator=(const event_pair&) = delete;
    ~event_pair() {
        for (const cudaEvent_t event : {begin_, end_}) {
            if (event != nullptr) {
                cudaEventDestroy(event);
            }
        }
    }

    void begin(cudaStream_t stream = nullptr) { record(begin_, stream); }
    void end(cudaStream_t stream = nullptr) { record(end_, stream); }
    /// Waits until the work is done.
    void wait() {
        if (measures()) {
            note(cudaEventSynchronize(end_));
        }
    }
    /// Returns the time between the events, which must have completed.
    [[nodiscard]] double microseconds() {
        float ms = 0;
        if (measures()) {
            note(cudaEventElapsedTime(&ms, begin_, end_));
        }
        return static_cast<double>(ms) * 1e3;
    }
    /// Returns the first error, or cudaSuccess.
    [[nodiscard]] cudaError_t error() const { return error_; }

private:
    [[nodiscard]] bool measures() const { return wanted_ && error_ == cudaSuccess; }
    void record(cudaEvent_t event, cudaStream_t stream) {
        if (measures()) {
            note(cudaEventRecord(event, stream));
        }
    }
    void note(cudaError_t error) {
        if (error_ == cudaSuccess && error != cudaSuccess) {
            error_ = error;
            (void)cudaGetLastError();  // otherwise the program's next query would return this error
        }
    }

    bool wanted_;
    cudaEvent_t begin_ = nullptr;
    cudaEvent_t end_ = nullptr;
    cudaError_t error_ = cudaSuccess;
};

}  // namespace orchard::simt
