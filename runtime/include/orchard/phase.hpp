// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `orchard::nvtx::phase`: phases of a program as ranges in Nsight's tools (docs/nsight.md).

#include "runtime/nvtx/phase.hpp"
