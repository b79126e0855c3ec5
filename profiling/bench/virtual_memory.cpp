// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/bench/virtual_memory.hpp"

#if ORCHARD_HAS_CUDA

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <chrono>

#include "absl/strings/str_format.h"

namespace orchard::bench {
namespace {

/// A function of the driver, looked up at run time, so that the program starts without a driver.
template <class Function>
Function* driver(const char* name) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found);
    return reinterpret_cast<Function*>(address);
}

absl::Status check(CUresult result, const char* call) {
    return result == CUDA_SUCCESS
               ? absl::OkStatus()
               : absl::InternalError(absl::StrFormat("CUDA driver: %s: error %d", call, static_cast<int>(result)));
}

double now_us() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

absl::StatusOr<std::vector<double>> time_commits(std::uint64_t bytes, int times) {
    const auto reserve = driver<decltype(cuMemAddressReserve)>("cuMemAddressReserve");
    const auto unreserve = driver<decltype(cuMemAddressFree)>("cuMemAddressFree");
    const auto create = driver<decltype(cuMemCreate)>("cuMemCreate");
    const auto release = driver<decltype(cuMemRelease)>("cuMemRelease");
    const auto map = driver<decltype(cuMemMap)>("cuMemMap");
    const auto unmap = driver<decltype(cuMemUnmap)>("cuMemUnmap");
    const auto set_access = driver<decltype(cuMemSetAccess)>("cuMemSetAccess");
    if (!reserve || !unreserve || !create || !release || !map || !unmap || !set_access) {
        return absl::FailedPreconditionError("the driver has no virtual-memory calls");
    }
    int device = 0;
    cudaGetDevice(&device);
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr range = 0;
    if (auto s = check(reserve(&range, bytes * times, 2u << 20, 0, 0), "cuMemAddressReserve"); !s.ok()) {
        return s;
    }
    std::vector<double> result;
    absl::Status status;
    for (int i = 0; i < times && status.ok(); ++i) {
        CUmemGenericAllocationHandle handle{};
        const CUdeviceptr at = range + bytes * i;
        const double began = now_us();
        status.Update(check(create(&handle, bytes, &properties, 0), "cuMemCreate"));
        if (status.ok()) {
            status.Update(check(map(at, bytes, 0, handle, 0), "cuMemMap"));
            status.Update(check(set_access(at, bytes, &access, 1), "cuMemSetAccess"));
            result.push_back(now_us() - began);
            unmap(at, bytes);
            release(handle);
        }
    }
    unreserve(range, bytes * times);
    if (!status.ok()) {
        return status;
    }
    return result;
}

}  // namespace orchard::bench

#else

namespace orchard::bench {

absl::StatusOr<std::vector<double>> time_commits(std::uint64_t, int) {
    return absl::FailedPreconditionError("this build has no CUDA support");
}

}  // namespace orchard::bench

#endif
