// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Looks CUPTI's functions up; cupti_functions.hpp has the interface.

#include "profiling/profile/injection/cupti_functions.hpp"

#include <dlfcn.h>

namespace orchard::profiling {
namespace {

/// Returns the release of the toolkit that a version of CUPTI belongs to: 13 for 130001. Before CUDA 13, versions were
/// small numbers that each release raised; 18 came with CUDA 12.0.
constexpr std::uint32_t release_of(std::uint32_t version) {
    return version >= 10000 ? version / 10000 : version >= 18 ? 12 : 11;
}

}  // namespace

/// Within a release, CUPTI appends fields to its records alone, and the recorder reads those that all have.
std::string cupti_functions::load(const char* path) {
    void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* error = ::dlerror();
        return std::string("CUPTI cannot be loaded: ") + (error == nullptr ? path : error) +
               "; install the CUDA toolkit (package cuda-cupti), or set CUDA_HOME to its folder";
    }
    const char* missing = nullptr;
#define ORCHARD_CUPTI_LOOK_UP(name) name = reinterpret_cast<decltype(name)>(::dlsym(library, "cupti" #name));
#define ORCHARD_CUPTI_REQUIRE(name)                                                                                    \
    ORCHARD_CUPTI_LOOK_UP(name)                                                                                        \
    if (name == nullptr) {                                                                                             \
        missing = missing == nullptr ? "cupti" #name : missing;                                                        \
    }
    ORCHARD_CUPTI_FUNCTIONS(ORCHARD_CUPTI_REQUIRE, ORCHARD_CUPTI_LOOK_UP)
#undef ORCHARD_CUPTI_REQUIRE
#undef ORCHARD_CUPTI_LOOK_UP
    if (missing != nullptr) {
        return std::string(path) + " has no function " + missing + ": it is no CUPTI of CUDA 12 or later";
    }
    if (const CUptiResult r = GetVersion(&version); r != CUPTI_SUCCESS) {
        return "CUPTI does not tell its version: " + text_of(r);
    }
    if (release_of(version) != release_of(CUPTI_API_VERSION)) {
        return std::string(path) + " is of CUDA " + std::to_string(release_of(version)) +
               ", and this orchard was built with CUPTI of CUDA " + std::to_string(release_of(CUPTI_API_VERSION)) +
               ", whose records differ; set CUDA_HOME to a toolkit of that release";
    }
    return "";
}

std::string cupti_functions::text_of(CUptiResult result) const {
    const char* name = nullptr;
    std::string text = GetResultString(result, &name) == CUPTI_SUCCESS && name != nullptr
                           ? std::string(name)
                           : "error " + std::to_string(static_cast<int>(result));
    switch (result) {
        case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
        case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
            return text +
                   ": the driver lets the administrator alone profile; run it as root, or load the kernel module with "
                   "NVreg_RestrictProfilingToAdminUsers=0";
        case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
            return text + ": another tool, such as a debugger or a profiler, uses CUPTI in this program; leave it out";
        default: return text;
    }
}

}  // namespace orchard::profiling
