// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The choice of the device and the report for people, computed from a `machine_info`. This file makes no CUDA call, so
/// that tests can pass it machines other than their own.
///
///     option      the current GPU is usable      an obstacle was found
///     emulated    emulated                       emulated
///     auto        cuda                           emulated; the obstacle is the reason
///     cuda        cuda                           FailedPrecondition: obstacle, remedy
///
/// An obstacle is the first of: no CUDA in the build, no driver, no GPU offered, none found, and then of the GPU
/// itself.

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/machine/machine_info.hpp"
#include "runtime/machine/version.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard {
namespace {

/// Returns a version of CUDA as text: 13000 is "13.0", 12080 is "12.8", and 0 is "none".
std::string version_of(int number) {
    return number == 0 ? "none" : absl::StrFormat("%d.%d", number / 1000, number % 1000 / 10);
}

/// The reason why CUDA cannot be used, and the remedy; both empty if it can.
struct obstacle {
    std::string what;
    std::string remedy;
};

/// Returns why this GPU cannot be used; nothing if it can. The checks go from the GPU's state to its settings, so that
/// the reason given is the one to be removed first.
/// @param minimum  least compute capability of this build, as in `machine_info::minimum_architecture`
obstacle gpu_obstacle(const gpu_info& gpu, int ordinal, int minimum) {
    const std::string which = absl::StrFormat("GPU %d (%s)", ordinal, gpu.name.empty() ? "unknown" : gpu.name);
    // Part of every remedy: the variable hides GPUs from the program.
    const std::string choose_another = "or choose another GPU with CUDA_VISIBLE_DEVICES";
    // The name is set by the first query: without it, nothing else is known of this GPU.
    if (gpu.name.empty()) {
        return {absl::StrCat(which, " does not answer: ", gpu.error), absl::StrCat("reset it, ", choose_another)};
    }
    // 8.6 is 86, 12.0 is 120.
    if (gpu.compute_major * 10 + gpu.compute_minor < minimum) {
        return {absl::StrFormat("%s has compute capability %d.%d and this build needs %d.%d", which, gpu.compute_major,
                                gpu.compute_minor, minimum / 10, minimum % 10),
                absl::StrCat("build for its architecture, ", choose_another)};
    }
    // The setting of an administrator: no program can create a context.
    if (gpu.compute_prohibited) {
        return {absl::StrCat(which, " is in compute mode \"prohibited\""),
                absl::StrCat("allow contexts with `nvidia-smi -c 0`, ", choose_another)};
    }
    return {};
}

/// Returns why the current GPU cannot be used: the build, the driver, the runtime's error, the number of GPUs, and at
/// last the GPU itself.
obstacle cuda_obstacle(const machine_info& machine) {
    // Nothing about GPUs is known then, whatever the machine has.
    if (!machine.cuda_in_build) {
        return {"this build has no CUDA support", "build it where the CUDA toolkit is installed"};
    }
    // The runtime reports an error without a driver as well; the version tells the two cases apart, which have
    // different remedies.
    if (!machine.cuda_error.empty() && machine.driver_version == 0) {
        return {absl::StrFormat("no NVIDIA driver was found (%s)", machine.cuda_error),
                "install the driver, and see that this process may use it"};
    }
    if (!machine.cuda_error.empty()) {
        return {absl::StrFormat("the driver, for CUDA %s, offers no GPU (%s)", version_of(machine.driver_version),
                                machine.cuda_error),
                "update the driver, or see that CUDA_VISIBLE_DEVICES names a GPU"};
    }
    // A heap is made on the current GPU, so that only this one is judged; another one may well be usable.
    const auto current = static_cast<std::size_t>(machine.current_gpu);
    if (current >= machine.gpus.size()) {
        return {"no GPU was found", "see that one is installed and that CUDA_VISIBLE_DEVICES names it"};
    }
    return gpu_obstacle(machine.gpus[current], machine.current_gpu, machine.minimum_architecture);
}

/// Returns the reason why a usable GPU is chosen, for the report.
std::string gpu_reason(const machine_info& machine) {
    const gpu_info& gpu = machine.gpus[static_cast<std::size_t>(machine.current_gpu)];
    return absl::StrFormat("GPU %d is usable: %s, compute capability %d.%d", machine.current_gpu, gpu.name,
                           gpu.compute_major, gpu.compute_minor);
}

const char* yes_no(bool value) { return value ? "yes" : "no"; }

/// Returns the lines about one GPU. A GPU that does not answer has one line with its error; one that answered in part
/// has its description and the error.
std::string text_of(const gpu_info& gpu, int ordinal) {
    std::string text;
    if (!gpu.name.empty()) {
        absl::StrAppendFormat(&text, "GPU %d           %s, compute capability %d.%d, %d multiprocessors\n", ordinal,
                              gpu.name, gpu.compute_major, gpu.compute_minor, gpu.multiprocessors);
        absl::StrAppendFormat(
            &text, "  memory        %s%s, L2 cache %s\n", format_bytes(gpu.memory_bytes),
            gpu.memory_free_bytes ? absl::StrFormat(" (%s free)", format_bytes(*gpu.memory_free_bytes)) : "",
            format_bytes(gpu.l2_bytes));
        absl::StrAppendFormat(&text, "  managed memory %s, concurrent access %s, host native atomics %s\n",
                              yes_no(gpu.managed_memory), yes_no(gpu.concurrent_managed_access),
                              yes_no(gpu.host_native_atomics));
        absl::StrAppendFormat(&text, "  virtual memory management %s, compute %s\n",
                              yes_no(gpu.virtual_memory_management), gpu.compute_prohibited ? "prohibited" : "allowed");
    }
    if (!gpu.error.empty()) {
        // After the description: some of the fields above may then be unset.
        absl::StrAppendFormat(&text, "GPU %d           error: %s\n", ordinal, gpu.error);
    }
    return text;
}

}  // namespace

