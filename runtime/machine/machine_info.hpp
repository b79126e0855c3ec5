// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Describes this machine, and chooses the device of a heap on it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "device/simt/launch.cuh"
#include "runtime/options/options.hpp"

namespace orchard {

/// One GPU as the CUDA runtime and driver describe it.
struct gpu_info {
    std::string error;  ///< the query that failed, and the runtime's text; the other fields may then be unset
    std::string name;
    std::string uuid;  ///< "GPU-6e...", as nvidia-smi and NVML write it
    int compute_major = 0;
    int compute_minor = 0;
    std::uint64_t memory_bytes = 0;
    std::optional<std::uint64_t> memory_free_bytes;  ///< set only by `describe_machine`
    std::uint64_t l2_bytes = 0;
    int multiprocessors = 0;
    bool compute_prohibited = false;         ///< the administrator forbids contexts on it
    bool managed_memory = false;             ///< `cudaMallocManaged` works
    bool concurrent_managed_access = false;  ///< host and device may access managed memory at the same time
    bool host_native_atomics = false;        ///< the link performs atomics on host memory
    bool virtual_memory_management = false;  ///< the driver can map memory into a reserved range
};

/// The machine. Versions are numbered as in CUDA: 13000 is 13.0; 0 is none.
struct machine_info {
    std::string cpu;                           ///< model; "unknown" if the system does not report it
    int cores = 0;                             ///< cores online
    int usable_cores = 0;                      ///< cores that this process may use
    std::uint64_t memory_bytes = 0;            ///< of the host; 0 if the system does not report it
    std::uint64_t memory_available_bytes = 0;  ///< of the host; 0 if the system does not report it
    bool cuda_in_build = false;
    int minimum_architecture = 0;  ///< least compute capability that this build has code for: 80 is 8.0
    int runtime_version = 0;       ///< version of the CUDA runtime in this build
    int driver_version = 0;        ///< version of CUDA that the installed driver supports
    std::string driver;      ///< version of the installed driver: "580.159.04"; empty if the system does not report it
    std::string cuda_error;  ///< the reason why no GPU could be queried, in the runtime's words; otherwise empty
    int current_gpu = 0;     ///< the calling thread's current GPU, as an index into `gpus`
    std::vector<gpu_info> gpus;
};

/// A device and the reason for it, as a sentence without a final stop.
struct device_choice {
    simt::device_kind kind = simt::device_kind::emulated;
    std::string reason;
    int gpu = -1;  ///< of kind `cuda`: the calling thread's current GPU
};

/// Returns all of `machine_info`. Free memory is known only within a CUDA context, so this creates one on each GPU
/// (about 100 MB of its memory, about 100 ms). A missing GPU or driver is no error; it is recorded in the result.
machine_info describe_machine();

/// Returns the description of one GPU, without its free memory; an empty one where the build has no CUDA. Creates no
/// CUDA context.
gpu_info describe_gpu(int ordinal);

/// Returns "cuda" or "emulated".
const char* name_of(simt::device_kind kind);

/// Returns the device for a heap. `automatic` means CUDA if this build has it and the calling thread's current GPU is
/// usable, and otherwise the emulated device. A GPU is usable if the driver works, this build has code for its compute
/// capability (8.0 and up unless configured otherwise), and contexts are allowed. Creates no CUDA context.
///
/// Errors: FailedPrecondition if `cuda` was requested and is not available. The message names the missing part, in the
/// driver's words if it gives any, and the remedy.
absl::StatusOr<device_choice> choose_device(device_option wanted);

/// Returns the device for a heap on a machine that was described before.
absl::StatusOr<device_choice> choose_device(device_option wanted, const machine_info& machine);

/// Returns the supported devices: "CUDA 13.0, compute capability 8.0 and up" or "no CUDA, emulated device only".
std::string cuda_support();

/// Returns a report for people: one fact a line.
std::string to_text(const machine_info& machine);

}  // namespace orchard
