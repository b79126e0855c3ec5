// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "runtime/machine/machine_info.hpp"

#include <sched.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/options/byte_size.hpp"

#if ORCHARD_HAS_CUDA
#include <cuda.h>
#include <cuda_runtime_api.h>
#endif

// The build defines this if it compiles for architectures other than the usual ones.
#ifndef ORCHARD_MINIMUM_ARCHITECTURE
#define ORCHARD_MINIMUM_ARCHITECTURE 80
#endif

namespace orchard {
namespace {

/// Returns the text after the first "key : value" line of a file of such lines; empty if there is none.
std::string line_value(const char* path, absl::string_view key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
        if (absl::StripAsciiWhitespace(parts.first) == key) {
            return std::string(absl::StripAsciiWhitespace(parts.second));
        }
    }
    return {};
}

/// Returns a value of /proc/meminfo ("MemTotal:  24675276 kB") in bytes; its kB are KiB (proc(5)). Returns 0 if
/// missing.
std::uint64_t memory_value(absl::string_view key) {
    const std::string text = line_value("/proc/meminfo", key);
    std::uint64_t count = 0;
    return absl::SimpleAtoi(text.substr(0, text.find(' ')), &count) ? count * kib : 0;
}

int usable_core_count(int online) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : online;
}

void describe_host(machine_info& machine) {
    const std::string model = line_value("/proc/cpuinfo", "model name");
    machine.cpu = model.empty() ? "unknown" : model;
    machine.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    machine.usable_cores = usable_core_count(machine.cores);
    machine.memory_bytes = memory_value("MemTotal");
    machine.memory_available_bytes = memory_value("MemAvailable");
}

#if ORCHARD_HAS_CUDA

std::string text_of(cudaError_t error) {
    return absl::StrCat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

/// Records the first query that failed and clears the error, so that a later launch does not report it.
bool ok(gpu_info& gpu, const char* what, cudaError_t error) {
    if (error == cudaSuccess) {
        return true;
    }
    (void)cudaGetLastError();
    if (gpu.error.empty()) {
        gpu.error = absl::StrCat(what, ": ", text_of(error));
    }
    return false;
}

int attribute(gpu_info& gpu, int ordinal, cudaDeviceAttr which) {
    int value = 0;
    return ok(gpu, "cudaDeviceGetAttribute", cudaDeviceGetAttribute(&value, which, ordinal)) ? value : 0;
}

/// The runtime has no name for this attribute. The query goes through the runtime's entry point to the driver, so that
/// the program does not need libcuda.
bool maps_virtual_memory(gpu_info& gpu, int ordinal) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuDeviceGetAttribute", &function, 2000, cudaEnableDefault, &found);
#else
    const cudaError_t error = cudaGetDriverEntryPoint("cuDeviceGetAttribute", &function, cudaEnableDefault, &found);
#endif
    if (!ok(gpu, "cudaGetDriverEntryPoint(cuDeviceGetAttribute)", error) || found != cudaDriverEntryPointSuccess) {
        return false;
    }
    int value = 0;
    // A CUdevice is the ordinal (cuDeviceGet), in the same order as the runtime's.
    const CUresult result = reinterpret_cast<decltype(&cuDeviceGetAttribute)>(function)(
        &value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, ordinal);
    return result == CUDA_SUCCESS && value != 0;
}

gpu_info describe_gpu(int ordinal) {
    gpu_info gpu;
    cudaDeviceProp properties{};
    if (!ok(gpu, "cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, ordinal))) {
        return gpu;
    }
    gpu.name = properties.name;
    gpu.compute_major = properties.major;
    gpu.compute_minor = properties.minor;
    gpu.memory_bytes = properties.totalGlobalMem;
    gpu.l2_bytes = static_cast<std::uint64_t>(properties.l2CacheSize);
    gpu.multiprocessors = properties.multiProcessorCount;
    gpu.compute_prohibited = attribute(gpu, ordinal, cudaDevAttrComputeMode) == cudaComputeModeProhibited;
    gpu.managed_memory = attribute(gpu, ordinal, cudaDevAttrManagedMemory) != 0;
    gpu.concurrent_managed_access = attribute(gpu, ordinal, cudaDevAttrConcurrentManagedAccess) != 0;
    gpu.host_native_atomics = attribute(gpu, ordinal, cudaDevAttrHostNativeAtomicSupported) != 0;
    gpu.virtual_memory_management = maps_virtual_memory(gpu, ordinal);
    return gpu;
}

void describe_cuda(machine_info& machine) {
    (void)cudaRuntimeGetVersion(&machine.runtime_version);
    (void)cudaDriverGetVersion(&machine.driver_version);
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        machine.cuda_error = text_of(error);
        return;
    }
    (void)cudaGetDevice(&machine.current_gpu);
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        machine.gpus.push_back(describe_gpu(ordinal));
    }
}

void ask_free_memory(machine_info& machine) {
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
        gpu_info& gpu = machine.gpus[i];
        std::size_t free_bytes = 0;
        std::size_t total_bytes = 0;
        if (ok(gpu, "cudaSetDevice", cudaSetDevice(static_cast<int>(i))) &&
            ok(gpu, "cudaMemGetInfo", cudaMemGetInfo(&free_bytes, &total_bytes))) {
            gpu.memory_free_bytes = free_bytes;
        }
    }
    if (!machine.gpus.empty()) {
        (void)cudaSetDevice(machine.current_gpu);
    }
}

#else

void describe_cuda(machine_info&) {}
void ask_free_memory(machine_info&) {}

#endif

machine_info describe(bool with_free_memory) {
    machine_info machine;
    machine.cuda_in_build = ORCHARD_HAS_CUDA != 0;
    machine.minimum_architecture = ORCHARD_MINIMUM_ARCHITECTURE;
    describe_host(machine);
    describe_cuda(machine);
    if (with_free_memory) {
        ask_free_memory(machine);
    }
    return machine;
}

}  // namespace

machine_info describe_machine() { return describe(true); }

absl::StatusOr<device_choice> choose_device(device_option wanted) { return choose_device(wanted, describe(false)); }

std::string cuda_support() {
#if ORCHARD_HAS_CUDA
    return absl::StrFormat("CUDA %d.%d, compute capability %d.%d and up", CUDART_VERSION / 1000,
                           CUDART_VERSION % 1000 / 10, ORCHARD_MINIMUM_ARCHITECTURE / 10,
                           ORCHARD_MINIMUM_ARCHITECTURE % 10);
#else
    return "no CUDA, emulated device only";
#endif
}

}  // namespace orchard
