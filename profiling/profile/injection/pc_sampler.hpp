// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Samples of the program counter, by CUPTI's interface for them: the hardware writes where each multiprocessor is, and
/// CUPTI says in which function. Kernels run beside each other as without it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiling/profile/cubin_symbols.hpp"
#include "profiling/profile/injection/cupti_functions.hpp"

namespace orchard::profiling {

/// The samples of all contexts of the process. Not thread-safe.
class pc_sampler {
public:
    /// Starts to sample in a context. Returns an empty text, or why it cannot be sampled.
    std::string start(const cupti_functions& cupti, CUcontext context);

    /// Notes the functions of a module that was loaded. From then on, samples in a function that is not inlined bear
    /// its name; others, and all if this is not called or the CUPTI has no GetCubinCrc, that of the kernel.
    void load(const cupti_functions& cupti, const void* cubin, std::size_t bytes);

    /// Reads what is there now. Called where functions may soon get other places.
    void collect(const cupti_functions& cupti);

    /// Ends the sampling of a context, or of all if it is null.
    void stop(const cupti_functions& cupti, CUcontext context);

    /// The samples so far, by function as the compiler named it, and all: also those in no function.
    [[nodiscard]] const std::unordered_map<std::string, std::uint64_t>& functions() const { return functions_; }
    [[nodiscard]] std::uint64_t all() const { return all_; }
    [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

private:
    /// Memory that CUPTI writes program counters to.
    struct table {
        explicit table(std::size_t stall_reasons);
        std::vector<CUpti_PCSamplingStallReason> reasons;
        std::vector<CUpti_PCSamplingPCData> counters;
        CUpti_PCSamplingData data{};
        std::size_t stall_reasons;
    };
    struct sampled_context {
        CUcontext context = nullptr;
        std::unique_ptr<table> at_end;  ///< given to CUPTI, which writes to it when sampling ends
        std::unique_ptr<table> now;     ///< of `collect`
    };
    void collect(const cupti_functions& cupti, sampled_context& from);
    void add(table& from);

    cubin_symbols symbols_;
    std::vector<sampled_context> contexts_;
    std::unordered_map<std::string, std::uint64_t> functions_;
    std::uint64_t all_ = 0;
    std::uint64_t dropped_ = 0;
};

}  // namespace orchard::profiling
