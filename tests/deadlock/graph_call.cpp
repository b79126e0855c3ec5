// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "tests/deadlock/graph_call.hpp"

#if ORCHARD_HAS_CUDA

#include <cuda_runtime_api.h>

#include "uvm/cuda_memory.hpp"

namespace orchard::test {

using detail::to_status;

absl::Status run_a_graph(const simt::executor& on) {
    constexpr std::size_t bytes = 4096;
    auto* const stream = static_cast<cudaStream_t>(on.stream);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t instance = nullptr;
    void* host = nullptr;
    absl::Status status = to_status(cudaGraphCreate(&graph, 0), "cudaGraphCreate");
    status.Update(to_status(cudaHostAlloc(&host, bytes, cudaHostAllocDefault), "cudaHostAlloc"));
    cudaGraphNode_t before = nullptr;
    for (int i = 0; i < 4 && status.ok(); ++i) {
        cudaMemsetParams set{};
        set.dst = host;
        set.elementSize = 1;
        set.width = bytes;
        set.height = 1;
        cudaGraphNode_t node = nullptr;
        status.Update(to_status(cudaGraphAddMemsetNode(&node, graph, i == 0 ? nullptr : &before, i == 0 ? 0 : 1, &set),
                                "cudaGraphAddMemsetNode"));
        before = node;
    }
    if (status.ok()) {
        status.Update(to_status(cudaGraphInstantiate(&instance, graph, 0), "cudaGraphInstantiate"));
    }
    if (status.ok()) {
        status.Update(to_status(cudaGraphLaunch(instance, stream), "cudaGraphLaunch"));
        status.Update(to_status(cudaStreamSynchronize(stream), "cudaStreamSynchronize"));
    }
    if (instance != nullptr) {
        cudaGraphExecDestroy(instance);
    }
    if (graph != nullptr) {
        cudaGraphDestroy(graph);
    }
    cudaFreeHost(host);
    return status;
}

}  // namespace orchard::test

#else

namespace orchard::test {

absl::Status run_a_graph(const simt::executor&) {
    return absl::FailedPreconditionError("this build has no CUDA support");
}

}  // namespace orchard::test

#endif
