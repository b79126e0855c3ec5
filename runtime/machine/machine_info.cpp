// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The queries about this machine, of the system and of the CUDA runtime. machine_report.cpp judges and prints the
/// results.
///
///     describe_machine
///       describe_host       /proc/cpuinfo, /proc/meminfo, /proc/driver/nvidia/version, sysconf, sched_getaffinity
///       describe_cuda       versions, devices, the current GPU; creates no context
///         describe_gpu        properties and attributes; maps_virtual_memory asks the driver
///       ask_free_memory     creates a context on each GPU; skipped by `choose_device`
///
/// A query that fails leaves its field unset, and the reason in `machine_info::cuda_error` or `gpu_info::error`: a
/// broken GPU must not keep the program from its report.

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
// Types and attributes alone: no function of libcuda is called by its name, and none is linked.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "device/simt/current_device.hpp"
#endif

// The build defines it: the least of the architectures that it compiles for.
#ifndef ORCHARD_MINIMUM_ARCHITECTURE
#define ORCHARD_MINIMUM_ARCHITECTURE 80
#endif

namespace orchard {
namespace {

/// Returns the text after the first "key : value" line of a file of such lines; empty if there is none.
std::string line_value(const char* path, absl::string_view key) {
    std::ifstream file(path);
    // Split at the first colon alone; a value may contain more of them. A file that cannot be opened has no lines.
    for (std::string line; std::getline(file, line);) {
        const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
        // The whole key must match. The two files align their keys and values differently.
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
    // "24675276 kB": the number ends at the first blank.
    return absl::SimpleAtoi(text.substr(0, text.find(' ')), &count) ? count * kib : 0;
}

/// Returns the number of cores that this process may use, which `taskset` or a container can restrict; `online` if the
/// system does not say.
int usable_core_count(int online) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : online;
}

/// Returns the version in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue ...": the first word that
/// begins with a digit and has a dot. Empty without the driver's kernel module.
std::string driver_release() {
    const std::string text = line_value("/proc/driver/nvidia/version", "NVRM version");
    for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
        if (absl::ascii_isdigit(static_cast<unsigned char>(word[0])) && absl::StrContains(word, '.')) {
            return std::string(word);
        }
    }
    return {};
}

/// Fills the fields about the host; the CPU is "unknown" and sizes are 0 where the system does not report them.
void describe_host(machine_info& machine) {
    const std::string model = line_value("/proc/cpuinfo", "model name");
    machine.cpu = model.empty() ? "unknown" : model;
    // Online cores of the machine, also those that this process may not use.
    machine.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    machine.usable_cores = usable_core_count(machine.cores);
    machine.memory_bytes = memory_value("MemTotal");
    machine.memory_available_bytes = memory_value("MemAvailable");
    machine.driver = driver_release();
}

#if ORCHARD_HAS_CUDA

/// Returns the name and the text of an error: the name for a search, the text for people.
std::string text_of(cudaError_t error) {
    return absl::StrCat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

/// Returns true if a query succeeded. Otherwise records the first query that failed and clears the error, so that a
/// later launch does not report it. Later failures are not recorded: the first one is usually their cause.
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

/// Returns an attribute of a GPU; 0, with the error recorded, if the query fails.
int attribute(gpu_info& gpu, int ordinal, cudaDeviceAttr which) {
    int value = 0;
    return ok(gpu, "cudaDeviceGetAttribute", cudaDeviceGetAttribute(&value, which, ordinal)) ? value : 0;
}

/// Returns true if the driver can map memory into a reserved range. The runtime has no name for this attribute. The
/// query goes through the runtime's entry point to the driver, so that the program does not need libcuda.
bool maps_virtual_memory(gpu_info& gpu, int ordinal) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    // This call exists from CUDA 12.5 on; 2000 is the version of the function, that of CUDA 2.0.
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuDeviceGetAttribute", &function, 2000, cudaEnableDefault, &found);
#else
    const cudaError_t error = cudaGetDriverEntryPoint("cuDeviceGetAttribute", &function, cudaEnableDefault, &found);
#endif
    // No such function, or a driver too old for it: the report says that the driver cannot map memory.
    if (!ok(gpu, "cudaGetDriverEntryPoint(cuDeviceGetAttribute)", error) || found != cudaDriverEntryPointSuccess) {
        return false;
    }
    int value = 0;
    // A CUdevice is the ordinal (cuDeviceGet), in the same order as the runtime's.
    const CUresult result = reinterpret_cast<decltype(&cuDeviceGetAttribute)>(function)(
        &value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, ordinal);
    // An error here means that the driver does not know the attribute, and is not recorded.
    return result == CUDA_SUCCESS && value != 0;
}

/// Returns a GPU's UUID in the usual form: "GPU-" and 32 hexadecimal digits, in groups.
std::string uuid_text(const cudaUUID_t& uuid) {
    std::string text = "GPU";
    for (int i = 0; i < 16; ++i) {
        absl::StrAppendFormat(&text, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                              static_cast<unsigned char>(uuid.bytes[i]));
    }
    return text;
}

/// Returns all about one GPU except its free memory. If its properties cannot be read, nothing but the error is set.
gpu_info describe_one(int ordinal) {
    gpu_info gpu;
    cudaDeviceProp properties{};
    if (!ok(gpu, "cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, ordinal))) {
        return gpu;
    }
    gpu.name = properties.name;
    gpu.uuid = uuid_text(properties.uuid);
    gpu.compute_major = properties.major;
    gpu.compute_minor = properties.minor;
    gpu.memory_bytes = properties.totalGlobalMem;
    gpu.l2_bytes = static_cast<std::uint64_t>(properties.l2CacheSize);
    gpu.multiprocessors = properties.multiProcessorCount;
    // Each attribute is asked for by itself, so that one that fails leaves the others.
    gpu.compute_prohibited = attribute(gpu, ordinal, cudaDevAttrComputeMode) == cudaComputeModeProhibited;
    gpu.managed_memory = attribute(gpu, ordinal, cudaDevAttrManagedMemory) != 0;
    gpu.concurrent_managed_access = attribute(gpu, ordinal, cudaDevAttrConcurrentManagedAccess) != 0;
    gpu.host_native_atomics = attribute(gpu, ordinal, cudaDevAttrHostNativeAtomicSupported) != 0;
    gpu.virtual_memory_management = maps_virtual_memory(gpu, ordinal);
    return gpu;
}

/// Fills the fields about CUDA. Without a driver the runtime's version is still known, and the driver's is 0.
void describe_cuda(machine_info& machine) {
    (void)cudaRuntimeGetVersion(&machine.runtime_version);
    (void)cudaDriverGetVersion(&machine.driver_version);
    int count = 0;
    // The first call that needs a driver: its error is the reason why there is no GPU.
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        machine.cuda_error = text_of(error);
        return;
    }
    // If that fails, GPU 0 is taken for the current one.
    (void)cudaGetDevice(&machine.current_gpu);
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        // Also one that does not answer: positions in the list are the numbers of the GPUs.
        machine.gpus.push_back(describe_one(ordinal));
    }
}

/// Sets the free memory of each GPU, which is asked of the current GPU, within its context.
void ask_free_memory(machine_info& machine) {
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
        gpu_info& gpu = machine.gpus[i];
        std::size_t free_bytes = 0;
        std::size_t total_bytes = 0;
        const simt::current_device here(static_cast<int>(i));
        if (ok(gpu, "cudaSetDevice", here.error()) &&
            ok(gpu, "cudaMemGetInfo", cudaMemGetInfo(&free_bytes, &total_bytes))) {
            gpu.memory_free_bytes = free_bytes;
        }
    }
}

#else

// A build without CUDA reports no versions and no GPU.
void describe_cuda(machine_info&) {}
gpu_info describe_one(int) { return {}; }
void ask_free_memory(machine_info&) {}

#endif

/// Returns the description, without free memory if that is not needed: asking for it creates contexts.
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
gpu_info describe_gpu(int ordinal) { return describe_one(ordinal); }

/// The choice itself is in machine_report.cpp. It needs no free memory.
absl::StatusOr<device_choice> choose_device(device_option wanted) { return choose_device(wanted, describe(false)); }

/// Known when the program is built; asks no driver.
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
