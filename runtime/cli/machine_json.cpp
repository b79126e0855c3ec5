// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/cli/machine_json.hpp"

#include "absl/strings/str_cat.h"
#include "runtime/cli/json_output.hpp"

namespace orchard {
namespace {

/// Returns the JSON object of one GPU. Every key is always there; free memory is null if it was not asked for.
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
    // The null above keeps the place of the key.
    if (gpu.memory_free_bytes) {
        json["memory_free_bytes"] = *gpu.memory_free_bytes;
    }
    return json;
}

}  // namespace

nlohmann::ordered_json json_of(const machine_info& machine) {
    nlohmann::ordered_json json = {{"host",
                                    {{"cpu", machine.cpu},
                                     {"cores", machine.cores},
                                     {"usable_cores", machine.usable_cores},
                                     {"memory_bytes", machine.memory_bytes},
                                     {"memory_available_bytes", machine.memory_available_bytes}}},
                                   {"cuda",
                                    {{"in_build", machine.cuda_in_build},
                                     {"runtime_version", machine.runtime_version},
                                     {"driver_version", machine.driver_version},
                                     {"driver", machine.driver},
                                     {"error", machine.cuda_error},
                                     {"current_gpu", machine.current_gpu}}},
                                   {"gpus", nlohmann::ordered_json::array()}};
    for (const gpu_info& gpu : machine.gpus) {
        // In the order of their numbers; an empty array if there are none.
        json["gpus"].push_back(json_of(gpu));
    }
    return json;
}

nlohmann::ordered_json automatic_device_json(const machine_info& machine) {
    const device_choice choice = choose_device(device_option::automatic, machine).value();
    nlohmann::ordered_json json = command_line::device_json(choice);
    json["auto"] = name_of(choice.kind);
    return json;
}

}  // namespace orchard
