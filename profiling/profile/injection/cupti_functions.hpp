// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// CUPTI's functions, looked up in the library while the program runs: the recorder is not linked with CUPTI, so that
/// neither it nor a package of Orchard needs CUPTI to be installed.

#include <cupti.h>
#include <cupti_pcsampling.h>
#include <cstdint>

#include <string>

namespace orchard::profiling {

/// A row for each function: whether records can be made without it, and the name behind "cupti".
#define ORCHARD_CUPTI_FUNCTIONS(required, optional)                                                                    \
    required(GetVersion) required(GetResultString) required(GetTimestamp) required(ActivityRegisterCallbacks)          \
        required(ActivityEnable) required(ActivityFlushAll) required(ActivityGetNextRecord)                            \
            required(ActivityGetNumDroppedRecords) required(Subscribe) required(EnableCallback)                        \
                optional(ActivityFlushPeriod) optional(ActivityConfigureUnifiedMemoryCounter)                          \
                    optional(PCSamplingEnable) optional(PCSamplingDisable)                                             \
                        optional(PCSamplingSetConfigurationAttribute) optional(PCSamplingGetNumStallReasons)           \
                            optional(PCSamplingGetData) optional(GetCubinCrc)

struct cupti_functions {
#define ORCHARD_CUPTI_POINTER(name) decltype(&::cupti##name) name = nullptr;
    ORCHARD_CUPTI_FUNCTIONS(ORCHARD_CUPTI_POINTER, ORCHARD_CUPTI_POINTER)
#undef ORCHARD_CUPTI_POINTER

    /// Loads the library and looks its functions up. Returns an empty text, or why it cannot be used: it is not there,
    /// misses a function, or its records may have another form than those of the header of this build.
    std::string load(const char* path);

    /// Returns CUPTI's name of a result, such as CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, with what to do for the frequent
    /// ones.
    [[nodiscard]] std::string text_of(CUptiResult result) const;

    std::uint32_t version = 0;  ///< of the library; 0 before `load`
};

}  // namespace orchard::profiling