// As in the text of `device_option`.
const char* name_of(simt::device_kind kind) { return kind == simt::device_kind::cuda ? "cuda" : "emulated"; }

/// `emulated` is always possible. `automatic` never fails: the obstacle becomes the reason for the emulated device,
/// while `cuda` reports it as an error, with the remedy.
absl::StatusOr<device_choice> choose_device(device_option wanted, const machine_info& machine) {
    if (wanted == device_option::emulated) {
        return device_choice{simt::device_kind::emulated, "it was asked for"};
    }
    // An obstacle without text is none.
    const obstacle found = cuda_obstacle(machine);
    if (found.what.empty()) {
        return device_choice{simt::device_kind::cuda, gpu_reason(machine), machine.current_gpu};
    }
    if (wanted == device_option::automatic) {
        return device_choice{simt::device_kind::emulated, found.what};
    }
    // The remedy for this obstacle, and the way around it.
    return absl::FailedPreconditionError(
        absl::StrFormat("device cuda: %s; %s, or take the device emulated", found.what, found.remedy));
}

/// The last line names the device of a heap with the option `auto`, and why.
std::string to_text(const machine_info& machine) {
    std::string text;
    // One fact a line: a name of up to 16 characters, then the fact.
    absl::StrAppendFormat(&text, "Orchard         %s\n", std::string(version_text));
    absl::StrAppendFormat(&text, "CPU             %s, %d cores, %d of them usable\n", machine.cpu, machine.cores,
                          machine.usable_cores);
    absl::StrAppendFormat(&text, "host memory     %s, %s available\n", format_bytes(machine.memory_bytes),
                          format_bytes(machine.memory_available_bytes));
    // A driver version of 0 is printed as "none".
    if (machine.cuda_in_build) {
        absl::StrAppendFormat(&text, "CUDA            runtime %s, newest that the driver%s supports: %s\n",
                              version_of(machine.runtime_version), machine.driver.empty() ? "" : " " + machine.driver,
                              version_of(machine.driver_version));
    }
    // The position in the list is the number by which CUDA names the GPU.
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
        text += text_of(machine.gpus[i], static_cast<int>(i));
    }
    // In place of the lines of GPUs; a build without CUDA ends here, too.
    if (machine.gpus.empty()) {
        absl::StrAppendFormat(&text, "GPU             none: %s\n", cuda_obstacle(machine).what);
    }
    const device_choice choice = choose_device(device_option::automatic, machine).value();
    absl::StrAppendFormat(&text, "device auto     %s: %s\n", name_of(choice.kind), choice.reason);
    return text;
}

}  // namespace orchard
