// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The calls that `driver_locks` tries while a kernel and a blocker run: those by which a heap grows and shrinks, and
/// work on streams.

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "profiling/driver_locks/blockers.cuh"

namespace driver_locks {

inline constexpr std::size_t extent = 64 * mib;      ///< bytes of a commit on the device, as in a heap
inline constexpr std::size_t host_extent = 2 * mib;  ///< bytes of a commit on the host

/// A call that is tried while a kernel and a blocker run.
struct step {
    std::string name;                  ///< as shown in results
    std::function<void()> call;        ///< the call whose duration is measured; throws its error
    std::function<void()> completion;  ///< waits for the work that the call queued; empty for most steps
    bool optional = false;             ///< not every machine supports it
};

/// The steps of one blocker, in an order in which each uses the objects of earlier ones.
class step_list {
public:
    /// @param b  the data that steps use; outlives the list
    explicit step_list(bench* b);
    /// Creates, before the kernel, the objects that the steps use up.
    void prepare() { check(cudaMallocHost(&small_, 4096), "cudaMallocHost"); }
    /// Releases, after the kernel, all objects that no step has released.
    void clean() {
        if (on_host_ != 0) {
            check(cuMemRelease(std::exchange(on_host_, 0)), "cuMemRelease");
        }
    }
    std::vector<step> steps;  ///< in order

private:
    /// Commit and release on the device, addresses, a commit on the host.
    void add_virtual_memory();
    /// Work on a stream: memset, copy, launch; streams; freeing of pinned memory.
    void add_work(bench* b);

    CUmemAllocationProp where_{};               ///< memory of GPU 0
    CUmemAllocationProp host_{};                ///< memory of the host
    CUmemAccessDesc access_{};                  ///< read and write by GPU 0
    CUdeviceptr range_ = 0;                     ///< reserved once; steps map memory there
    CUdeviceptr reserved_ = 0;                  ///< reserved by a step, freed by the next one
    CUmemGenericAllocationHandle memory_ = 0;   ///< created, mapped, unmapped and released by steps
    CUmemGenericAllocationHandle on_host_ = 0;  ///< created by a step, released by `clean`
    cudaStream_t stream_ = nullptr;
    void* small_ = nullptr;  ///< 4 KiB of pinned memory; made by `prepare`, freed by a step
};

inline step_list::step_list(bench* b) {
    where_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    where_.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    access_ = {where_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int node = 0;
    if (cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0) != CUDA_SUCCESS || node < 0) {
        node = 0;  // without NUMA, this node means all host memory
    }
    host_ = where_;
    host_.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, node};
    // Addresses are reserved before any kernel, so that commits need nothing else.
    check(cuMemAddressReserve(&range_, extent, 0, 0, 0), "cuMemAddressReserve");
    add_virtual_memory();
    add_work(b);
}

inline void step_list::add_virtual_memory() {
    steps.push_back({"cuMemCreate", [=] { check(cuMemCreate(&memory_, extent, &where_, 0), "cuMemCreate"); }, {}});
    steps.push_back({"cuMemMap", [=] { check(cuMemMap(range_, extent, 0, memory_, 0), "cuMemMap"); }, {}});
    steps.push_back(
        {"cuMemSetAccess", [=] { check(cuMemSetAccess(range_, extent, &access_, 1), "cuMemSetAccess"); }, {}});
    steps.push_back({"cuMemUnmap", [=] { check(cuMemUnmap(range_, extent), "cuMemUnmap"); }, {}});
    steps.push_back({"cuMemRelease", [=] { check(cuMemRelease(memory_), "cuMemRelease"); }, {}});
    steps.push_back({"cuMemAddressReserve",
                     [=] { check(cuMemAddressReserve(&reserved_, extent, 0, 0, 0), "cuMemAddressReserve"); },
                     {}});
    steps.push_back({"cuMemAddressFree", [=] { check(cuMemAddressFree(reserved_, extent), "cuMemAddressFree"); }, {}});
    steps.push_back({"cuMemCreate on the host",
                     [=] { check(cuMemCreate(&on_host_, host_extent, &host_, 0), "cuMemCreate on the host"); },
                     {},
                     true});
    steps.push_back({"cudaMemGetInfo",
                     [] {
                         std::size_t free = 0;
                         std::size_t total = 0;
                         check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
                     },
                     {}});
}

inline void step_list::add_work(bench* b) {
    // Polls instead of waiting: a wait is a call that could itself be blocked.
    const auto wait = [=] {
        cudaError_t state = cudaSuccess;
        while ((state = cudaStreamQuery(b->probe)) == cudaErrorNotReady) {
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
        check(state, "cudaStreamQuery");
    };
    // The upper halves of the buffers; blockers use the lower ones.
    char* to = b->device + 4 * mib;
    char* from = b->pinned + 4 * mib;
    steps.push_back(
        {"cudaMemsetAsync", [=] { check(cudaMemsetAsync(to, 0, 2 * mib, b->probe), "cudaMemsetAsync"); }, wait});
    steps.push_back(
        {"cudaMemcpyAsync pinned",
         [=] { check(cudaMemcpyAsync(to, from, 4096, cudaMemcpyHostToDevice, b->probe), "cudaMemcpyAsync"); }, wait});
    steps.push_back({"launch of a loaded kernel",
                     [=] {
                         loaded<<<1, 1, 0, b->probe>>>(to);
                         check(cudaGetLastError(), "launch of a loaded kernel");
                     },
                     wait});
    steps.push_back({"cudaStreamCreate", [=] { check(cudaStreamCreate(&stream_), "cudaStreamCreate"); }, {}});
    steps.push_back({"cudaStreamDestroy", [=] { check(cudaStreamDestroy(stream_), "cudaStreamDestroy"); }, {}});
    steps.push_back({"cudaFreeHost of 4 KiB", [=] { check(cudaFreeHost(small_), "cudaFreeHost"); }, {}});
}

}  // namespace driver_locks
