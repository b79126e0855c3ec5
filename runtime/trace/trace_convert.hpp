// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Traces in the formats of other programs. Each takes events section by section, and writes as it goes.
///
///     rmm       RMM's log: a line for each block allocated or freed, which rmm's REPLAY_BENCH and pandas read
///     perfetto  Perfetto's protobuf: instants, slices of the growth thread, counters; for ui.perfetto.dev
///     pytorch   the pickle that PyTorch's memory_viz reads: blocks by address and time, with their tags

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trace/trace_format.hpp"

namespace orchard {

/// Writes a trace in another format.
class trace_converter {
public:
    trace_converter() = default;
    trace_converter(const trace_converter&) = delete;
    trace_converter& operator=(const trace_converter&) = delete;
    virtual ~trace_converter() = default;

    virtual void take(const std::vector<event>& events) = 0;
    /// Ends the output. It is called once, after all events.
    virtual void finish() = 0;
};

enum class trace_target { rmm, perfetto, pytorch };

/// Returns the converter, which writes to `out`; all arguments must outlive it.
/// @param names  of tags
std::unique_ptr<trace_converter> make_converter(trace_target to, const trace_info& info,
                                                const std::map<std::uint32_t, std::string>& names, std::ostream& out);

}  // namespace orchard
