// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Phases of a program by the names of its kernels, for programs that launch by `simt::launch`.

#include <string_view>

#include "runtime/nvtx/domain.hpp"

namespace orchard::nvtx {

/// Returns the phase of a kernel whose type is named in this text, such as `void f() [with Kernel =
/// ns::free_blocks<4>]`. The first word of the type's own name decides, behind `graph_`:
///
///     allocate    allocate, take, request, ask, insert, reserve, grow
///     free        free, give, put, release, clear, drain, forget, retire
///     build       build, fill, make, stamp, write, begin, init, start
///     compute     all others
name phase_of_kernel(std::string_view function);

/// Marks each launch of the process (`simt::launch`) as a range of its phase from now on, if a tool is attached. The
/// program's commands call it at their start; benchmarks and applications are thereby marked in one place.
void mark_launches();

}  // namespace orchard::nvtx
