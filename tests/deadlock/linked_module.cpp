// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "tests/deadlock/linked_module.hpp"

#include <string>

#include "absl/strings/str_format.h"
#include "uvm/memory/cuda_calls.hpp"

namespace orchard::test {
namespace {

/// The driver's calls for modules, found at run time: the program starts without a driver.
struct module_calls {
    decltype(cuLinkCreate)* create = nullptr;
    decltype(cuLinkAddData)* add = nullptr;
    decltype(cuLinkComplete)* complete = nullptr;
    decltype(cuLinkDestroy)* destroy = nullptr;
    decltype(cuModuleLoadData)* load = nullptr;

    absl::Status find_all() {
        using detail::driver_calls;
        absl::Status status;  // the first that is missing
        status.Update(driver_calls::find("cuLinkCreate", create));
        status.Update(driver_calls::find("cuLinkAddData", add));
        status.Update(driver_calls::find("cuLinkComplete", complete));
        status.Update(driver_calls::find("cuLinkDestroy", destroy));
        status.Update(driver_calls::find("cuModuleLoadData", load));
        return status;
    }
};

absl::Status to_status(CUresult result, const char* call) {
    return result == CUDA_SUCCESS ? absl::OkStatus()
                                  : absl::InternalError(absl::StrFormat("%s: error %d", call, result));
}

module_calls& calls() {
    static module_calls found;
    return found;
}

}  // namespace

absl::Status linked_module::link() {
    absl::Status status = calls().find_all();
    if (!status.ok()) {
        return status;
    }
    std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";
    CUlinkState linker{};
    void* code = nullptr;
    std::size_t bytes = 0;
    status.Update(to_status(calls().create(0, nullptr, nullptr, &linker), "cuLinkCreate"));
    if (!status.ok()) {
        return status;
    }
    const CUresult added =
        calls().add(linker, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "text", 0, nullptr, nullptr);
    if (added == CUDA_ERROR_JIT_COMPILER_NOT_FOUND) {
        return absl::UnavailableError("this driver comes without its compiler for PTX");
    }
    status.Update(to_status(added, "cuLinkAddData"));
    if (status.ok()) {
        status.Update(to_status(calls().complete(linker, &code, &bytes), "cuLinkComplete"));
    }
    if (status.ok()) {
        code_.assign(static_cast<char*>(code), static_cast<char*>(code) + bytes);
    }
    status.Update(to_status(calls().destroy(linker), "cuLinkDestroy"));
    return status;
}

absl::Status linked_module::load() {
    CUmodule made{};
    return to_status(calls().load(&made, code_.data()), "cuModuleLoadData");
}

}  // namespace orchard::test
