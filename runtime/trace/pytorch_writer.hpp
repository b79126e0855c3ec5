// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "runtime/trace/trace_convert.hpp"

namespace orchard {

/// Returns the converter for PyTorch's memory_viz (torch/utils/viz/MemoryViz.js): a pickle of
/// {"device_traces": [[entry, ...]], "segments": [segment]}. The heap is one segment, from its first byte to the end of
/// the last block. A block's frames have one frame, with the name of its tag.
std::unique_ptr<trace_converter> make_pytorch_writer(const trace_info& info,
                                                     const std::map<std::uint32_t, std::string>& names,
                                                     std::ostream& out);

}  // namespace orchard
