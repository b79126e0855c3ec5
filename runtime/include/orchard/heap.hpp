// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The host side of Orchard: `orchard::heap`, its options, statistics and failures, `orchard::default_heap`, and
/// `simt::launch`. Users include this file and no file of runtime/.

#include "runtime/default_heap/default_heap.hpp"
#include "runtime/heap/heap.hpp"
