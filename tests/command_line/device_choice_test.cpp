// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gtest/gtest.h>

#include "runtime/machine/machine_info.hpp"

namespace orchard {
namespace {

gpu_info good_gpu() {
    gpu_info gpu;
    gpu.name = "Test GPU";
    gpu.compute_major = 9;
    gpu.memory_bytes = 8 * gib;
    return gpu;
}

machine_info machine_with(gpu_info gpu) {
    machine_info machine;
    machine.cuda_in_build = true;
    machine.minimum_architecture = 80;
    machine.runtime_version = 13000;
    machine.driver_version = 13000;
    machine.gpus.push_back(std::move(gpu));
    return machine;
}

/// Expects that CUDA is not available: `auto` chooses the emulated device and gives the reason, `cuda` is an error.
void expect_emulated(const machine_info& machine, const std::string& what, const std::string& remedy) {
    const auto automatic = choose_device(device_option::automatic, machine);
    ASSERT_TRUE(automatic.ok());
    EXPECT_EQ(automatic->kind, simt::device_kind::emulated);
    EXPECT_EQ(automatic->reason, what);
    const absl::Status refused = choose_device(device_option::cuda, machine).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused));
    EXPECT_EQ(refused.message(), "device cuda: " + what + "; " + remedy + ", or take the device emulated");
}

TEST(choose_device, takes_a_usable_gpu) {
    for (const device_option wanted : {device_option::automatic, device_option::cuda}) {
        const auto choice = choose_device(wanted, machine_with(good_gpu()));
        ASSERT_TRUE(choice.ok());
        EXPECT_EQ(choice->kind, simt::device_kind::cuda);
        EXPECT_EQ(choice->reason, "GPU 0 is usable: Test GPU, compute capability 9.0");
    }
}

TEST(choose_device, takes_the_emulated_device_when_asked) {
    const auto choice = choose_device(device_option::emulated, machine_with(good_gpu()));
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice->kind, simt::device_kind::emulated);
    EXPECT_EQ(choice->reason, "it was asked for");
}

TEST(choose_device, takes_the_least_architecture) {
    gpu_info gpu = good_gpu();
    gpu.compute_major = 8;
    EXPECT_EQ(choose_device(device_option::automatic, machine_with(gpu))->kind, simt::device_kind::cuda);
}

TEST(choose_device, looks_at_the_current_gpu) {
    machine_info machine = machine_with(good_gpu());
    gpu_info old = good_gpu();
    old.compute_major = 7;
    machine.gpus.push_back(old);
    EXPECT_EQ(choose_device(device_option::automatic, machine)->kind, simt::device_kind::cuda);
    machine.current_gpu = 1;
    EXPECT_EQ(choose_device(device_option::automatic, machine)->kind, simt::device_kind::emulated);
}

TEST(choose_device, says_that_the_build_lacks_cuda) {
    machine_info machine = machine_with(good_gpu());
    machine.cuda_in_build = false;
    expect_emulated(machine, "this build has no CUDA support", "build it where the CUDA toolkit is installed");
}

TEST(choose_device, says_that_there_is_no_driver_in_its_own_words) {
    machine_info machine = machine_with(good_gpu());
    machine.gpus.clear();
    machine.driver_version = 0;
    machine.cuda_error = "cudaErrorInsufficientDriver: too old";
    expect_emulated(machine, "no NVIDIA driver was found (cudaErrorInsufficientDriver: too old)",
                    "install the driver, and see that this process may use it");
}

TEST(choose_device, says_that_the_driver_offers_nothing) {
    machine_info machine = machine_with(good_gpu());
    machine.gpus.clear();
    machine.driver_version = 12040;
    machine.cuda_error = "cudaErrorNoDevice: no CUDA-capable device is detected";
    expect_emulated(machine,
                    "the driver, for CUDA 12.4, offers no GPU (cudaErrorNoDevice: no CUDA-capable device is detected)",
                    "update the driver, or see that CUDA_VISIBLE_DEVICES names a GPU");
}

TEST(choose_device, says_that_there_is_no_gpu) {
    machine_info machine = machine_with(good_gpu());
    machine.gpus.clear();
    expect_emulated(machine, "no GPU was found", "see that one is installed and that CUDA_VISIBLE_DEVICES names it");
}

TEST(choose_device, says_that_the_gpu_is_too_old) {
    gpu_info gpu = good_gpu();
    gpu.compute_major = 7;
    gpu.compute_minor = 5;
    expect_emulated(machine_with(gpu), "GPU 0 (Test GPU) has compute capability 7.5 and this build needs 8.0",
                    "build for its architecture, or choose another GPU with CUDA_VISIBLE_DEVICES");
}

TEST(choose_device, says_that_the_gpu_is_closed) {
    gpu_info gpu = good_gpu();
    gpu.compute_prohibited = true;
    expect_emulated(machine_with(gpu), "GPU 0 (Test GPU) is in compute mode \"prohibited\"",
                    "allow contexts with `nvidia-smi -c 0`, or choose another GPU with CUDA_VISIBLE_DEVICES");
}

TEST(choose_device, says_that_the_gpu_does_not_answer) {
    gpu_info gpu;
    gpu.error = "cudaGetDeviceProperties: cudaErrorUnknown: unknown error";
    expect_emulated(machine_with(gpu),
                    "GPU 0 (unknown) does not answer: cudaGetDeviceProperties: cudaErrorUnknown: unknown error",
                    "reset it, or choose another GPU with CUDA_VISIBLE_DEVICES");
}

TEST(choose_device, on_this_machine_agrees_with_its_description) {
    const machine_info machine = describe_machine();
    for (const device_option wanted : {device_option::automatic, device_option::cuda, device_option::emulated}) {
        const auto here = choose_device(wanted);
        const auto described = choose_device(wanted, machine);
        ASSERT_EQ(here.ok(), described.ok());
        if (here.ok()) {
            EXPECT_EQ(here->kind, described->kind);
            EXPECT_EQ(here->reason, described->reason);
        } else {
            EXPECT_EQ(here.status(), described.status());
        }
    }
}

}  // namespace
}  // namespace orchard
