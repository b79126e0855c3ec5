// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The CUDA driver's calls for virtual memory, and the driver's text for an error.

#if ORCHARD_HAS_CUDA

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace orchard::detail {

/// The driver's calls, looked up at run time, so that the program starts without a driver. Only the runtime is linked;
/// it finds the driver's functions by name. `find_all` must succeed before any of them is called.
struct driver_calls {
    // The GPU and its properties.
    decltype(cuDeviceGet)* device_get = nullptr;
    decltype(cuDeviceGetAttribute)* attribute = nullptr;
    // The texts of errors; `check` calls them.
    decltype(cuGetErrorName)* error_name = nullptr;
    decltype(cuGetErrorString)* error_string = nullptr;
    // Virtual memory, in the order in which a commit needs them, each with its inverse: the unit of sizes; addresses;
    // physical memory; both joined; access. docs/limits.md has their cost.
    decltype(cuMemGetAllocationGranularity)* granularity = nullptr;
    decltype(cuMemAddressReserve)* reserve = nullptr;
    decltype(cuMemAddressFree)* unreserve = nullptr;
    decltype(cuMemCreate)* create = nullptr;
    decltype(cuMemRelease)* release = nullptr;
    decltype(cuMemMap)* map = nullptr;
    decltype(cuMemUnmap)* unmap = nullptr;
    decltype(cuMemSetAccess)* set_access = nullptr;

    /// Sets `call` to the driver's function of this name, in the version whose signature the type has. Returns
    /// FailedPrecondition, and sets null, if this driver has no such function. Example:
    ///
    ///     decltype(cuCtxGetId)* number_of = nullptr;
    ///     if (driver_calls::find("cuCtxGetId", number_of).ok()) { ... number_of(nullptr, &number) ... }
    ///
    /// The type of `call` must be that of the function in version `version`: the compiler cannot check it, since the
    /// driver returns an address alone.
    template <class Function>
    static absl::Status find(const char* name, Function*& call) {
        void* address = nullptr;
        // The query's own result is not needed: the address is null if the driver has no such function.
        cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
        constexpr unsigned version = 12000;  // the signatures since CUDA 12.0
        const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found);
#else
        const cudaError_t error = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found);
#endif
        if (error != cudaSuccess) {
            address = nullptr;
            (void)cudaGetLastError();  // otherwise the program's next query would return this error
        }
        call = reinterpret_cast<Function*>(address);
        return call != nullptr ? absl::OkStatus()
                               : absl::FailedPreconditionError(absl::StrFormat("the CUDA driver has no %s", name));
    }

    /// Looks up all functions. Returns the error of the first one that is missing. The others are looked up all the
    /// same, but none of them may be called then.
    absl::Status find_all() {
        absl::Status status;  // error of the first call that is missing
        status.Update(find("cuDeviceGet", device_get));
        status.Update(find("cuDeviceGetAttribute", attribute));
        status.Update(find("cuGetErrorName", error_name));
        status.Update(find("cuGetErrorString", error_string));
        status.Update(find("cuMemGetAllocationGranularity", granularity));
        status.Update(find("cuMemAddressReserve", reserve));
        status.Update(find("cuMemAddressFree", unreserve));
        status.Update(find("cuMemCreate", create));
        status.Update(find("cuMemRelease", release));
        status.Update(find("cuMemMap", map));
        status.Update(find("cuMemUnmap", unmap));
        status.Update(find("cuMemSetAccess", set_access));
        return status;
    }

    /// Returns an error with the driver's own text: ResourceExhausted for out of memory, after which a caller tries
    /// less memory or another tier; Internal for all other results, which no caller can handle.
    /// @param call  the name of the function, for the text
    [[nodiscard]] absl::Status check(CUresult result, const std::string& call) const {
        if (result == CUDA_SUCCESS) {
            return absl::OkStatus();
        }
        // Both texts stay null if the driver does not know the number.
        const char* name = nullptr;
        const char* text = nullptr;
        error_name(result, &name);
        error_string(result, &text);
        const std::string message =
            absl::StrFormat("CUDA driver: %s: %s: %s", call, name != nullptr ? name : "an unknown error",
                            text != nullptr ? text : "no description");
        return result == CUDA_ERROR_OUT_OF_MEMORY ? absl::ResourceExhaustedError(message)
                                                  : absl::InternalError(message);
    }
    /// The same, with the size in the text. The text is made only if there is an error, since a growing heap calls this
    /// for each step of a commit.
    [[nodiscard]] absl::Status check(CUresult result, const char* call, std::size_t bytes) const {
        return result == CUDA_SUCCESS ? absl::OkStatus()
                                      : check(result, absl::StrFormat("%s of %d bytes", call, bytes));
    }
};

}  // namespace orchard::detail

#endif
