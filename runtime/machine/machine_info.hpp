// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What this machine has, and which device a heap takes on it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "device/simt/launch.cuh"
#include "runtime/options/options.hpp"

namespace orchard {

/// One GPU, as the CUDA runtime and driver describe it.
struct gpu_info {
    std::string error;  ///< where a query failed: which, and the runtime's text; the other fields may be unset then
    std::string name;
    int compute_major = 0;
    int compute_minor = 0;
    std::uint64_t memory_bytes = 0;
    std::optional<std::uint64_t> memory_free_bytes;  ///< asked for only by `describe_machine`
    std::uint64_t l2_bytes = 0;
    int multiprocessors = 0;
    bool compute_prohibited = false;         ///< the administrator allows no context on it
    bool managed_memory = false;             ///< `cudaMallocManaged` works
    bool concurrent_managed_access = false;  ///< host and device may touch managed memory at the same time
    bool host_native_atomics = false;        ///< atomics on host memory are done by the link
    bool virtual_memory_management = false;  ///< the driver can map memory into a reserved range
};

/// What was found. Versions as CUDA numbers them: 13000 is 13.0; 0 is none.
struct machine_info {
    std::string cpu;                           ///< model, "unknown" where the system does not say
    int cores = 0;                             ///< online
    int usable_cores = 0;                      ///< that this process may run on
    std::uint64_t memory_bytes = 0;            ///< of the host; 0 where the system does not say
    std::uint64_t memory_available_bytes = 0;  ///< likewise
    bool cuda_in_build = false;
    int minimum_architecture = 0;  ///< least compute capability that this build has code for: 80 is 8.0
    int runtime_version = 0;       ///< of the CUDA runtime in this build
    int driver_version = 0;        ///< of CUDA that the installed driver supports
    std::string cuda_error;        ///< why no GPU could be asked for, in the runtime's words; empty if it could
    int current_gpu = 0;           ///< the calling thread's, index into `gpus`
    std::vector<gpu_info> gpus;
};

/// A device and the reason for it, as a sentence without a final stop.
struct device_choice {
    simt::device_kind kind = simt::device_kind::emulated;
    std::string reason;
    int gpu = -1;  ///< of kind `cuda`: the calling thread's current GPU
};

/// Everything in `machine_info`. Free memory is known only within a CUDA context, so that this makes one on each GPU
/// (some 100 MB of its memory, some 100 ms); a missing GPU or driver is no error but recorded.
machine_info describe_machine();

/// The device for a heap: `automatic` is CUDA where this build has it and the calling thread's current GPU is usable,
/// else the emulated device. Usable: the driver works, the compute capability is one that this build has code for (8.0
/// and up unless configured otherwise), and contexts are allowed. Makes no CUDA context.
///
/// Errors (FailedPrecondition): `cuda` was asked for and is not to be had; the message says what is missing, in the
/// driver's words where it has some, and the remedy.
absl::StatusOr<device_choice> choose_device(device_option wanted);

/// The same on a machine that was described before.
absl::StatusOr<device_choice> choose_device(device_option wanted, const machine_info& machine);

/// What this build supports: "CUDA 13.0, compute capability 8.0 and up" or "no CUDA, emulated device only".
std::string cuda_support();

/// For people: one line a fact.
std::string to_text(const machine_info& machine);

/// A JSON object: "version" (of the program), "host", "cuda", "gpus", "device" (what `automatic` takes, and why).
std::string to_json(const machine_info& machine);

}  // namespace orchard
