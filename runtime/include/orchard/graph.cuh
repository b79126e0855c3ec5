// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Dynamic graphs in a heap: `orchard::graph` on the host, `orchard::graph_ref` and `orchard::graph_view` in kernels.
/// C++20. A source that launches kernels of a graph's is compiled by nvcc.

#include "runtime/containers/graph.hpp"
