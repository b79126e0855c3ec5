// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Commits by the driver's virtual-memory calls, as the backing of an elastic heap makes them.

#include "profiling/bench/virtual_memory.hpp"

#if ORCHARD_HAS_CUDA

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <chrono>

#include "absl/strings/str_format.h"

namespace orchard::bench {
namespace {

/// Returns a function of the driver, looked up at run time, so that the program starts without a driver; null if the
/// driver has none of that name. The version, 12.0, fixes the signature of functions that exist in several.
template <class Function>
Function* driver(const char* name) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found);
    return reinterpret_cast<Function*>(address);
}

/// Returns the driver's error with the name of the call.
absl::Status check(CUresult result, const char* call) {
    return result == CUDA_SUCCESS
               ? absl::OkStatus()
               : absl::InternalError(absl::StrFormat("CUDA driver: %s: error %d", call, static_cast<int>(result)));
}

/// Returns a time of the host's monotonic clock in microseconds.
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
    // Pinned memory of the GPU; the only access that is set is that of this GPU.
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    // Addresses for all commits at once: a reservation costs time that is not to be part of a commit.
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
            // A failed call ends the loop. Memory is unmapped and released all the same, so that an error leaves
            // nothing behind.
            status.Update(check(map(at, bytes, 0, handle, 0), "cuMemMap"));
            status.Update(check(set_access(at, bytes, &access, 1), "cuMemSetAccess"));
            // All three calls together are one commit, as kernels see it: before the last one, access is an error.
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
