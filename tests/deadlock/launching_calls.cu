// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include <utility>

#include "tests/deadlock/calls.hpp"
#include "tests/deadlock/linked_module.hpp"
#include "uvm/memory/cuda_memory.hpp"

namespace orchard::test {
namespace {

using detail::to_status;

constexpr int fresh_kernels = 64;

/// Kernels of which each is launched once at most.
template <int N>
__global__ void never_loaded(int* to) {
    if (to != nullptr) {
        *to = N;
    }
}

/// Launched before, as nodes of a graph.
__global__ void add_one(int* to) { atomicAdd(to, 1); }

using kernel = void (*)(int*);

template <int... N>
kernel kernel_at(int index, std::integer_sequence<int, N...>) {
    static constexpr kernel all[] = {never_loaded<N>...};
    return all[index];
}

/// Returns kernels that were never loaded, one after the other.
std::function<kernel()> kernels_in_turn() {
    return [next = 0]() mutable { return kernel_at(next++, std::make_integer_sequence<int, fresh_kernels>{}); };
}

absl::Status launch_cooperatively(kernel what, cudaStream_t stream) {
    int* nothing = nullptr;
    void* arguments[] = {&nothing};
    return to_status(cudaLaunchCooperativeKernel(what, dim3(1), dim3(1), arguments, 0, stream),
                     "cudaLaunchCooperativeKernel");
}

absl::Status launch(kernel what, cudaStream_t stream) {
    what<<<1, 1, 0, stream>>>(nullptr);
    return to_status(cudaGetLastError(), "launch");
}

/// Records four launches as a graph. Their kernel is loaded before.
absl::Status record(const bed& on, cudaGraph_t* graph) {
    auto* word = reinterpret_cast<int*>(on.device);
    add_one<<<1, 1, 0, on.other>>>(word);
    absl::Status status = to_status(cudaGetLastError(), "launch");
    status.Update(to_status(cudaStreamSynchronize(on.other), "cudaStreamSynchronize"));
    status.Update(
        to_status(cudaStreamBeginCapture(on.other, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture"));
    for (int i = 0; i < 4; ++i) {
        add_one<<<1, 1, 0, on.other>>>(word);
    }
    status.Update(to_status(cudaStreamEndCapture(on.other, graph), "cudaStreamEndCapture"));
    return status;
}

struct recorded {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t instance = nullptr;
};

absl::Status instantiate(recorded* r) {
    return to_status(cudaGraphInstantiate(&r->instance, r->graph, 0), "cudaGraphInstantiate");
}

call_list graph_calls(bed* on) {
    const auto r = std::make_shared<recorded>();
    call_list calls;
    calls.push_back({"cudaGraphInstantiate", 512, [r] { return instantiate(r.get()); }});
    calls.back().prepare = [on, r] { return record(*on, &r->graph); };
    calls.push_back({"cudaGraphLaunch", 4096,
                     [on, r] { return to_status(cudaGraphLaunch(r->instance, on->other), "cudaGraphLaunch"); }});
    calls.back().prepare = [on, r] {
        absl::Status status = record(*on, &r->graph);
        if (status.ok()) {
            status.Update(instantiate(r.get()));
        }
        return status;
    };
    return calls;
}

}  // namespace

call_list launching_calls(bed* on) {
    const auto take = kernels_in_turn();
    call_list calls;
    calls.push_back({"first launch", fresh_kernels, [=]() mutable { return launch(take(), on->other); }});
    calls.push_back(
        {"first launch behind the kernel", fresh_kernels, [=]() mutable { return launch(take(), default_stream); }});
    calls.push_back(
        {"first cooperative launch", fresh_kernels, [=]() mutable { return launch_cooperatively(take(), on->other); }});
    calls.push_back({"cudaFuncSetAttribute of a kernel not loaded", fresh_kernels, [=]() mutable {
                         return to_status(
                             cudaFuncSetAttribute(take(), cudaFuncAttributePreferredSharedMemoryCarveout, 50),
                             "cudaFuncSetAttribute");
                     }});
    const auto module = std::make_shared<linked_module>();
    calls.push_back({"cuModuleLoadData", 512, [=] { return module->load(); }});
    calls.back().prepare = [=] { return module->link(); };
    for (blocking_call& call : graph_calls(on)) {
        calls.push_back(std::move(call));
    }
    return calls;
}

}  // namespace orchard::test
