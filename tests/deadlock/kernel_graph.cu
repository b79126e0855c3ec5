// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "tests/deadlock/kernel_graph.hpp"

#include "runtime/launch_status.hpp"
#include "uvm/cuda_memory.hpp"

namespace orchard::test {
namespace {

using detail::to_status;

struct add_one {
    simt::device_word<std::uint64_t>* word;
    ORCHARD_FN void operator()(simt::thread_position) const { word->fetch_add<simt::order::relaxed>(1); }
};

}  // namespace

kernel_graph::~kernel_graph() {
    for (const cudaGraphExec_t instance : instances_) {
        cudaGraphExecDestroy(instance);
    }
    if (graph_ != nullptr) {
        cudaGraphDestroy(graph_);
    }
}

absl::Status kernel_graph::build() {
    absl::Status status = orchard::to_status(simt::preload<add_one>(on_));
    status.Update(to_status(cudaGraphCreate(&graph_, 0), "cudaGraphCreate"));
    add_one kernel{word_};
    void* arguments[] = {&kernel};
    cudaKernelNodeParams launch{};
    launch.func = reinterpret_cast<void*>(simt::detail::entry<add_one>);
    launch.gridDim = launch.blockDim = dim3(1);
    launch.kernelParams = arguments;
    cudaGraphNode_t last = nullptr;
    for (std::uint64_t i = 0; i < nodes && status.ok(); ++i) {
        cudaGraphNode_t node = nullptr;
        status.Update(
            to_status(cudaGraphAddKernelNode(&node, graph_, i == 0 ? nullptr : &last, i == 0 ? 0 : 1, &launch),
                      "cudaGraphAddKernelNode"));
        last = node;
    }
    return status;
}

absl::Status kernel_graph::instantiate() {
    cudaGraphExec_t instance = nullptr;
    absl::Status status = to_status(cudaGraphInstantiate(&instance, graph_, 0), "cudaGraphInstantiate");
    if (status.ok()) {
        instances_.push_back(instance);
    }
    return status;
}

absl::Status kernel_graph::launch(std::size_t instance) {
    auto* const stream = static_cast<cudaStream_t>(on_.stream);
    absl::Status status = to_status(cudaGraphLaunch(instances_.at(instance), stream), "cudaGraphLaunch");
    status.Update(to_status(cudaStreamSynchronize(stream), "cudaStreamSynchronize"));
    return status;
}

}  // namespace orchard::test
