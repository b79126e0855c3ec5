// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The host side of Orchard: `orchard::heap`, its options, statistics and failures, and `simt::launch`. Users include
/// this file and no file of runtime/.

#include "runtime/heap/heap.hpp"
