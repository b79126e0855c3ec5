// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/cli/command_line.hpp"
#include "runtime/cli/machine_json.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/options/options.hpp"
#include "tests/options/clean_environment.hpp"

namespace orchard {
namespace {

using testing::HasSubstr;
using testing::Not;

machine_info example() {
    machine_info machine;
    machine.cpu = "Test CPU";
    machine.cores = 8;
    machine.usable_cores = 6;
    machine.memory_bytes = 64 * gib;
    machine.memory_available_bytes = 32 * gib;
    machine.cuda_in_build = true;
    machine.minimum_architecture = 80;
    machine.runtime_version = 13000;
    machine.driver_version = 12080;
    machine.driver = "570.86.10";
    gpu_info gpu;
    gpu.name = "Test GPU";
    gpu.compute_major = 9;
    gpu.memory_bytes = 141 * gib;
    gpu.memory_free_bytes = 140 * gib;
    gpu.l2_bytes = 60 * mib;
    gpu.multiprocessors = 132;
    gpu.managed_memory = true;
    gpu.virtual_memory_management = true;
    machine.gpus.push_back(gpu);
    return machine;
}

TEST(machine_info, describes_this_machine) {
    const machine_info machine = describe_machine();
    EXPECT_FALSE(machine.cpu.empty());
    EXPECT_GE(machine.usable_cores, 1);
    EXPECT_LE(machine.usable_cores, machine.cores);
    EXPECT_GT(machine.memory_bytes, 64 * mib);
    EXPECT_GT(machine.memory_available_bytes, 0u);
    EXPECT_LE(machine.memory_available_bytes, machine.memory_bytes);
    EXPECT_EQ(machine.cuda_in_build, ORCHARD_HAS_CUDA != 0);
    EXPECT_GE(machine.minimum_architecture, 50);
    EXPECT_EQ(machine.runtime_version > 0, machine.cuda_in_build);
    if (!machine.cuda_in_build || !machine.cuda_error.empty()) {
        EXPECT_TRUE(machine.gpus.empty());
    }
}

TEST(machine_info, the_text_says_all) {
    const std::string text = to_text(example());
    for (const char* part :
         {"CPU             Test CPU, 8 cores, 6 of them usable\n", "host memory     64 GiB, 32 GiB available\n",
          "CUDA            runtime 13.0, newest that the driver 570.86.10 supports: 12.8\n",
          "GPU 0           Test GPU, compute capability 9.0, 132 multiprocessors\n",
          "  memory        141 GiB (140 GiB free), L2 cache 60 MiB\n",
          "  managed memory yes, concurrent access no, host native atomics no\n",
          "  virtual memory management yes, compute allowed\n",
          "device auto     cuda: GPU 0 is usable: Test GPU, compute capability 9.0\n"}) {
        EXPECT_THAT(text, HasSubstr(part));
    }
    EXPECT_THAT(text, Not(HasSubstr("error")));
}

TEST(machine_info, the_text_says_why_there_is_no_gpu) {
    machine_info machine = example();
    machine.gpus.clear();
    machine.driver_version = 0;
    machine.driver.clear();
    machine.cuda_error = "cudaErrorInsufficientDriver: too old";
    const std::string why = "no NVIDIA driver was found (cudaErrorInsufficientDriver: too old)\n";
    EXPECT_THAT(to_text(machine), HasSubstr("newest that the driver supports: none\n"));
    EXPECT_THAT(to_text(machine), HasSubstr("GPU             none: " + why));
    EXPECT_THAT(to_text(machine), HasSubstr("device auto     emulated: " + why));
}

TEST(machine_info, the_text_says_which_gpu_does_not_answer) {
    machine_info machine = example();
    gpu_info broken;
    broken.error = "cudaGetDeviceProperties: cudaErrorUnknown: unknown error";
    machine.gpus.push_back(broken);
    EXPECT_THAT(to_text(machine),
                HasSubstr("GPU 1           error: cudaGetDeviceProperties: cudaErrorUnknown: unknown error\n"));
}

TEST(machine_info, the_json_has_every_value) {
    machine_info machine = example();
    machine.gpus.push_back(gpu_info{});
    const nlohmann::json json = json_of(machine);
    EXPECT_EQ(json.at("host"), (nlohmann::json{{"cpu", "Test CPU"},
                                               {"cores", 8},
                                               {"usable_cores", 6},
                                               {"memory_bytes", 64 * gib},
                                               {"memory_available_bytes", 32 * gib}}));
    EXPECT_EQ(json.at("cuda"), (nlohmann::json{{"in_build", true},
                                               {"runtime_version", 13000},
                                               {"driver_version", 12080},
                                               {"driver", "570.86.10"},
                                               {"error", ""},
                                               {"current_gpu", 0}}));
    ASSERT_EQ(json.at("gpus").size(), 2u);
    EXPECT_EQ(json.at("gpus")[0], (nlohmann::json{{"name", "Test GPU"},
                                                  {"compute_capability", "9.0"},
                                                  {"memory_bytes", 141 * gib},
                                                  {"memory_free_bytes", 140 * gib},
                                                  {"l2_bytes", 60 * mib},
                                                  {"multiprocessors", 132},
                                                  {"compute_prohibited", false},
                                                  {"managed_memory", true},
                                                  {"concurrent_managed_access", false},
                                                  {"host_native_atomics", false},
                                                  {"virtual_memory_management", true},
                                                  {"error", ""}}));
    EXPECT_TRUE(json.at("gpus")[1].at("memory_free_bytes").is_null());
    EXPECT_EQ(
        nlohmann::json(automatic_device_json(machine)),
        (nlohmann::json{
            {"kind", "cuda"}, {"reason", "GPU 0 is usable: Test GPU, compute capability 9.0"}, {"auto", "cuda"}}));
}

std::string output_of(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "orchard");
    testing::internal::CaptureStdout();
    const int code = command_line::run(static_cast<int>(arguments.size()), arguments.data());
    const std::string out = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, 0);
    return out;
}

TEST(info_command, prints_text_or_json_and_exits_0) {
    const std::string text = output_of({"info"});
    EXPECT_THAT(text, HasSubstr("CPU "));
    EXPECT_THAT(text, HasSubstr("device auto "));
    const auto json = nlohmann::json::parse(output_of({"info", "--json"}));
    EXPECT_EQ(json.at("host").at("cpu"), describe_machine().cpu);
}

TEST(options_command, prints_the_table) {
    testing_support::clean_environment environment;
    environment.set("ORCHARD_CAPACITY", "8MiB");
    const std::string text = output_of({"options"});
    for (const option_info& info : option_table()) {
        EXPECT_THAT(text, HasSubstr(info.flag + " "));
    }
    EXPECT_THAT(text, HasSubstr(" 8 MiB "));
    EXPECT_EQ(output_of({"options", "--markdown"}), options_markdown());
}

TEST(options_command, reports_a_wrong_environment) {
    testing_support::clean_environment environment;
    environment.set("ORCHARD_CAPACITY", "1");
    const char* argv[] = {"orchard", "options"};
    testing::internal::CaptureStderr();
    const int code = command_line::run(2, argv);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "orchard: ORCHARD_CAPACITY: \"1\" is below the minimum of 4 MiB; give 0, or 4 MiB to 32 TiB\n");
    EXPECT_EQ(code, 2);
}

}  // namespace
}  // namespace orchard
