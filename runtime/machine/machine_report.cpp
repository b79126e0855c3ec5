// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The choice of the device and the two reports, computed from a `machine_info`. This file makes no CUDA call, so that
/// tests can pass it machines other than their own.

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/machine/machine_info.hpp"
#include "runtime/machine/version.hpp"
#include "runtime/options/byte_size.hpp"

namespace orchard {
namespace {

std::string version_of(int number) {
    return number == 0 ? "none" : absl::StrFormat("%d.%d", number / 1000, number % 1000 / 10);
}

/// The reason why CUDA cannot be used, and the remedy; both empty if it can.
struct obstacle {
    std::string what;
    std::string remedy;
};

obstacle gpu_obstacle(const gpu_info& gpu, int ordinal, int minimum) {
    const std::string which = absl::StrFormat("GPU %d (%s)", ordinal, gpu.name.empty() ? "unknown" : gpu.name);
    const std::string choose_another = "or choose another GPU with CUDA_VISIBLE_DEVICES";
    if (gpu.name.empty()) {
        return {absl::StrCat(which, " does not answer: ", gpu.error), absl::StrCat("reset it, ", choose_another)};
    }
    if (gpu.compute_major * 10 + gpu.compute_minor < minimum) {
        return {absl::StrFormat("%s has compute capability %d.%d and this build needs %d.%d", which, gpu.compute_major,
                                gpu.compute_minor, minimum / 10, minimum % 10),
                absl::StrCat("build for its architecture, ", choose_another)};
    }
    if (gpu.compute_prohibited) {
        return {absl::StrCat(which, " is in compute mode \"prohibited\""),
                absl::StrCat("allow contexts with `nvidia-smi -c 0`, ", choose_another)};
    }
    return {};
}

obstacle cuda_obstacle(const machine_info& machine) {
    if (!machine.cuda_in_build) {
        return {"this build has no CUDA support", "build it where the CUDA toolkit is installed"};
    }
    if (!machine.cuda_error.empty() && machine.driver_version == 0) {
        return {absl::StrFormat("no NVIDIA driver was found (%s)", machine.cuda_error),
                "install the driver, and see that this process may use it"};
    }
    if (!machine.cuda_error.empty()) {
        return {absl::StrFormat("the driver, for CUDA %s, offers no GPU (%s)", version_of(machine.driver_version),
                                machine.cuda_error),
                "update the driver, or see that CUDA_VISIBLE_DEVICES names a GPU"};
    }
    const auto current = static_cast<std::size_t>(machine.current_gpu);
    if (current >= machine.gpus.size()) {
        return {"no GPU was found", "see that one is installed and that CUDA_VISIBLE_DEVICES names it"};
    }
    return gpu_obstacle(machine.gpus[current], machine.current_gpu, machine.minimum_architecture);
}

std::string gpu_reason(const machine_info& machine) {
    const gpu_info& gpu = machine.gpus[static_cast<std::size_t>(machine.current_gpu)];
    return absl::StrFormat("GPU %d is usable: %s, compute capability %d.%d", machine.current_gpu, gpu.name,
                           gpu.compute_major, gpu.compute_minor);
}

const char* name_of(simt::device_kind kind) { return kind == simt::device_kind::cuda ? "cuda" : "emulated"; }
const char* yes_no(bool value) { return value ? "yes" : "no"; }

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
        absl::StrAppendFormat(&text, "GPU %d           error: %s\n", ordinal, gpu.error);
    }
    return text;
}

nlohmann::ordered_json json_of(const gpu_info& gpu) {
    nlohmann::ordered_json json = {{"name", gpu.name},
                                   {"compute_capability", absl::StrCat(gpu.compute_major, ".", gpu.compute_minor)},
                                   {"memory_bytes", gpu.memory_bytes},
                                   {"memory_free_bytes", nullptr},
                                   {"l2_bytes", gpu.l2_bytes},
                                   {"multiprocessors", gpu.multiprocessors},
                                   {"compute_prohibited", gpu.compute_prohibited},
                                   {"managed_memory", gpu.managed_memory},
                                   {"concurrent_managed_access", gpu.concurrent_managed_access},
                                   {"host_native_atomics", gpu.host_native_atomics},
                                   {"virtual_memory_management", gpu.virtual_memory_management},
                                   {"error", gpu.error}};
    if (gpu.memory_free_bytes) {
        json["memory_free_bytes"] = *gpu.memory_free_bytes;
    }
    return json;
}

}  // namespace

absl::StatusOr<device_choice> choose_device(device_option wanted, const machine_info& machine) {
    if (wanted == device_option::emulated) {
        return device_choice{simt::device_kind::emulated, "it was asked for"};
    }
    const obstacle found = cuda_obstacle(machine);
    if (found.what.empty()) {
        return device_choice{simt::device_kind::cuda, gpu_reason(machine), machine.current_gpu};
    }
    if (wanted == device_option::automatic) {
        return device_choice{simt::device_kind::emulated, found.what};
    }
    return absl::FailedPreconditionError(
        absl::StrFormat("device cuda: %s; %s, or take the device emulated", found.what, found.remedy));
}

std::string to_text(const machine_info& machine) {
    std::string text;
    absl::StrAppendFormat(&text, "Orchard         %s\n", std::string(version_text));
    absl::StrAppendFormat(&text, "CPU             %s, %d cores, %d of them usable\n", machine.cpu, machine.cores,
                          machine.usable_cores);
    absl::StrAppendFormat(&text, "host memory     %s, %s available\n", format_bytes(machine.memory_bytes),
                          format_bytes(machine.memory_available_bytes));
    if (machine.cuda_in_build) {
        absl::StrAppendFormat(&text, "CUDA            runtime %s, newest that the driver supports: %s\n",
                              version_of(machine.runtime_version), version_of(machine.driver_version));
    }
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
        text += text_of(machine.gpus[i], static_cast<int>(i));
    }
    if (machine.gpus.empty()) {
        absl::StrAppendFormat(&text, "GPU             none: %s\n", cuda_obstacle(machine).what);
    }
    const device_choice choice = choose_device(device_option::automatic, machine).value();
    absl::StrAppendFormat(&text, "device auto     %s: %s\n", name_of(choice.kind), choice.reason);
    return text;
}

std::string to_json(const machine_info& machine) {
    const device_choice choice = choose_device(device_option::automatic, machine).value();
    nlohmann::ordered_json json = {{"version", std::string(version_text)},
                                   {"host",
                                    {{"cpu", machine.cpu},
                                     {"cores", machine.cores},
                                     {"usable_cores", machine.usable_cores},
                                     {"memory_bytes", machine.memory_bytes},
                                     {"memory_available_bytes", machine.memory_available_bytes}}},
                                   {"cuda",
                                    {{"in_build", machine.cuda_in_build},
                                     {"runtime_version", machine.runtime_version},
                                     {"driver_version", machine.driver_version},
                                     {"error", machine.cuda_error},
                                     {"current_gpu", machine.current_gpu}}},
                                   {"gpus", nlohmann::ordered_json::array()},
                                   {"device", {{"auto", name_of(choice.kind)}, {"reason", choice.reason}}}};
    for (const gpu_info& gpu : machine.gpus) {
        json["gpus"].push_back(json_of(gpu));
    }
    return json.dump(2);
}

}  // namespace orchard
