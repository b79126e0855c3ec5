// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "tests/deadlock/calls.hpp"

#include <utility>

#include "uvm/memory/cuda_memory.hpp"

namespace orchard::test {

using detail::to_status;

absl::Status bed::set_up() {
    pageable.resize(8 * mib_bytes);
    absl::Status status =
        to_status(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    void* made = nullptr;
    status.Update(to_status(cudaMalloc(&made, 8 * mib_bytes), "cudaMalloc"));
    device = static_cast<char*>(made);
    status.Update(to_status(cudaMallocHost(&made, 8 * mib_bytes), "cudaMallocHost"));
    pinned = static_cast<char*>(made);
    return status;
}

blocking_call making(const std::string& name, int most, thing_maker make) {
    return {name, most, [make = std::move(make)] { return make().status(); }};
}

blocking_call ending(const std::string& name, int most, bed* on, thing_maker make,
                     std::function<absl::Status(void*)> end) {
    blocking_call result{name, most, [on, end = std::move(end)] {
                             void* last = on->cache_bitmap.back();
                             on->cache_bitmap.pop_back();
                             return end(last);
                         }};
    result.prepare = [on, most, make = std::move(make)] {
        for (int i = 0; i < most; ++i) {
            const auto made = make();
            if (!made.ok()) {
                return made.status();
            }
            on->cache_bitmap.push_back(*made);
        }
        return to_status(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    };
    return result;
}

call_list all_calls(bed* on) {
    call_list all;
    for (const auto part :
         {memory_calls, pinning_calls, launching_calls, stream_calls, copying_calls, setting_calls, heap_calls}) {
        for (blocking_call& call : part(on)) {
            all.push_back(std::move(call));
        }
    }
    return all;
}

}  // namespace orchard::test
