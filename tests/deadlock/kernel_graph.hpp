// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "device/simt/atomic.cuh"
#include "device/simt/launch.cuh"

namespace orchard::test {

/// A graph of kernels one behind another, each of which adds one to a word. Its instances end with it. Errors: CUDA's
/// own.
class kernel_graph {
public:
    static constexpr std::uint64_t nodes = 4;

    /// On that executor's GPU and stream; `word` is of that GPU.
    kernel_graph(const simt::executor& on, simt::device_word<std::uint64_t>* word) : on_{on}, word_{word} {}
    kernel_graph(const kernel_graph&) = delete;
    kernel_graph& operator=(const kernel_graph&) = delete;
    ~kernel_graph();

    /// Loads the kernel and adds the nodes: all that comes before an instance. Once.
    absl::Status build();
    /// `cudaGraphInstantiate` and nothing else of CUDA.
    absl::Status instantiate();
    [[nodiscard]] std::size_t instances() const { return instances_.size(); }
    /// Launches an instance, and waits for it.
    absl::Status launch(std::size_t instance);

private:
    simt::executor on_;
    simt::device_word<std::uint64_t>* word_;
    cudaGraph_t graph_ = nullptr;
    std::vector<cudaGraphExec_t> instances_;
};

}  // namespace orchard::test
