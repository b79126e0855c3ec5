// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Records what CUPTI reports of this process in a file. One object for the process, made when the driver loads the
/// library, and never destroyed.
///
///     driver loads the library --> begin               opens the file, loads CUPTI, enables kinds of records
///     context is made          --> at_resource         configures unified memory, starts sampling
///     buffer of records is full --> take_buffer        copies records to the file
///     heap is made or ends     --> tell_heap           its range; what its segments were used for
///     exit                     --> end                 flushes, stops sampling, writes the end

#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "profiling/profile/injection/cupti_functions.hpp"
#include "profiling/profile/injection/pc_sampler.hpp"
#include "profiling/profile/record_writer.hpp"
#include "runtime/heap/profiled_heap.hpp"

namespace orchard::profiling {

/// What the command has asked for, from the environment.
struct recorder_settings {
    std::string folder;
    std::string cupti;
    std::uint64_t limit = 0;
    bool samples = false;
};

class recorder {
public:
    /// Opens the file and starts to record. Problems are written to the file, and not told otherwise. Returns false if
    /// there is no file to write to.
    bool begin(const recorder_settings& settings);

    /// Writes all that is left. In a process that was forked from the recorded one it closes the file alone.
    void end();

    /// Takes the records of a buffer. Called on CUPTI's thread, or within `end`.
    void take_buffer(std::uint8_t* buffer, std::size_t valid_bytes);

    /// Is told of contexts and modules.
    void at_resource(CUpti_CallbackId what, CUcontext context);
    void at_module(const CUpti_ModuleResourceData& module);

    /// Is told of a heap. Any thread may call it.
    void tell_heap(profiled_event event, const profiled_heap& heap);

private:
    /// The records of one buffer. Names still are CUPTI's.
    struct batch {
        std::vector<kernel_record> kernels;
        std::vector<const char*> names;  ///< [kernel]
        std::vector<unified_record> unified;
        std::vector<memory_record> memory;
        void take(const CUpti_Activity* record);
    };
    void enable(CUpti_ActivityKind kind, problem_code otherwise, const char* of);
    void configure_unified(const char* when);
    void tell(problem_code code, const std::string& text);
    [[nodiscard]] std::uint64_t now() const;

    // Set by `begin`, constant afterwards.
    cupti_functions cupti_;
    recorder_settings settings_;
    pid_t process_ = 0;
    bool records_ = false;  ///< CUPTI is in use

    // CUPTI calls back within its functions, so that there are two locks: under the first its functions are called, and
    // it may be taken again by a call of CUPTI's within them; under the second none is called.
    std::recursive_mutex calls_;
    bool inside_ = false;          ///< a call of CUPTI is under way: what it calls back is not for the recorder
    bool unified_ = false;         ///< configured and enabled
    std::string unified_problem_;  ///< why not, so far
    pc_sampler sampler_;

    std::mutex writes_;
    record_writer file_;
    std::vector<profiled_heap> heaps_;  ///< [number]: as they were opened; bytes 0: closed
};

}  // namespace orchard::profiling
