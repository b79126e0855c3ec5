// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "runtime/trace/trace_convert.hpp"

namespace orchard {

/// Returns the converter for Perfetto: a `Trace` of `TracePacket`s with `TrackEvent`s (Perfetto's
/// protos/perfetto/trace/track_event/track_event.proto). Counters are written at most every microsecond.
std::unique_ptr<trace_converter> make_perfetto_writer(const trace_info& info,
                                                      const std::map<std::uint32_t, std::string>& names,
                                                      std::ostream& out);

}  // namespace orchard
