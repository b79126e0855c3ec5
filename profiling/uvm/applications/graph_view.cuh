// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Graphs of the applications, as kernels see them.

#include <cstdint>

#include "profiling/uvm/applications/parts.cuh"

namespace orchard::applications {

/// A graph in parts: the list of vertex v is `to[begin[v]]` to `to[begin[v + 1] - 1]`. `Edge` is the type of the
/// numbers of edges: 32 bits for the recorded applications, 64 bits for those on real memory.
template <class Edge>
struct graph_view {
    parts<simt::plain<Edge>> begin;
    parts<index> to;
};

}  // namespace orchard::applications
